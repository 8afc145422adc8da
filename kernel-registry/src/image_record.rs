//! Writes the records of kernels without a `#[gpu_kernel]` declaration, from their images.

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

/// Returns the record of a kernel. Its parameters are named `p0`, `p1` and so on.
pub(crate) fn record(image: &Image, entry: &Entry, source: &Source<'_>) -> Vec<u8> {
    let Source { path, file, line, column, image: image_record, block, shared, stack } = *source;
    let types: Vec<_> = (0..entry.params.len()).map(|index| type_name(entry, index)).collect();
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

/// Returns the spelling of a parameter's type in C++, or in PTX if the C++ type is not known.
fn type_name(entry: &Entry, index: usize) -> String {
    match (entry.cuda_type(index), &entry.params[index]) {
        (Some(ty), _) => ty.to_string(),
        (None, ParamLayout { pointee_align: Some(_), .. }) => "pointer".to_owned(),
        (None, ParamLayout { ptx_type: Some(ty), .. }) => format!(".{ty}"),
        (None, ParamLayout { size, .. }) => format!("{size} bytes"),
    }
}

/// Describes a parameter. The size of an element is 0 if the image does not give it.
fn param<'a>(name: &'a str, ty: &'a str, layout: &ParamLayout, cuda: Option<&CudaType>) -> Param<'a> {
    const UNKNOWN: (u32, u32) = (0, 1);
    let (pass, (size, align)) = match cuda {
        Some(CudaType::Pointer { to, is_const, .. }) => {
            let pass = if *is_const { Pass::Pointer } else { Pass::PointerMut };
            // Only a scalar's alignment is known: it equals the scalar's size.
            let is_scalar = matches!(**to, CudaType::Scalar(_) | CudaType::Pointer { .. });
            let size = to.size().filter(|size| is_scalar && *size > 0);
            (pass, size.map_or(UNKNOWN, |size| (size, size)))
        }
        Some(CudaType::Other(_)) | None if can_be_address(layout) => (Pass::Pointer, UNKNOWN),
        _ => (Pass::Value, (layout.size, layout.align.unwrap_or(0))),
    };
    let param = Param::new(name, ty, pass, size, align);
    if pass == Pass::Value { param } else { param.or_null() }
}

/// Returns whether a parameter of unknown C++ type can be an address.
fn can_be_address(layout: &ParamLayout) -> bool {
    let ty = layout.ptx_type.as_deref();
    layout.size == 8 && layout.pointee_align.is_some() | matches!(ty, None | Some("u64" | "b64" | "s64"))
}
