//! Parses the parameter types of `extern "C"` kernels, as far as a source is unambiguous.

use std::collections::BTreeMap;
use std::fmt;

use super::kernels_among_macros;
use kernel_registry_format::is_control;

use crate::{CudaType, Entry, Image};

/// The notation for a type that isn't known.
const UNKNOWN: &str = "?";

/// The parameter types of an `extern "C"` kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CSignature {
    /// The name of the kernel, which is its symbol.
    pub name: String,
    /// The types of its parameters. `None` where the source is ambiguous.
    pub params: Vec<Option<CudaType>>,
}

/// Returns the `extern "C"` kernels that a source declares at file scope, outside of preprocessor conditions,
/// and always with the same types. `is_macro` says whether headers or options define a macro of this name.
pub fn c_signatures(text: &str, is_macro: impl Fn(&str) -> bool) -> Vec<CSignature> {
    let mut found: BTreeMap<String, Option<CSignature>> = BTreeMap::new();
    for kernel in kernels_among_macros(text, &is_macro) {
        let name = kernel.name;
        let params = kernel.params.into_iter().map(|param| param.is_certain.then_some(param.ty));
        let signature = kernel.is_c.then(|| CSignature { name: name.clone(), params: params.collect() });
        let known = found.entry(name).or_insert_with(|| signature.clone());
        if *known != signature {
            *known = None;
        }
    }
    found.into_values().flatten().collect()
}

impl CSignature {
    /// Parses the output of `Display`. Returns `None` for any other text, and for names with control
    /// characters.
    pub fn parse(text: &str) -> Option<CSignature> {
        let text = Some(text).filter(|text| !text.contains(is_control))?;
        let (name, params) = text.strip_suffix(')')?.split_once('(')?;
        let params = params.split(", ").filter(|param| !param.is_empty());
        let params = params.map(|param| (param != UNKNOWN).then(|| CudaType::parse(param))).collect();
        Some(CSignature { name: name.to_owned(), params })
    }

    /// Returns whether the entry can be the kernel with this signature.
    fn fits(&self, entry: &Entry) -> bool {
        entry.signature.is_none()
            && self.params.len() == entry.params.len()
            && self
                .params
                .iter()
                .zip(&entry.params)
                .all(|(ty, layout)| ty.as_ref().is_none_or(|ty| layout.fits(ty)))
    }
}

impl Image {
    /// Adds the types of `extern "C"` kernels' parameters from a source, as [`Entry::c_params`]. Skips
    /// signatures that don't fit the parameters in the image.
    pub fn add_c_signatures(&mut self, signatures: &[CSignature]) {
        for entry in self.variants.iter_mut().flat_map(|variant| &mut variant.entries) {
            let signature = signatures.iter().find(|signature| signature.name == entry.symbol);
            if let Some(signature) = signature.filter(|signature| signature.fits(entry)) {
                entry.c_params.clone_from(&signature.params);
            }
        }
    }
}

impl fmt::Display for CSignature {
    /// Writes the signature as in C, without the return type: `scale(unsigned long, float*, ?)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: Vec<String> = self
            .params
            .iter()
            .map(|ty| ty.as_ref().map_or(UNKNOWN.to_owned(), CudaType::to_string))
            .collect();
        write!(f, "{}({})", self.name, params.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    /// Returns the signatures of a source whose headers define the macro `MACRO`.
    fn signatures(text: &str) -> Vec<String> {
        c_signatures(text, |name| name == "MACRO").iter().map(CSignature::to_string).collect()
    }

    #[test]
    fn plain_types_and_aliases_of_the_source_are_known() {
        let text = "typedef unsigned int u32; using Row = const u32*; typedef const float cf; struct Pair { int a; };
            extern \"C\" __global__ void __launch_bounds__(128) a(const size_t n, const float *__restrict__ x, u32 u,
                Row r, Pair* p, const Pair q, float w[], cf* c, half h, float4* v, volatile int* const* z) {}
            extern \"C\" { __global__ void b(void); }
            __global__ void cpp(int); namespace n { extern \"C\" __global__ void inside(int); }";
        let a = "a(unsigned long, const float*, unsigned int, const unsigned int*, Pair*, Pair, float*, const float*, \
                 __half, float4*, volatile int* const*)";
        assert_eq!(signatures(text), [a, "b()"]);
        for known in signatures(text) {
            assert_eq!(CSignature::parse(&known).unwrap().to_string(), known);
        }
        assert_eq!(CSignature::parse("k(?, const void*)").unwrap().params[0], None);
        assert_eq!(CSignature::parse("k"), None);
    }

    #[test]
    fn what_is_not_certain_is_not_known() {
        for (text, known) in [
            (
                "extern \"C\" __global__ void k(real x, MACRO* y, float* MACRO, T a, const T* b, int n);",
                "k(?, ?, ?, ?, ?, int)",
            ),
            ("#define real float\nextern \"C\" __global__ void k(real* x, int n);", "k(?, int)"),
            ("#define int long\nextern \"C\" __global__ void k(int n);", "k(?)"),
            ("#if A\ntypedef int T;\n#endif\nextern \"C\" __global__ void k(T n);", "k(?)"),
            ("typedef MACRO T; extern \"C\" __global__ void k(T n, float* x);", "k(?, float*)"),
            ("namespace n { typedef int T; } extern \"C\" __global__ void k(T n, float* x);", "k(?, float*)"),
            (
                "struct Index { int i; }; template <class K> struct Map { using Index = unsigned; };
                extern \"C\" __global__ void k(Index* x, Index y, int n);",
                "k(?, ?, int)",
            ),
            ("struct half { int h; }; extern \"C\" __global__ void k(half* h, half2* x);", "k(?, __half2*)"),
            (
                "extern \"C\" __global__ void k(float* x OPTIONAL, void (*f)(int), float4 const& v, float y[4]);",
                "k(?, ?, ?, ?)",
            ),
        ] {
            assert_eq!(signatures(text), [known], "{text}");
        }
    }

    #[test]
    fn kernels_that_may_be_others_are_not_known() {
        for text in [
            "#if A\nextern \"C\" __global__ void k(float* x);\n#else\nextern \"C\" __global__ void k(int* x);\n#endif",
            "#if 0\nextern \"C\" __global__ void k(float* x);\n#endif\nKERNEL(k, double)",
            "/* comment */ #if 0\nextern \"C\" __global__ void k(float* x);\n#endif",
            "extern \"C\" __global__ void k(\n#ifdef A\nfloat* x\n#else\nint* x\n#endif\n);",
            "extern \"C\" __global__ void MACRO(float* x);",
            "extern \"C\" __global__ void k(float* x); extern \"C\" __global__ void k(int* x);",
            "extern \"C\" __global__ void k(float* x); namespace n { __global__ void k(int* x); }",
            "const char* text = R\"end(\nextern \"C\" __global__ void k(float* x);\n)end\";",
            "#define KERNEL(name, T) \\\nextern \"C\" __global__ void name(T* x) {}\nKERNEL(k, float)",
            "template <typename T> __global__ void k(T* x);",
        ] {
            assert_eq!(signatures(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn an_image_learns_types_that_fit_its_parameters() {
        let ptx = ".version 8.0 .target sm_75 .entry k(.param .u64 x, .param .f32 a, .param .u32 n) { ret; }
            .entry _Z1cPf(.param .u64 x) { ret; }";
        let learned = |text: &str| {
            let mut image = read(ptx.as_bytes()).unwrap();
            image.add_c_signatures(&[CSignature::parse(text).unwrap()]);
            image.variants[0].entries.iter().map(|entry| entry.c_params.len()).collect::<Vec<_>>()
        };
        assert_eq!(learned("k(const float*, float, ?)"), [3, 0]);
        for other in [
            "k(float*, float)",
            "k(float*, int, int)",
            "k(int, float, int)",
            "k(?, ?, double)",
            "o(float*, float, int)",
            "_Z1cPf(int*)",
        ] {
            assert_eq!(learned(other), [0, 0], "{other}");
        }
    }
}
