//! Writes the record of a kernel that was compiled at run time, from its image and the caller's declarations.

use std::panic::Location;

use kernel_registry_format::ImageRecord;
use kernel_registry_image::{Entry, Image};

use crate::KernelInfo;
use crate::image_record::{self, Source};
use crate::table::Table;

/// A property of a kernel that the caller declares.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Declared {
    Block([u32; 3]),
    Shared(u32),
    Stack(u32),
}

impl Declared {
    /// Refuses a value that no device allows. `#[gpu_kernel]` has the same limits.
    pub(super) fn check(self) -> Result<(), String> {
        const STACK: u32 = 512 << 10;
        const SHARED: u32 = 1 << 20;
        match self {
            Declared::Block([x, y, z]) => {
                let threads = [x, y, z].into_iter().fold(1_u32, u32::saturating_mul);
                if (1..=1024).contains(&threads) && z <= 64 {
                    return Ok(());
                }
                Err(format!(
                    "a block has 1 to 1024 threads, 64 along its last axis, and not the {x} x {y} x {z}"
                ))
            }
            Declared::Shared(bytes) if bytes > SHARED => {
                Err(format!("no device has the {bytes} bytes of shared memory"))
            }
            Declared::Stack(bytes) if bytes > STACK => {
                Err(format!("a thread can have a stack of {STACK} bytes, and not the {bytes}"))
            }
            Declared::Shared(_) | Declared::Stack(_) => Ok(()),
        }
    }
}

/// The image's name, length and variants, and the place that called `RuntimeImage::new`.
pub(super) struct File<'a> {
    pub(super) name: &'a str,
    pub(super) len: usize,
    pub(super) variants: &'a str,
    pub(super) place: &'a Location<'a>,
}

/// Returns the record of a kernel. If the caller declared a property more than once, the last value counts.
pub(super) fn record(
    image: &Image,
    entry: &Entry,
    file: &File<'_>,
    declared: impl Iterator<Item = Declared>,
) -> Vec<u8> {
    let mut source = Source {
        path: &format!("{}::{}", file.name, entry.name()),
        file: file.place.file(),
        line: file.place.line(),
        column: file.place.column(),
        image: Some(ImageRecord {
            file: file.name,
            len: file.len as u64,
            variants: file.variants,
            separable: image.is_separable(),
        }),
        ..Source::default()
    };
    for declared in declared {
        match declared {
            Declared::Block(block) => source.block = Some(block),
            Declared::Shared(bytes) => source.shared = Some(bytes),
            Declared::Stack(bytes) => source.stack = Some(bytes),
        }
    }
    image_record::record(image, entry, &source)
}

/// Creates the `KernelInfo` of a record. It's never freed, because launches refer to it.
pub(super) fn info(record: Vec<u8>, image: &'static [u8]) -> &'static KernelInfo {
    Box::leak(Box::new(KernelInfo::runtime(record.leak(), image, Box::leak(Box::new(Table::COLD)))))
}
