//! What a core dump says.

use std::fmt;
use std::sync::Arc;

use kernel_registry_format::is_control;

use super::exception::Exception;
use crate::signature::readable;

/// The most calls in each other that are read.
pub(super) const DEPTH: usize = 64;

/// A core dump of GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dump {
    /// The GPUs that the program can use.
    pub devices: Vec<Device>,
    /// The running kernels, in the order of their launches.
    pub grids: Vec<Grid>,
    /// Faults of threads that have ended since, so that their kernels aren't known.
    pub lost: Vec<LostFault>,
}

/// A fault whose thread isn't known: after an access to an illegal address, all threads can have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostFault {
    /// The index of the GPU.
    pub device: usize,
    /// The exception.
    pub exception: Exception,
    /// The number of multiprocessors that report it.
    pub multiprocessors: u64,
    /// The functions, the innermost first. There's at least one.
    pub frames: Vec<Frame>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// The name, such as `NVIDIA H200`.
    pub name: String,
    /// The numbers of its PCI bus and of itself there, which tell GPUs of a machine apart.
    pub pci: (u32, u32),
    /// The compute capability.
    pub capability: (u32, u32),
    /// The number of multiprocessors.
    pub multiprocessors: u32,
}

/// A running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grid {
    /// The index of its GPU.
    pub device: usize,
    /// The number that the driver gave to the launch.
    pub number: u64,
    /// The kernel's symbol, or its address if no image has a name for it.
    pub kernel: String,
    /// The blocks of the launch in each dimension.
    pub grid: [u32; 3],
    /// The threads of a block in each dimension.
    pub block: [u32; 3],
    /// How many blocks have a multiprocessor.
    pub resident: u64,
    /// How many blocks have started, if blocks start in the order of their indices: the index of the last resident one, plus
    /// one.
    pub started: u64,
    /// Where the resident threads are, most threads first.
    pub places: Vec<Place>,
    /// The threads that ended the kernel, in the order of their blocks.
    pub faults: Vec<Fault>,
}

impl Grid {
    /// Returns the number of blocks of the launch.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().fold(1, |product, blocks| product.saturating_mul((*blocks).into()))
    }

    /// Returns a block's place in the order of all blocks.
    pub(super) fn index(&self, [x, y, z]: [u32; 3]) -> u64 {
        let [width, height, _] = self.grid.map(u64::from);
        let row = u64::from(z).saturating_mul(height).saturating_add(y.into());
        row.saturating_mul(width).saturating_add(x.into())
    }
}

/// A place in a kernel's code, and the threads there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The functions, the innermost first. There's at least one.
    pub frames: Vec<Frame>,
    /// The number of threads.
    pub threads: u64,
    /// One of the threads.
    pub example: Thread,
}

/// A thread of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thread {
    /// The index of the block.
    pub block: [u32; 3],
    /// The index in the block.
    pub thread: [u32; 3],
}

/// A thread that ended its kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The exception.
    pub exception: Exception,
    /// The thread.
    pub thread: Thread,
    /// The functions, the innermost first. There's at least one.
    pub frames: Vec<Frame>,
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([x, y, z], [tx, ty, tz]) = (self.block, self.thread);
        write!(f, "thread ({tx},{ty},{tz}) of block ({x},{y},{z})")
    }
}

/// A function in which a thread is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Frame {
    /// The function's symbol, or the address if no image has a name for it.
    pub function: Arc<str>,
    /// The instruction's offset in the function that it was compiled into.
    pub offset: u64,
    /// The line, if the image was compiled with lines.
    pub line: Option<Line>,
    /// Whether the compiler inlined the function into the next frame's.
    pub is_inlined: bool,
}

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The path of the file, as the compiler saw it.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u32,
}

impl Frame {
    /// Returns the frame without what differs from instruction to instruction of a line, or of a function without lines.
    pub(super) fn without_offset(&self) -> Frame {
        Frame { offset: 0, ..self.clone() }
    }
}

impl fmt::Display for Frame {
    /// Writes the function as C++ has it, and the line, or else the offset.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = readable(&self.function);
        match &self.line {
            Some(Line { file, line }) => write!(f, "{}:{line} {function}", short(file)),
            None => write!(f, "{function}+{:#x}", self.offset),
        }
    }
}

/// Returns the name of a file without its folder.
fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns a text of unknown origin without control characters, and not longer than any name or path.
pub(super) fn printable(text: &str) -> String {
    const MOST: usize = 1024;
    text.chars().filter(|character| !is_control(*character)).take(MOST).collect()
}

/// Returns the NUL-terminated string at an offset of a string table, at most `longest` bytes of it; an offset out of bounds gives an empty one.
pub(super) fn text_at(texts: &[u8], offset: u64, longest: usize) -> String {
    let rest = usize::try_from(offset).ok().and_then(|offset| texts.get(offset..)).unwrap_or(&[]);
    let text = rest[..rest.len().min(longest)].split(|byte| *byte == 0).next().unwrap_or(&[]);
    printable(&String::from_utf8_lossy(text))
}
