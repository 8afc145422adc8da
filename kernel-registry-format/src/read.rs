//! The decoder. On any bytes it ends, allocates nothing and never panics.

use core::fmt;

use crate::fields::{Fields, number64, numbers, once, text};
use crate::layout::{self, HEADER_LEN, MAGIC, NOT_FIXED, VERSION, kind};
use crate::param::Repr;
use crate::{ImageRecord, KernelRecord, LibraryRecord, Needs, Param, Params, Problem, StackFrames};

/// One record of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "records are looked at one by one, and this crate allocates nothing"
)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A registered kernel.
    Kernel(KernelRecord<'a>),
    /// The copy of kernel-registry that the binary contains.
    Library(LibraryRecord<'a>),
    /// A record of a later version, or of a kind that this one does not know: stepped over.
    Newer {
        /// The version in its header.
        version: u16,
    },
}

/// Reads the records of a section, in the order in which the linker put them.
///
/// Zeros between records are padding and skipped. The first record that makes no sense ends the
/// iteration with an error, because nothing behind it can be trusted.
#[derive(Clone, Debug)]
pub struct Records<'a>(Frames<'a>);

/// A section that does not consist of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where the record begins in which it was found, in bytes from the start of the section.
    pub offset: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

impl<'a> Records<'a> {
    /// Reads a section's bytes.
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

/// Splits a section into frames, without looking into them.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    section: &'a [u8],
    at: usize,
}

/// A record that has not been decoded.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    offset: usize,
    version: u16,
    kind: u16,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Whether it holds a kernel that this version can read.
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
    /// Reads a section's bytes.
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
    let mut path = None;
    let mut symbol = None;
    let mut package = None;
    let mut version = None;
    let mut file = None;
    let mut position = None;
    let mut summary = None;
    let mut min_arch = None;
    let mut params = 0;
    let mut launch = None;
    let mut layouts = None;
    let mut image_file = None;
    let mut image_len = None;
    let mut image_variants = None;
    let mut image_separable = None;
    let mut needs = None;
    let mut stack = None;
    let mut frames = None;
    let mut copy = None;
    for field in Fields(payload) {
        let (tag, bytes) = field?;
        match tag {
            layout::kernel::PATH => once(&mut path, text(bytes)?)?,
            layout::kernel::SYMBOL => once(&mut symbol, text(bytes)?)?,
            layout::kernel::PACKAGE => once(&mut package, text(bytes)?)?,
            layout::kernel::VERSION => once(&mut version, text(bytes)?)?,
            layout::kernel::FILE => once(&mut file, text(bytes)?)?,
            layout::kernel::POSITION => once(&mut position, numbers::<2>(bytes)?)?,
            layout::kernel::SUMMARY => once(&mut summary, text(bytes)?)?,
            layout::kernel::PARAM => {
                Param::decode(bytes)?;
                params += 1;
            }
            layout::kernel::MIN_ARCH => once(&mut min_arch, numbers::<1>(bytes)?[0])?,
            layout::kernel::LAUNCH => once(&mut launch, numbers::<4>(bytes)?)?,
            layout::kernel::LAYOUTS => {
                let (sizes, []) = bytes.as_chunks::<8>() else { return Err(Problem::FieldSize) };
                once(&mut layouts, sizes)?;
            }
            layout::kernel::IMAGE_FILE => once(&mut image_file, text(bytes)?)?,
            layout::kernel::IMAGE_LEN => once(&mut image_len, number64(bytes)?)?,
            layout::kernel::IMAGE_VARIANTS => once(&mut image_variants, text(bytes)?)?,
            layout::kernel::IMAGE_SEPARABLE => once(&mut image_separable, ())?,
            layout::kernel::NEEDS => {
                let &[bits] = bytes else { return Err(Problem::FieldSize) };
                once(&mut needs, Needs::of_bits(bits))?;
            }
            layout::kernel::STACK => once(&mut stack, numbers::<1>(bytes)?[0])?,
            layout::kernel::FRAMES => once(&mut frames, numbers::<2>(bytes)?)?,
            layout::kernel::COPY => once(&mut copy, number64(bytes)?)?,
            _ => {}
        }
    }
    let [line, column] = position.ok_or(Problem::FieldMissing)?;
    let layouts = layouts.ok_or(Problem::FieldMissing)?;
    if layouts.len() != params {
        return Err(Problem::FieldSize);
    }
    let given = |number: u32| (number != NOT_FIXED).then_some(number);
    let [x, y, z, shared] = launch.ok_or(Problem::FieldMissing)?;
    let frames = frames.map_or(StackFrames::KNOWN, |[recursive, launched]| StackFrames {
        recursive: given(recursive),
        launched: given(launched),
    });
    let image = match (image_file, image_len) {
        (Some(file), Some(len)) => Some(ImageRecord {
            file,
            len,
            variants: image_variants.unwrap_or(""),
            separable: image_separable.is_some(),
        }),
        (None, None) => None,
        _ => return Err(Problem::FieldMissing),
    };
    Ok(KernelRecord {
        path: path.ok_or(Problem::FieldMissing)?,
        symbol: symbol.ok_or(Problem::FieldMissing)?,
        package: package.ok_or(Problem::FieldMissing)?,
        version: version.ok_or(Problem::FieldMissing)?,
        file: file.ok_or(Problem::FieldMissing)?,
        line,
        column,
        summary: summary.unwrap_or(""),
        params: Params(Repr::Recorded { fields: payload, layouts }),
        min_arch,
        block: given(x).map(|x| [x, y, z]),
        shared: given(shared),
        stack: stack.and_then(given),
        frames,
        needs: needs.unwrap_or_default(),
        image,
        copy: copy.unwrap_or_default(),
    })
}

fn library(payload: &[u8]) -> Result<LibraryRecord<'_>, Problem> {
    let mut version = None;
    let mut compiler = None;
    let mut copy = None;
    for field in Fields(payload) {
        let (tag, bytes) = field?;
        match tag {
            layout::library::VERSION => once(&mut version, text(bytes)?)?,
            layout::library::COMPILER => once(&mut compiler, text(bytes)?)?,
            layout::library::COPY => once(&mut copy, number64(bytes)?)?,
            _ => {}
        }
    }
    Ok(LibraryRecord {
        version: version.ok_or(Problem::FieldMissing)?,
        compiler: compiler.ok_or(Problem::FieldMissing)?,
        copy: copy.unwrap_or_default(),
    })
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record at byte {}: {}", self.offset, self.problem)
    }
}

impl core::error::Error for Malformed {}
