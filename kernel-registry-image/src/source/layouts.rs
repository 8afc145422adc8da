//! Finds the fields of structs that kernels take by value, with their offsets, as far as a source is
//! unambiguous.

use std::collections::BTreeMap;
use std::fmt;

use kernel_registry_format::is_control;

use super::records::{Field, PlacedField};
use super::{records_among_macros, structs};
use crate::{CudaType, Image, Scalar};

/// Returns the structs that a source spells out. Their fields are numbers, pointers, CUDA's vectors and
/// arrays of these. The structs are at file scope, outside of preprocessor conditions, without attributes,
/// macros and bit fields. `is_macro` says whether headers or options define a macro of this name. Returns C++
/// on one line, with aliases resolved; the text is empty if there are no such structs.
///
/// ```
/// use kernel_registry_image::source::certain_structs;
///
/// let text = "using real = float; struct Step { real dt, mass; size_t n; }; struct Other { T x; };";
/// assert_eq!(certain_structs(text, |_| false), "struct Step { float dt; float mass; unsigned long n; };");
/// ```
pub fn certain_structs(text: &str, is_macro: impl Fn(&str) -> bool) -> String {
    let records = records_among_macros(text, &is_macro).into_iter();
    let certain = records.filter(|(_, record)| record.is_certain && lay_out(&record.fields).is_some());
    let sorted: BTreeMap<_, _> = certain.collect();
    let written = sorted.iter().map(|(name, record)| {
        let fields: String = record.fields.iter().map(|field| format!("{field}; ")).collect();
        format!("struct {name} {{ {fields}}};")
    });
    written.collect::<Vec<_>>().join(" ")
}

/// Lays out a struct. Returns the fields with their offsets, without fillers, and the struct's size and
/// alignment.
fn lay_out(fields: &[Field]) -> Option<(Vec<PlacedField>, [u32; 2])> {
    let (mut placed, mut size, mut align) = (Vec::new(), 0u32, 1);
    for field in fields {
        // The alignment of a tensor map depends on the version of CUDA.
        let [element, own_align] = field.ty.layout().filter(|[_, align]| *align > 0)?;
        let own_size = field.lengths.iter().try_fold(element, |size, length| size.checked_mul(*length))?;
        let offset = size.checked_next_multiple_of(own_align)?;
        if !is_filler(&field.name) {
            placed.push(PlacedField { field: field.clone(), offset });
        }
        size = offset.checked_add(own_size)?;
        align = align.max(own_align);
    }
    Some((placed, [size.checked_next_multiple_of(align)?, align]))
}

/// Returns whether a field with this name is just padding, which a Rust struct may leave to the compiler.
fn is_filler(name: &str) -> bool {
    let name = name.to_lowercase();
    ["pad", "unused", "reserved"].iter().any(|word| name.contains(word))
}

impl Image {
    /// Adds the fields of structs that kernels take by value, as
    /// [`ParamLayout::fields`](crate::ParamLayout::fields). `text` is the result of [`certain_structs`].
    /// Skips a struct if the parameter in the image has another size or alignment. Add the types of
    /// `extern "C"` kernels first: see [`Image::add_c_signatures`].
    pub fn add_structs(&mut self, text: &str) {
        if text.is_empty() || text.contains(is_control) {
            return;
        }
        let known = structs(text);
        for entry in self.variants.iter_mut().flat_map(|variant| &mut variant.entries) {
            for index in 0..entry.params.len() {
                let Some(CudaType::Named(name)) = entry.cuda_type(index) else { continue };
                let Some((fields, [size, align])) = known.get(name).and_then(|fields| lay_out(fields)) else {
                    continue;
                };
                let layout = &mut entry.params[index];
                // A packed struct with the same size has the same offsets.
                if layout.size == size && layout.align.is_none_or(|there| there == align) {
                    layout.fields = fields;
                }
            }
        }
    }
}

impl Field {
    /// Returns the size in bytes of a number or pointer, and whether it's floating point.
    pub fn number(&self) -> Option<(u32, bool)> {
        let is_float = match &self.ty {
            CudaType::Scalar(scalar) => matches!(scalar, Scalar::Float | Scalar::Double),
            CudaType::Pointer { .. } => false,
            _ => return None,
        };
        Some((self.ty.size().filter(|_| self.lengths.is_empty())?, is_float))
    }
}

impl fmt::Display for Field {
    /// Writes the field as in C++: `float m[2][3]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ty, self.name)?;
        self.lengths.iter().try_for_each(|length| write!(f, "[{length}]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    /// Returns the structs of a source whose headers define the macro `MACRO`.
    fn certain(text: &str) -> String {
        certain_structs(text, |name| name == "MACRO")
    }

    #[test]
    fn structs_that_the_source_spells_out_are_known() {
        let text = "#include <x.h>
            typedef unsigned int u32; struct Step { const float* x; u32 n, m; float a = 1; half h[2]; float4 v; };
            extern \"C\" { typedef struct { bool b; } Flag; }";
        let written = "struct Flag { bool b; }; \
                       struct Step { const float* x; unsigned int n; unsigned int m; float a; __half h[2]; float4 v; };";
        assert_eq!(certain(text), written);
        assert_eq!(certain(written), written);
        let text = "void f() {}\nstruct S {\n  int a;  // first\n  float* const* b; /* second */\n};";
        assert_eq!(certain(text), "struct S { int a; float* const* b; };");
    }

    #[test]
    fn what_is_not_certain_is_not_known() {
        for text in [
            "struct S { MACRO int a; };",
            "struct S { int MACRO; };",
            "struct S { int a, MACRO; };",
            "struct S { int a MACRO; };",
            "struct S { real a; };",
            "struct S { T a; };",
            "struct S { long_t a[N]; };",
            "struct S { int a; Inner b; };",
            "struct S { CUtensorMap_st a; };",
            "enum Mode { FAST }; struct S { Mode a; };",
            "#define int long\nstruct S { int a; };",
            "#define S Other\nstruct S { int a; };",
            "struct MACRO { int a; };",
            "struct S {\n#if A\nint a;\n#else\nfloat a;\n#endif\n};",
            "struct S {\n#pragma x\nint a; };",
            "#ifdef A\nstruct S { int a; };\n#endif",
            "namespace n { struct S { int a; }; }",
            "void f() { struct S { int a; }; }",
            "template <class T> struct S { int a; };",
            "alignas(16) struct S { int a; };",
            "struct alignas(16) S { int a; };",
            "struct __align__(16) S { int a; };",
            "struct S { int a; } __attribute__((packed));",
            "struct S { int a; } PACKED;",
            "struct S { int a; } s;",
            "PACKED struct S { int a; };",
            "typedef struct { int a; } S, *P;",
            "typedef struct { int a; } PACKED S;",
            "PACKED typedef struct { int a; } S;",
            "struct S { alignas(8) int a; };",
            "struct S { int a __attribute__((aligned(8))); };",
            "struct S { int a : 3; };",
            "struct S : T { int a; };",
            "struct S { mutable int a; };",
            "struct S { int a; int f() const; };",
            "struct S { Map<int> a; };",
            "struct S { int a; }; namespace n { struct S { float a; }; }",
        ] {
            assert_eq!(certain(text), "", "{text}");
        }
    }

    #[test]
    fn an_image_learns_structs_that_fit_its_parameters() {
        let ptx = ".version 8.0 .target sm_75
            .entry _Z1k4Stepi(.param .align 8 .b8 s[24], .param .u32 n) { ret; }
            .entry _Z1mN1n4StepE(.param .align 8 .b8 s[24]) { ret; }
            .entry c(.param .align 8 .b8 s[24]) { ret; }";
        let learned = |text: &str| {
            let mut image = read(ptx.as_bytes()).unwrap();
            image.add_c_signatures(&[crate::source::CSignature::parse("c(Step)").unwrap()]);
            image.add_structs(text);
            let fields = |layout: &crate::ParamLayout| {
                layout.fields.iter().map(|placed| format!("{} {}", placed.offset, placed.field)).collect()
            };
            let all = image.variants[0].entries.iter().flat_map(|entry| entry.params.iter().map(fields));
            all.collect::<Vec<Vec<String>>>()
        };
        let fields = ["0 char c", "8 float* x", "16 short m[3]"];
        let of_step = learned("struct Step { char c; float* x; short m[3]; };");
        assert_eq!(of_step, [&fields[..], &[], &[], &fields]);
        let with_filler = learned("struct Step { char c; char _pad0[7]; float* x; short m[3]; };");
        assert_eq!(with_filler, of_step);
        for other in [
            "",
            "struct Other { double a[3]; };",
            "struct Step { char c; float* x; };",
            "struct Step { float a[6]; };",
            "struct Step { double a[2000000000][2000000000]; };",
            "struct Step { double a;\u{1b} double b[2]; };",
        ] {
            assert_eq!(learned(other), [&[""; 0]; 4], "{other}");
        }
    }
}
