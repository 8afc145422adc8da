//! Decodes records. Whatever the bytes are, decoding terminates, allocates nothing and never panics.

use core::fmt;

use crate::fields::{Fields, Seen, number, number64, numbers, text};
use crate::layout::{self, HEADER_LEN, MAGIC, NOT_FIXED, VERSION, kind};
use crate::param::Repr;
use crate::{ImageRecord, KernelRecord, LibraryRecord, Needs, Param, Params, Problem, StackFrames};

/// One record of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "records are handled one by one, and this crate allocates nothing"
)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A registered kernel.
    Kernel(KernelRecord<'a>),
    /// The copy of kernel-registry that the binary contains.
    Library(LibraryRecord<'a>),
    /// A record of a newer version or an unknown kind. The payload isn't decoded.
    Newer {
        /// The version in the record's header.
        version: u16,
    },
}

/// An iterator over the records of a section, in the order in which the linker put them.
///
/// Zeros between records are padding. The first malformed record ends the iteration with an error, because
/// the bytes after it can't be trusted.
#[derive(Clone, Debug)]
pub struct Records<'a>(Frames<'a>);

/// The error for a malformed record in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The offset of the record in bytes from the start of the section.
    pub offset: usize,
    /// The defect of the record.
    pub problem: Problem,
}

impl<'a> Records<'a> {
    /// Creates the iterator over a section's bytes.
    pub const fn new(section: &'a [u8]) -> Self {
        Records(Frames::new(section))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let frame = match self.0.next()? {
            Ok(frame) => frame,
            Err(malformed) => return Some(Err(malformed)),
        };
        let record = frame.decode().map_err(|problem| {
            self.0.stop();
            Malformed { offset: frame.offset, problem }
        });
        Some(record)
    }
}

/// An iterator over the frames of a section, without decoding them.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    section: &'a [u8],
    at: usize,
}

/// A record that has not been decoded yet.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    offset: usize,
    version: u16,
    kind: u16,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Returns whether the frame holds a kernel that this version can read.
    pub const fn is_kernel(&self) -> bool {
        self.version <= VERSION && self.kind == kind::KERNEL
    }

    fn decode(&self) -> Result<Record<'a>, Problem> {
        match (self.version, self.kind) {
            (0..=VERSION, kind::KERNEL) => kernel(self.payload).map(Record::Kernel),
            (0..=VERSION, kind::LIBRARY) => library(self.payload).map(Record::Library),
            (version, _) => Ok(Record::Newer { version }),
        }
    }
}

impl<'a> Frames<'a> {
    /// Creates the iterator over a section's bytes.
    pub const fn new(section: &'a [u8]) -> Self {
        Frames { section, at: 0 }
    }

    fn read(&mut self) -> Result<Option<Frame<'a>>, Problem> {
        let rest = self.section.get(self.at..).unwrap_or_default();
        let Some(padding) = rest.iter().position(|&byte| byte != 0) else {
            self.stop();
            return Ok(None);
        };
        self.at += padding;
        let rest = &rest[padding..];

        let known = rest.len().min(MAGIC.len());
        if rest[..known] != MAGIC[..known] {
            return Err(Problem::Magic);
        }
        let (header, rest) = rest.split_first_chunk::<HEADER_LEN>().ok_or(Problem::Truncated)?;
        let [.., v0, v1, k0, k1, l0, l1, l2, l3] = *header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let frame = Frame {
            offset: self.at,
            version: u16::from_le_bytes([v0, v1]),
            kind: u16::from_le_bytes([k0, k1]),
            payload: rest.get(..length).ok_or(Problem::Truncated)?,
        };
        self.at += HEADER_LEN + length;
        Ok(Some(frame))
    }

    /// Ends the iteration.
    fn stop(&mut self) {
        self.at = self.section.len();
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.read() {
            Ok(frame) => frame.map(Ok),
            Err(problem) => {
                let malformed = Malformed { offset: self.at, problem };
                self.stop();
                Some(Err(malformed))
            }
        }
    }
}

fn kernel(payload: &[u8]) -> Result<KernelRecord<'_>, Problem> {
    let (mut kernel, mut seen) = (KernelRecord::EMPTY, Seen::default());
    let mut image = ImageRecord { file: "", len: 0, variants: "", separable: false };
    let (mut params, mut layouts): (_, &[[u8; 8]]) = (0, &[]);
    for field in Fields(payload) {
        let (tag, bytes) = field?;
        match tag {
            layout::kernel::PATH => kernel.path = text(bytes)?,
            layout::kernel::SYMBOL => kernel.symbol = text(bytes)?,
            layout::kernel::PACKAGE => kernel.package = text(bytes)?,
            layout::kernel::VERSION => kernel.version = text(bytes)?,
            layout::kernel::FILE => kernel.file = text(bytes)?,
            layout::kernel::POSITION => [kernel.line, kernel.column] = numbers(bytes)?,
            layout::kernel::SUMMARY => kernel.summary = text(bytes)?,
            layout::kernel::PARAM => {
                Param::decode(bytes)?;
                params += 1;
                continue;
            }
            layout::kernel::SOURCE_NAMES => kernel.source_names = text(bytes)?,
            layout::kernel::MIN_ARCH => kernel.min_arch = Some(number(bytes)?),
            layout::kernel::LAUNCH => {
                let [x, y, z, shared] = numbers(bytes)?;
                (kernel.block, kernel.shared) = (given(x).map(|x| [x, y, z]), given(shared));
            }
            layout::kernel::LAYOUTS => {
                let (sizes, []) = bytes.as_chunks::<8>() else { return Err(Problem::FieldSize) };
                layouts = sizes;
            }
            layout::kernel::IMAGE_FILE => image.file = text(bytes)?,
            layout::kernel::IMAGE_LEN => image.len = number64(bytes)?,
            layout::kernel::IMAGE_VARIANTS => image.variants = text(bytes)?,
            layout::kernel::IMAGE_SEPARABLE => image.separable = true,
            layout::kernel::NEEDS => {
                let &[bits] = bytes else { return Err(Problem::FieldSize) };
                kernel.needs = Needs::from_bits(bits);
            }
            layout::kernel::STACK => kernel.stack = given(number(bytes)?),
            layout::kernel::FRAMES => {
                let [recursive, launched] = numbers(bytes)?.map(given);
                kernel.frames = StackFrames { recursive, launched };
            }
            layout::kernel::COPY => kernel.copy = number64(bytes)?,
            _ => continue,
        }
        seen.add(tag)?;
    }
    seen.require(&layout::kernel::NEEDED)?;
    if layouts.len() != params {
        return Err(Problem::FieldSize);
    }
    if seen.has(layout::kernel::IMAGE_FILE) || seen.has(layout::kernel::IMAGE_LEN) {
        seen.require(&[layout::kernel::IMAGE_FILE, layout::kernel::IMAGE_LEN])?;
        kernel.image = Some(image);
    }
    Ok(KernelRecord { params: Params(Repr::Recorded { fields: payload, layouts }), ..kernel })
}

/// Returns a number of the declaration, or `None` for `NOT_FIXED`.
fn given(number: u32) -> Option<u32> {
    (number != NOT_FIXED).then_some(number)
}

fn library(payload: &[u8]) -> Result<LibraryRecord<'_>, Problem> {
    let mut library = LibraryRecord { version: "", compiler: "", copy: 0 };
    let mut seen = Seen::default();
    for field in Fields(payload) {
        let (tag, bytes) = field?;
        match tag {
            layout::library::VERSION => library.version = text(bytes)?,
            layout::library::COMPILER => library.compiler = text(bytes)?,
            layout::library::COPY => library.copy = number64(bytes)?,
            _ => continue,
        }
        seen.add(tag)?;
    }
    seen.require(&[layout::library::VERSION, layout::library::COMPILER])?;
    Ok(library)
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record at byte {}: {}", self.offset, self.problem)
    }
}

impl core::error::Error for Malformed {}
