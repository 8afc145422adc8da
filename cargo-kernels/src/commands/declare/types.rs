//! Chooses Rust types for the parameters of kernels, as the comparison of declarations with images expects them.

use kernel_registry_format::Pass;
use kernel_registry_image::comparison::{Expected, Param, Verdict};
use kernel_registry_image::{CudaType, Entry, ParamLayout, Scalar};

use super::kernel::Kernel;
use super::known_types::{VOID, number, ready};
use super::structs::Structs;

/// The Rust type of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParamType {
    pub(super) pass: Pass,
    /// The type passed by value, or what the slice or pointer points to.
    pub(super) element: String,
}

impl ParamType {
    fn new(pass: Pass, element: impl Into<String>) -> Self {
        ParamType { pass, element: element.into() }
    }

    /// Returns the type as Rust spells it, with this element type.
    pub(super) fn spelled(&self, element: &str) -> String {
        match self.pass {
            Pass::Value => element.to_owned(),
            Pass::Slice => format!("&[{element}]"),
            Pass::SliceMut => format!("&mut [{element}]"),
            Pass::Pointer => format!("*const {element}"),
            Pass::PointerMut => format!("*mut {element}"),
        }
    }

    /// Returns whether PTX or machine code leaves open which type the parameter has in the source.
    pub(super) fn is_vague(&self) -> bool {
        !matches!(self.element.as_str(), "f32" | "f64") || self.pass != Pass::Value
    }
}

/// Returns the types of a kernel's parameters.
pub(super) fn param_types(kernel: &Kernel<'_>, structs: &mut Structs<'_>) -> Vec<ParamType> {
    (0..kernel.entry.params.len()).map(|index| param(kernel, index, structs)).collect()
}

/// Registers the structs that are passed by value. This comes before other types, so that pointers to these structs have a size.
pub(super) fn enter_values(kernels: &[Kernel<'_>], structs: &mut Structs<'_>) {
    for kernel in kernels {
        values(kernel).for_each(|(index, name)| structs.learn(name, &kernel.entry.params[index]));
    }
    for kernel in kernels {
        values(kernel).for_each(|(index, _)| drop(param(kernel, index, structs)));
    }
}

/// Returns the index of each parameter whose C++ type has a name, with this name.
fn values<'a>(kernel: &'a Kernel<'_>) -> impl Iterator<Item = (usize, &'a str)> {
    (0..kernel.entry.params.len()).filter_map(|index| match kernel.cuda_type(index)? {
        CudaType::Named(name) => Some((index, name.as_str())),
        _ => None,
    })
}

fn param(kernel: &Kernel<'_>, index: usize, structs: &mut Structs<'_>) -> ParamType {
    let layout = &kernel.entry.params[index];
    match kernel.cuda_type(index) {
        Some(CudaType::Pointer { to, is_const, is_volatile }) => {
            let pass = if *is_const { Pass::Slice } else { Pass::SliceMut };
            let expected = expected(kernel.entry, index, pass);
            pointer(to, *is_const, *is_volatile, expected, structs)
        }
        Some(CudaType::Scalar(scalar)) => ParamType::new(Pass::Value, number(*scalar)),
        Some(CudaType::Named(name)) => {
            let known = ready(name).or_else(|| ptx_number(layout));
            ParamType::new(Pass::Value, known.unwrap_or_else(|| structs.value(name, layout)))
        }
        // References and pointers to functions are addresses.
        Some(CudaType::Other(_)) if layout.size == 8 => ParamType::new(Pass::PointerMut, VOID),
        Some(CudaType::Other(_)) | None => untyped(layout, structs),
    }
}

/// Returns the type of a parameter by its PTX type, or by its size alone.
fn untyped(layout: &ParamLayout, structs: &mut Structs<'_>) -> ParamType {
    match (ptx_number(layout).as_deref(), layout) {
        (Some("u64" | "i64"), _) => ParamType::new(Pass::PointerMut, VOID),
        (Some(number), _) => ParamType::new(Pass::Value, number),
        (None, ParamLayout { ptx_type: None, size: 8, .. }) => ParamType::new(Pass::PointerMut, VOID),
        (None, ParamLayout { ptx_type: None, size: size @ (1 | 2 | 4), .. }) => {
            ParamType::new(Pass::Value, format!("u{}", 8 * size))
        }
        (None, layout) => ParamType::new(Pass::Value, structs.value("", layout)),
    }
}

/// Returns the Rust type of a pointer: a slice of cudarc if possible, or else a raw pointer. A slice cannot have pointers or types
/// of unknown size as elements. A slice is not used for `volatile` memory, which other kernels or the host may
/// change during a launch.
fn pointer(
    to: &CudaType,
    is_const: bool,
    is_volatile: bool,
    expected: Option<Expected>,
    structs: &mut Structs<'_>,
) -> ParamType {
    let (slice, raw) = match is_const {
        true => (Pass::Slice, Pass::Pointer),
        false => (Pass::SliceMut, Pass::PointerMut),
    };
    let slice = if is_volatile { raw } else { slice };
    if let Some(element) = device_header_type(to, structs) {
        return ParamType::new(raw, element);
    }
    match (to, expected) {
        (CudaType::Scalar(Scalar::Void) | CudaType::Other(_), _) => ParamType::new(raw, VOID),
        (CudaType::Scalar(scalar), _) => ParamType::new(slice, number(*scalar)),
        (CudaType::Pointer { to, is_const, is_volatile }, _) => {
            let inner = pointer(to, *is_const, *is_volatile, None, structs);
            let inner = match inner.pass {
                Pass::Slice | Pass::Pointer => format!("*const {}", inner.element),
                _ => format!("*mut {}", inner.element),
            };
            ParamType::new(raw, inner)
        }
        (CudaType::Named(name), Some(Expected::Layout { size, align, .. })) => {
            let element = ready(name).unwrap_or_else(|| structs.pointee(name, [size, align]));
            ParamType::new(slice, element)
        }
        (CudaType::Named(name), _) => match ready(name).or_else(|| structs.known(name)) {
            Some(element) => ParamType::new(slice, element),
            None => ParamType::new(raw, structs.name(name, None)),
        },
    }
}

/// Returns the host's type for a type of the device header: a control block, or a queue.
fn device_header_type(ty: &CudaType, structs: &mut Structs<'_>) -> Option<String> {
    let CudaType::Named(name) = ty else { return None };
    let name = name.strip_prefix("kernel_registry::")?;
    if name == "Control" {
        return Some("kernel_registry_resident::Control".to_owned());
    }
    let value = CudaType::parse(name.strip_prefix("Queue<")?.strip_suffix('>')?);
    let value = pointer(&value, true, true, None, structs).element;
    Some(format!("kernel_registry_resident::Queue<{value}>"))
}

/// Returns the type that a parameter, or its elements, must have.
fn expected(entry: &Entry, index: usize, pass: Pass) -> Option<Expected> {
    let unknown = Param { name: "", spelled: "", pass, layout: None };
    match unknown.compare(index, entry, "") {
        Verdict::Needs { expected, .. } => Some(expected),
        Verdict::Meets | Verdict::Wrong(_) => None,
    }
}

/// Returns the number type of a parameter by its PTX type, for enumerations and dependent types.
fn ptx_number(layout: &ParamLayout) -> Option<String> {
    let (kind, bits) = layout.ptx_type.as_deref()?.split_at_checked(1)?;
    let kind = match (kind, bits) {
        ("f", "32" | "64") => "f",
        ("s", "8" | "16" | "32" | "64") => "i",
        ("u" | "b", "8" | "16" | "32" | "64") => "u",
        _ => return None,
    };
    Some(format!("{kind}{bits}"))
}
