//! Preloads: files that name what one run of a program loaded late, so that the next run loads it before it is ready.
//!
//! A preload is text, for people to read, keep and merge:
//!
//! ```
//! # use kernel_audit_record as kernel_audit;
//! use kernel_audit::preload::{How, Origin, Preload};
//!
//! let text = "kernel-registry preload 1\n\
//!     library 00000000deadbeef 4096 0x1000 /opt/libdemo.so\n    _Z5saxpyifPKfPf\n\
//!     stack 2048\n";
//! let mut preload: Preload = text.parse()?;
//! let origin: Origin = "library 00000000deadbeef 4096 0x1000 /opt/libdemo.so".parse()?;
//! assert_eq!((origin.how, preload.sizes.stack), (How::Library, 2048));
//! preload.add(origin, Some("_Z5scalefPf"));
//! assert_eq!(preload.kernels(), 2);
//! assert_eq!(preload.to_string().parse(), Ok(preload));
//! # Ok::<(), kernel_audit::preload::Malformed>(())
//! ```

mod compiled;
mod copies;
mod device;
mod origin;
mod ptx;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kernel_registry_format::is_control;

use crate::fnv1a::fnv1a;
use crate::record::{Limit, open_plain};

pub use compiled::Compiled;
pub use copies::keep_copy;
pub use device::Device;
#[doc(hidden)]
pub use origin::BEGIN;
use origin::HEADER;
pub use origin::{How, Malformed, Origin};
pub use ptx::{Ptx, baked_file, baked_key, baked_key_of_entry};

#[doc(inline)]
pub use crate::kept::Digest;

/// The word that stands for an image in a context, in a list of kernels.
pub const IN_CONTEXT: &str = "*";

/// The most bytes that a preload can have.
const LARGEST: u64 = 64 << 20;

/// What to load before a program is ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preload {
    /// The images, each with its kernels.
    pub images: BTreeMap<Origin, Wanted>,
    /// The sizes that a context needs at least.
    pub sizes: Sizes,
    /// The buffers that the driver sets up for kernels that use them.
    pub prime: Prime,
    /// What NVRTC compiled, by its key: a digest of the program, its options, and the compiler.
    pub compiled: BTreeMap<Digest, Compiled>,
    /// The PTX that the program loaded, late or not, of which [another file](baked_file) can have machine code.
    pub ptx: BTreeSet<Ptx>,
    /// The GPUs on which it was recorded.
    pub devices: BTreeSet<Device>,
}

/// The kernels to load from an image, and how often to load it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wanted {
    /// The kernels. [`IN_CONTEXT`] stands for the image in the context, as `cuLibraryGetModule` and `cuLibraryGetGlobal` need it.
    pub kernels: BTreeSet<String>,
    /// How often the program loads the image, if more than once.
    pub times: u32,
}

/// Sizes of what the driver keeps for kernels, in bytes, or 0 for its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sizes {
    /// The stack of a thread.
    pub stack: u64,
    /// The buffer of printf, as the program sets it.
    pub printf: u64,
    /// The heap of malloc, as the program sets it.
    pub heap: u64,
}

/// Returns the word that begins the line of a limit.
pub fn word_of(limit: Limit) -> &'static str {
    match limit {
        Limit::Stack => "stack",
        Limit::Printf => "printf",
        Limit::Heap => "heap",
    }
}

impl Sizes {
    /// Returns each size with the word that begins its line.
    fn lines(&mut self) -> [(&'static str, &mut u64); 3] {
        [
            (word_of(Limit::Stack), &mut self.stack),
            (word_of(Limit::Printf), &mut self.printf),
            (word_of(Limit::Heap), &mut self.heap),
        ]
    }

    /// Raises each size to that of `other`, if that is larger.
    pub fn raise(&mut self, mut other: Sizes) {
        for ((_, own), (_, other)) in self.lines().into_iter().zip(other.lines()) {
            *own = (*own).max(*other);
        }
    }
}

/// The buffers that the driver sets up when a kernel that uses them is launched for the first time. Setting them up
/// waits for the whole device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prime {
    /// The buffer of printf.
    pub printf: bool,
    /// The buffer of assert.
    pub assert: bool,
    /// The heap of malloc.
    pub heap: bool,
}

impl Prime {
    const WORDS: [&str; 3] = ["printf", "assert", "heap"];

    fn flags(&mut self) -> [&mut bool; 3] {
        [&mut self.printf, &mut self.assert, &mut self.heap]
    }

    /// Returns whether nothing is set up.
    pub fn is_nothing(self) -> bool {
        self == Prime::default()
    }
}

impl Preload {
    /// Adds an image, and a kernel of the image if one is named.
    pub fn add(&mut self, origin: Origin, kernel: Option<&str>) {
        let Wanted { kernels, .. } = self.images.entry(origin).or_default();
        kernels.extend(kernel.filter(|kernel| is_a_word(kernel)).map(str::to_owned));
    }

    /// Adds what another preload names.
    pub fn merge(&mut self, other: Preload) {
        for (origin, wanted) in other.images {
            let own = self.images.entry(origin).or_default();
            own.kernels.extend(wanted.kernels);
            own.times = own.times.max(wanted.times);
        }
        self.compiled.extend(other.compiled);
        self.ptx.extend(other.ptx);
        self.devices.extend(other.devices);
        self.sizes.raise(other.sizes);
        let (mut own, mut others) = (self.prime, other.prime);
        own.flags().into_iter().zip(others.flags()).for_each(|(own, other)| *own |= *other);
        self.prime = own;
    }

    /// Reads a preload from a file.
    ///
    /// # Errors
    ///
    /// There is no such file, or it cannot be read. If the file is no preload, the error is of the kind `InvalidData`,
    /// and its text says why.
    pub fn read(path: &Path) -> io::Result<Self> {
        let no_preload = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        // `open_plain` opens no pipe, because opening a pipe waits for its writer.
        let (file, length) = open_plain(path).map_err(|error| match error.kind() {
            io::ErrorKind::Other => no_preload(error.to_string()),
            _ => error,
        })?;
        if length > LARGEST {
            return Err(no_preload(format!("it is longer than {LARGEST} bytes")));
        }
        let mut text = String::new();
        file.take(length).read_to_string(&mut text)?;
        text.parse().map_err(|error: Malformed| no_preload(error.to_string()))
    }

    /// Returns the number of kernels that the preload names.
    pub fn kernels(&self) -> usize {
        self.images.values().map(|wanted| wanted.kernels.len()).sum()
    }
}

/// Returns a number that tells images apart: a 64-bit FNV-1a hash of the image's length and bytes, eight bytes at a
/// time. Of an image longer than 256 KiB the hash covers 64 parts of 4 KiB, because the driver does not read all of
/// such an image either.
pub fn hash(image: &[u8]) -> u64 {
    const PARTS: usize = 64;
    const PART: usize = 4096;
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let parts = image.chunks((image.len() / PARTS).max(PART)).map(|chunk| &chunk[..chunk.len().min(PART)]);
    fnv1a([image.len() as u64].into_iter().chain(parts.flat_map(|part| part.chunks(8)).map(word)))
}

/// Returns the folder beside a preload for copies of images that are in no file.
pub fn images(preload: &Path) -> PathBuf {
    let mut folder = preload.as_os_str().to_owned();
    folder.push(".images");
    folder.into()
}

/// Returns whether a name fits into a line of a preload: it has no spaces and no control characters.
fn is_a_word(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| is_control(c) || c.is_whitespace())
}

impl fmt::Display for Preload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        self.devices.iter().try_for_each(|device| writeln!(f, "{device}"))?;
        for (origin, Wanted { kernels, times }) in &self.images {
            if *times > 1 {
                write!(f, "{times} x ")?;
            }
            writeln!(f, "{origin}")?;
            kernels.iter().try_for_each(|kernel| writeln!(f, "    {kernel}"))?;
        }
        for (word, bytes) in { self.sizes }.lines() {
            if *bytes > 0 {
                writeln!(f, "{word} {bytes}")?;
            }
        }
        self.ptx.iter().try_for_each(|ptx| writeln!(f, "{ptx}"))?;
        self.compiled.iter().try_for_each(|(key, compiled)| compiled.write(f, key))?;
        if self.prime.is_nothing() {
            return Ok(());
        }
        let mut prime = self.prime;
        let words =
            prime.flags().into_iter().zip(Prime::WORDS).filter(|(is_on, _)| **is_on).map(|(_, word)| word);
        writeln!(f, "prime {}", words.collect::<Vec<_>>().join(" "))
    }
}

impl FromStr for Preload {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let malformed = |line: usize, text: &str| Malformed { line: line + 1, text: text.to_owned() };
        let mut lines = text.lines().enumerate();
        let (_, header) = lines.next().unwrap_or_default();
        if header.trim_end() != HEADER {
            return Err(malformed(0, header));
        }
        let mut preload = Preload::default();
        let mut image: Option<&mut Wanted> = None;
        for (number, whole) in lines {
            let line = whole.trim_end();
            let name = line.trim_start();
            if name.is_empty() || name.starts_with('#') {
                continue;
            }
            if name.len() < line.len() {
                let image = image.as_mut().filter(|_| is_a_word(name));
                image.ok_or_else(|| malformed(number, line))?.kernels.insert(name.to_owned());
            } else if let Some((word, bytes)) = line.split_once(' ')
                && let Some((_, size)) = preload.sizes.lines().into_iter().find(|(its, _)| *its == word)
            {
                *size = bytes.parse::<u64>().map_err(|_| malformed(number, line))?.max(*size);
            } else if let Some(compiled) = Compiled::parse(whole) {
                preload.compiled.extend([compiled.map_err(|()| malformed(number, line))?]);
            } else if let Some(device) = Device::parse(whole) {
                preload.devices.insert(device.map_err(|()| malformed(number, line))?);
            } else if whole.starts_with("ptx ") {
                preload.ptx.insert(whole.parse().map_err(|_| malformed(number, line))?);
            } else if let Some(words) = line.strip_prefix("prime ") {
                for word in words.split(' ') {
                    let flag = Prime::WORDS.iter().position(|known| *known == word);
                    *preload.prime.flags()[flag.ok_or_else(|| malformed(number, line))?] = true;
                }
            } else {
                // The path can end with spaces, so the whole line is read.
                let counted = whole.starts_with(|c: char| c.is_ascii_digit());
                let counted = if counted { whole.split_once(" x ") } else { None };
                let (times, origin) = counted.map_or((Ok(1), whole), |(times, rest)| (times.parse(), rest));
                let origin = origin.parse().map_err(|_| malformed(number, line))?;
                let wanted = preload.images.entry(origin).or_default();
                wanted.times = wanted.times.max(times.map_err(|_| malformed(number, line))?);
                image = Some(wanted);
            }
        }
        Ok(preload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "kernel-registry preload 1\ndevice 9.0 NVIDIA H200\n# a comment\n\
        library 0123456789abcdef 100 0x40 /opt/a file.so\n    first\n    second\n\n\
        3 x module 00000000000000ff 200 0x0 /opt/b x c.cubin\nstack 4096\nptx - module 2 3 0x4 /a b.ptx\nptx maxrregcount=64 library 2 3 0x4 /c\nnvrtc \
        0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef \
        00000000000000000000000000000000000000000000000000000000000000ff a program \nprime printf heap\n";

    #[test]
    fn what_is_written_is_read() {
        let preload: Preload = TEXT.parse().unwrap();
        assert_eq!((preload.images.len(), preload.kernels(), preload.sizes.stack), (2, 2, 4096));
        assert_eq!(preload.to_string().parse(), Ok(preload.clone()));
        let mut merged = preload.clone();
        merged.merge(preload.clone());
        assert_eq!(merged, preload);
    }

    #[test]
    fn a_path_keeps_its_spaces() {
        for path in [" /a", "/b  ", "/c d"] {
            let text = format!("{HEADER}\nmodule 1 2 0x3 {path}\n    kernel  \n");
            let preload: Preload = text.parse().unwrap();
            assert!(preload.kernels() == 1 && preload.images.keys().all(|origin| origin.path == path));
        }
    }

    #[test]
    fn what_means_nothing_is_refused_with_its_line() {
        for (text, line) in [
            ("", 1),
            ("kernel-registry preload 2\n", 1),
            ("kernel-registry preload 1\n    kernel\n", 2),
            ("kernel-registry preload 1\n\nstack many\n", 3),
            ("kernel-registry preload 1\nprime pump\n", 2),
            ("kernel-registry preload 1\ndevice 9 NVIDIA H200\n", 2),
            ("kernel-registry preload 1\nnvrtc 12 34 name\n", 2),
            ("kernel-registry preload 1\nptx module 1 2 0x3 /x\n", 2),
            ("kernel-registry preload 1\nmany x library 1 2 0x3 /x\n", 2),
            ("kernel-registry preload 1\nlibrary 1 2 3 /x\n", 2),
            ("kernel-registry preload 1\nlibrary zz 2 0x3 /x\n", 2),
            ("kernel-registry preload 1\nlibrary 1 2 0x3 \n", 2),
            ("kernel-registry preload 1\nlibrary 1 2 0x3 /x\x1b[2J\n", 2),
            ("kernel-registry preload 1\nlibrary 1 2 0x3 /x\n  two words\n", 3),
        ] {
            assert_eq!(text.parse::<Preload>().map_err(|error| error.line), Err(line), "{text:?}");
        }
        for end in 0..TEXT.len() {
            let _ = TEXT[..end].parse::<Preload>();
        }
    }

    #[test]
    fn names_that_fit_no_line_are_left_out() {
        let mut preload = Preload::default();
        let origin: Origin = "module 1 2 0x3 /x".parse().unwrap();
        preload.add(origin.clone(), Some("a\nstack 1"));
        preload.add(origin, Some(""));
        assert_eq!((preload.images.len(), preload.kernels()), (1, 0));
    }

    #[test]
    fn a_hash_tells_images_apart() {
        let image: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();
        for byte in 0..image.len() / 100 {
            let mut other = image.clone();
            other[byte * 100] ^= 0x80;
            assert_ne!(hash(&image), hash(&other), "{byte}");
        }
        let long = vec![1; 10 << 20];
        assert_ne!(hash(&long), hash(&long[1..]));
        assert_ne!(hash(&image), hash(&image[..image.len() - 1]));
        assert_ne!(hash(&[]), hash(&[0]));
    }
}
