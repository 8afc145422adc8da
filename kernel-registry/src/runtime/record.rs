//! The record of a kernel that was made at run time: what its image says of it.

use std::panic::Location;

use kernel_registry_format::{ImageRecord, KernelRecord, Param, Params, Pass, write_kernel};
use kernel_registry_image::{CudaType, Entry, Image, ParamLayout};

use crate::KernelInfo;
use crate::records::COPY;
use crate::table::Table;

/// What the caller declares of a kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Declared {
    Block([u32; 3]),
    Shared(u32),
    Stack(u32),
}

impl Declared {
    /// Refuses what no device has. The limits are those that `#[gpu_kernel]` knows.
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

/// The image, and where it was made.
pub(super) struct File<'a> {
    pub(super) name: &'a str,
    pub(super) len: usize,
    pub(super) variants: &'a str,
    pub(super) place: &'a Location<'a>,
}

/// The record of a kernel.
pub(super) fn record(
    image: &Image,
    entry: &Entry,
    file: &File<'_>,
    declared: impl Iterator<Item = Declared>,
) -> Vec<u8> {
    let types: Vec<_> = (0..entry.params.len()).map(|index| spelled(entry, index)).collect();
    let names: Vec<_> = (0..types.len()).map(|index| format!("p{index}")).collect();
    let params = entry.params.iter().zip(&names).zip(&types).enumerate();
    let params: Vec<_> =
        params.map(|(index, ((layout, name), ty))| param(name, ty, layout, entry.cuda_type(index))).collect();
    let mut kernel = KernelRecord {
        path: &format!("{}::{}", file.name, entry.name()),
        symbol: &entry.symbol,
        file: file.place.file(),
        line: file.place.line(),
        column: file.place.column(),
        params: Params::new(&params),
        block: entry.limits.required_threads,
        frames: image.stack_frames(&entry.symbol),
        needs: image.needs(&entry.symbol),
        image: Some(ImageRecord {
            file: file.name,
            len: file.len as u64,
            variants: file.variants,
            separable: image.is_separable(),
        }),
        copy: COPY,
        ..KernelRecord::EMPTY
    };
    for declared in declared {
        match declared {
            Declared::Block(block) => kernel.block = Some(block),
            Declared::Shared(bytes) => kernel.shared = Some(bytes),
            Declared::Stack(bytes) => kernel.stack = Some(bytes),
        }
    }
    let mut record = Vec::new();
    write_kernel(&kernel, &mut record);
    record
}

/// The kernel of a record. It is never freed: launches refer to it.
pub(super) fn info(record: Vec<u8>, image: &'static [u8]) -> &'static KernelInfo {
    Box::leak(Box::new(KernelInfo::made(record.leak(), image, Box::leak(Box::new(Table::COLD)))))
}

/// The type as C++ or PTX spells it.
fn spelled(entry: &Entry, index: usize) -> String {
    match (entry.cuda_type(index), &entry.params[index]) {
        (Some(ty), _) => ty.to_string(),
        (None, ParamLayout { pointee_align: Some(_), .. }) => "pointer".to_owned(),
        (None, ParamLayout { ptx_type: Some(ty), .. }) => format!(".{ty}"),
        (None, ParamLayout { size, .. }) => format!("{size} bytes"),
    }
}

/// A parameter. An element of no size stands for one that the image does not tell.
fn param<'a>(name: &'a str, ty: &'a str, layout: &ParamLayout, cuda: Option<&CudaType>) -> Param<'a> {
    const UNKNOWN: (u32, u32) = (0, 1);
    let (pass, (size, align)) = match cuda {
        Some(CudaType::Pointer { to, is_const, .. }) => {
            let pass = if *is_const { Pass::Pointer } else { Pass::PointerMut };
            // Only of a scalar is the alignment its size.
            let scalar = matches!(**to, CudaType::Scalar(_) | CudaType::Pointer { .. });
            let size = to.size().filter(|size| scalar && *size > 0);
            (pass, size.map_or(UNKNOWN, |size| (size, size)))
        }
        Some(CudaType::Other(_)) | None if is_address(layout) => (Pass::Pointer, UNKNOWN),
        _ => (Pass::Value, (layout.size, layout.align.unwrap_or(0))),
    };
    let param = Param::new(name, ty, pass, size, align);
    if pass == Pass::Value { param } else { param.or_null() }
}

/// Whether a parameter without a C++ type can be an address.
fn is_address(layout: &ParamLayout) -> bool {
    let number = layout.ptx_type.as_deref();
    layout.size == 8 && layout.pointee_align.is_some() | matches!(number, None | Some("u64" | "b64" | "s64"))
}
