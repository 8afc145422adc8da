//! Reads the kernels of a CUDA source: the names of their parameters, and the types that `extern "C"` names do not carry.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use kernel_registry_build::{Available, available};
use kernel_registry_image::source::{self, Parameter};
pub(super) use kernel_registry_image::source::{Field, Function};
use kernel_registry_image::{Entry, Image};

use kernel_registry_command::Failure as Shared;

use crate::failure::Failure;
use kernel_registry_command::terminal;

/// The kernels and structs of a source by their names without namespaces.
#[derive(Default)]
pub(super) struct Source {
    pub(super) kernels: HashMap<String, Vec<Function>>,
    /// The structs of plain fields, by their names without namespaces.
    pub(super) structs: HashMap<String, Vec<Field>>,
}

impl Source {
    /// Reads a source, with macros and headers expanded by nvcc if there is one.
    pub(super) fn read(path: &Path, flags: &[String], image: &Image) -> Result<Source, Failure> {
        if let Ok(Available::Compiler { name, file: Some(nvcc) }) = available()
            && name.starts_with("nvcc")
        {
            return Ok(Source::parse(&preprocessed(&nvcc, path, flags, image)?));
        }
        let text = fs::read_to_string(path).map_err(Failure::of_io(path))?;
        terminal::say(format_args!(
            "warning: macros and headers of `{}` are not read, because no nvcc is used: set `CUDA_HOME` to a CUDA toolkit",
            path.display()
        ));
        Ok(Source::parse(&text))
    }

    fn parse(text: &str) -> Source {
        let mut kernels: HashMap<String, Vec<Function>> = HashMap::new();
        for kernel in source::kernels(text) {
            let overloads = kernels.entry(kernel.name.clone()).or_default();
            // A definition replaces its prototype, because the definition has the names that matter.
            let types =
                |params: &[Parameter]| params.iter().map(|param| param.ty.clone()).collect::<Vec<_>>();
            overloads.retain(|other| types(&other.params) != types(&kernel.params));
            overloads.push(kernel);
        }
        Source { kernels, structs: source::structs(text) }
    }

    /// Finds the declaration of an image's kernel in the source. Declarations fit if they have the kernel's name, and as many
    /// parameters as the kernel, each of the same size. Among several, the one with the types of the symbol is chosen; or else the
    /// first, if all have the same names of parameters and the symbol tells the types. Otherwise none is chosen.
    pub(super) fn function(&self, entry: &Entry) -> Option<&Function> {
        let signature = entry.signature.as_ref();
        let name = signature.map_or(entry.symbol.as_str(), |signature| signature.names()[2]);
        let all = self.kernels.get(name)?.iter();
        let fits = |function: &&Function| {
            let mut both = function.params.iter().zip(&entry.params);
            function.params.len() == entry.params.len() && both.all(|(param, layout)| layout.fits(&param.ty))
        };
        let fitting: Vec<_> = all.filter(fits).collect();
        let types = signature.map(|signature| &signature.params);
        let has_types = |function: &&&Function| {
            types.is_some_and(|types| function.params.iter().map(|param| &param.ty).eq(types))
        };
        let names = |function: &Function| {
            let names = function.params.iter().map(|param| param.name.clone());
            (names.collect::<Vec<_>>(), function.generics.clone())
        };
        let first = *fitting.first()?;
        match fitting.iter().find(has_types) {
            Some(function) => Some(function),
            None if fitting.len() == 1 => Some(first),
            // The signature tells the types. If all declarations have the same names, any of them will do.
            None => {
                let is_same = fitting.iter().all(|other| names(other) == names(first));
                (signature.is_some() && is_same).then_some(first)
            }
        }
    }
}

/// Runs nvcc's preprocessor on the source, for the newest architecture of the image.
fn preprocessed(nvcc: &Path, source: &Path, flags: &[String], image: &Image) -> Result<String, Failure> {
    let says_arch = |flag: &String| {
        ["-arch", "--gpu-architecture", "-gencode", "--generate-code"]
            .iter()
            .any(|start| flag.starts_with(start))
    };
    let targets = image.variants.iter().map(|variant| &variant.target);
    let newest = targets.max_by_key(|target| target.sm).filter(|_| !flags.iter().any(says_arch));
    let arch = newest.map(|target| format!("-arch={target}"));
    let output = Command::new(nvcc)
        .arg("-E")
        .args(arch)
        .args(flags)
        .arg(source)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Shared::NotRun { program: nvcc.into(), source: error })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Failure::NotPreprocessed { path: source.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the parameters of a kernel of this source, each as `name: type`.
    fn params(text: &str, kernel: &str) -> Vec<String> {
        let source = Source::parse(text);
        let [function] = source.kernels.get(kernel).unwrap().as_slice() else { panic!("one {kernel}") };
        function
            .params
            .iter()
            .map(|param| format!("{}: {}", param.name.as_deref().unwrap_or("-"), param.ty))
            .collect()
    }

    #[test]
    fn parameters_have_names_and_types() {
        let text = "extern \"C\" __global__ void k(const size_t n, const float *__restrict__ x, unsigned *const y,
            volatile uint8_t* z, const void *const *v, half h, ns::Pair<int, 3> p, float w[], long unsigned) {";
        let expected = [
            "n: unsigned long",
            "x: const float*",
            "y: unsigned int*",
            "z: volatile unsigned char*",
            "v: const void* const*",
            "h: __half",
            "p: ns::Pair<int,3>",
            "w: float*",
            "-: unsigned long",
        ];
        assert_eq!(params(text, "k"), expected);
    }

    #[test]
    fn attributes_defaults_and_comments_are_passed_over() {
        let text = "# 1 \"x.cu\"
            typedef struct { int a; } Pair; /* __global__ void no(int); */ // __global__ void neither(int);
            template <typename T> static __attribute__((global)) void __attribute__((launch_bounds(N, 2)))
            k(T* x, unsigned n = f(1, 2), void (*f)(int, int) = nullptr, const __attribute__((grid_constant)) Pair p);
            const char* text = \"__global__ void text(int a)\";
            __global__ __launch_bounds__(128) void empty(void) {}";
        assert_eq!(params(text, "k"), ["x: T*", "n: unsigned int", "-: void (*f)(int,int)", "p: Pair"]);
        assert_eq!(params(text, "empty"), [""; 0]);
        assert_eq!(Source::parse(text).kernels.len(), 2);
    }

    #[test]
    fn bounds_of_macros_and_breaks_of_lines_are_passed_over() {
        let text = "__global__ void BOUNDS(128, N > 4 ? 1 : 2)\n# 12 \"x.cu\" 3\nk(const int n,\n# 30 \"x.cu\"\n  float *x \\\n, int m)
            { f(n); } template <int N> __launch_bounds__(N,\n 2) static __global__ void\n__launch_bounds__(N)\nl\n(float* y)
            __attribute__((cold));";
        assert_eq!(params(text, "k"), ["n: int", "x: float*", "m: int"]);
        assert_eq!(params(text, "l"), ["y: float*"]);
    }

    #[test]
    fn template_parameters_have_names() {
        let generics = |text: &str| Source::parse(text).kernels.remove("k").unwrap().remove(0).generics;
        let text = "template <int X> __device__ void f() {}
            template <typename T, class U = Map<int, T>, unsigned BLOCK = 4> static __global__ void k(T* x);";
        assert_eq!(generics(text), ["T", "U", "BLOCK"]);
        assert_eq!(generics("template <int X> void f() {} __global__ void k() {}"), [""; 0]);
        assert_eq!(generics("template <int> __global__ void k() {}"), [""; 0]);
        assert_eq!(generics("template < __global__ void k() {}"), [""; 0]);
    }

    #[test]
    fn types_are_followed_through_their_aliases() {
        let text = "typedef unsigned int __u32; typedef __u32 u32; using Row = const u32 *; typedef T X; typedef U X;
            __global__ void k(u32 a, Row b, X c, Loop d); typedef Loop Loop;";
        assert_eq!(params(text, "k"), ["a: unsigned int", "b: const unsigned int*", "c: X", "d: Loop"]);
    }

    #[test]
    fn a_definition_replaces_its_prototype_and_overloads_are_told_apart() {
        let text = "__global__ void k(int); __global__ void k(int count) {} __global__ void o(int a) {}
            __global__ void o(float b) {}";
        assert_eq!(params(text, "k"), ["count: int"]);
        assert_eq!(Source::parse(text).kernels["o"].len(), 2);
        assert_eq!(Source::parse("__global__ void (").kernels.len(), 0);
        assert_eq!(Source::parse("__global__").kernels.len(), 0);
    }
}
