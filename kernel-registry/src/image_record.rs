//! Writes records of kernels that have no `#[gpu_kernel]` declaration, from their image.

use kernel_registry_format::{ImageRecord, KernelRecord, Param, Params, Pass, write_kernel};
use kernel_registry_image::{CudaType, Entry, Image, ParamLayout};

use crate::records::COPY;

/// The facts about a kernel that its image does not contain: its path, its source, and what the program declares for it.
#[derive(Default)]
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) file: &'a str,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) image: Option<ImageRecord<'a>>,
    pub(crate) block: Option<[u32; 3]>,
    pub(crate) shared: Option<u32>,
    pub(crate) stack: Option<u32>,
}

/// Writes the record of a kernel.
pub(crate) fn record(image: &Image, entry: &Entry, source: &Source<'_>) -> Vec<u8> {
    let Source { path, file, line, column, image: image_record, block, shared, stack } = *source;
    let types: Vec<_> = (0..entry.params.len()).map(|index| spelled(entry, index)).collect();
    let names: Vec<_> = (0..types.len()).map(|index| format!("p{index}")).collect();
    let params = entry.params.iter().zip(&names).zip(&types).enumerate();
    let params: Vec<_> =
        params.map(|(index, ((layout, name), ty))| param(name, ty, layout, entry.cuda_type(index))).collect();
    let kernel = KernelRecord {
        path,
        symbol: &entry.symbol,
        file,
        line,
        column,
        params: Params::new(&params),
        block: block.or(entry.limits.required_threads),
        shared,
        stack,
        frames: image.stack_frames(&entry.symbol),
        needs: image.needs(&entry.symbol),
        image: image_record,
        copy: COPY,
        ..KernelRecord::EMPTY
    };
    let mut record = Vec::new();
    write_kernel(&kernel, &mut record);
    record
}

/// Returns a parameter's type, as C++ or PTX spells it.
fn spelled(entry: &Entry, index: usize) -> String {
    match (entry.cuda_type(index), &entry.params[index]) {
        (Some(ty), _) => ty.to_string(),
        (None, ParamLayout { pointee_align: Some(_), .. }) => "pointer".to_owned(),
        (None, ParamLayout { ptx_type: Some(ty), .. }) => format!(".{ty}"),
        (None, ParamLayout { size, .. }) => format!("{size} bytes"),
    }
}

/// Describes a parameter. The element has the size 0 if the image does not contain the element's size.
fn param<'a>(name: &'a str, ty: &'a str, layout: &ParamLayout, cuda: Option<&CudaType>) -> Param<'a> {
    const UNKNOWN: (u32, u32) = (0, 1);
    let (pass, (size, align)) = match cuda {
        Some(CudaType::Pointer { to, is_const, .. }) => {
            let pass = if *is_const { Pass::Pointer } else { Pass::PointerMut };
            // The alignment is known only for a scalar, and equals the size.
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

/// Returns whether a parameter whose C++ type is not known can be an address.
fn is_address(layout: &ParamLayout) -> bool {
    let number = layout.ptx_type.as_deref();
    layout.size == 8 && layout.pointee_align.is_some() | matches!(number, None | Some("u64" | "b64" | "s64"))
}
