//! Lays out the fields of a struct in Rust, as `#[repr(C)]` does.

use std::collections::{HashMap, HashSet};

use kernel_registry_image::{CudaType, Scalar};

use super::known_types::{VOID, number, ready};
use super::names;
use super::source::Field;

/// The deepest nesting of structs that is followed.
const MAX_DEPTH: u32 = 16;

/// The structs of a CUDA source, by their names without namespaces.
pub(super) type Known = HashMap<String, Vec<Field>>;

/// A struct in Rust.
pub(super) struct Fields {
    pub(super) fields: Vec<RustField>,
    pub(super) size: u32,
    pub(super) align: u32,
    /// The C++ names of the structs among its fields.
    pub(super) nested: Vec<String>,
}

/// A field in Rust.
pub(super) struct RustField {
    pub(super) name: String,
    pub(super) ty: String,
    /// The field's type in C++.
    pub(super) cuda: String,
}

/// The type of a field in Rust, with its size and alignment.
struct FieldType {
    spelled: String,
    size: u32,
    align: u32,
}

/// Lays a struct out, if all of its fields can be written in Rust. `name` returns the Rust name of a nested struct.
pub(super) fn lay_out(known: &Known, cuda: &str, name: &dyn Fn(&str) -> String) -> Option<Fields> {
    nested(known, cuda, name, MAX_DEPTH)
}

fn nested(known: &Known, cuda: &str, rust_name: &dyn Fn(&str) -> String, depth: u32) -> Option<Fields> {
    let written = known.get(names::unqualified(cuda))?;
    let mut fields = Fields { fields: Vec::new(), size: 0, align: 1, nested: Vec::new() };
    let mut taken = HashSet::new();
    for Field { name, ty, lengths, .. } in written {
        let element = match ty {
            CudaType::Named(inner) if ready(inner).is_none() => {
                let there = nested(known, inner, rust_name, depth.checked_sub(1)?)?;
                fields.nested.push(inner.clone());
                FieldType { spelled: rust_name(inner), size: there.size, align: there.align }
            }
            plain => FieldType::from_cuda(plain)?,
        };
        let FieldType { spelled, size, align } = lengths.iter().rev().try_fold(element, FieldType::array)?;
        let name = names::variable(name);
        if !taken.insert(name.clone()) {
            return None;
        }
        fields.size = fields.size.checked_next_multiple_of(align)?.checked_add(size)?;
        fields.align = fields.align.max(align);
        let lengths: String = lengths.iter().map(|length| format!("[{length}]")).collect();
        fields.fields.push(RustField { name, ty: spelled, cuda: format!("{ty}{lengths}") });
    }
    fields.size = fields.size.checked_next_multiple_of(fields.align)?;
    Some(fields)
}

impl FieldType {
    fn from_cuda(ty: &CudaType) -> Option<FieldType> {
        let [size, align] = ty.layout()?;
        let spelled = match ty {
            CudaType::Other(_) => return None,
            CudaType::Scalar(scalar) => number(*scalar).to_owned(),
            CudaType::Pointer { to, is_const, .. } => {
                let to = match &**to {
                    CudaType::Scalar(Scalar::Void) => None,
                    CudaType::Scalar(scalar) => Some(number(*scalar).to_owned()),
                    CudaType::Named(name) => ready(name),
                    _ => None,
                };
                let to = to.unwrap_or_else(|| VOID.to_owned());
                format!("*{} {to}", if *is_const { "const" } else { "mut" })
            }
            CudaType::Named(name) => ready(name)?,
        };
        // A tensor map is aligned to 64 bytes in Rust.
        let align = if align == 0 { 64 } else { align };
        Some(FieldType { spelled, size, align })
    }

    fn array(self, length: &u32) -> Option<FieldType> {
        let FieldType { spelled, size, align } = self;
        Some(FieldType { spelled: format!("[{spelled}; {length}]"), size: size.checked_mul(*length)?, align })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field follows one byte, so that its alignment shows in the size of the struct.
    #[test]
    fn cudas_own_types_have_the_layout_of_the_image_reader() {
        for (name, size, align) in [
            ("CUtensorMap_st", 128, 64),
            ("double4_16a", 32, 16),
            ("longlong4_16a", 32, 16),
            ("float3", 12, 4),
            ("__half2", 4, 4),
            ("bool", 1, 1),
        ] {
            let known = kernel_registry_image::source::structs(&format!("struct S {{ char c; {name} f; }};"));
            let fields = lay_out(&known, "S", &str::to_owned).map(|fields| (fields.size, fields.align));
            assert_eq!(fields, Some((align + size, align)), "{name}");
        }
    }
}
