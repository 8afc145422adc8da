//! Finds the names of kernels' parameters, as far as a source is unambiguous.

use std::collections::BTreeMap;

use kernel_registry_format::is_control;

use super::kernels;
use crate::{Entry, Image};

/// Returns the parameter names of a source's kernels, on one line: `gemm(m, n, k) scale(x)`. Leaves out a
/// kernel if a parameter is unnamed, or if another kernel with the same name and number of parameters has
/// different names.
///
/// ```
/// use kernel_registry_image::source::param_names;
///
/// let text = "__global__ void add(const float* a, float* b); template<class T> __global__ void fill(T* x, int) {}";
/// assert_eq!(param_names(text), "add(a, b)");
/// ```
pub fn param_names(text: &str) -> String {
    let mut found = BTreeMap::<(String, usize), Option<Vec<String>>>::new();
    for kernel in kernels(text) {
        let names: Option<Vec<_>> = kernel.params.into_iter().map(|param| param.name).collect();
        let names = names.filter(|names| !names.is_empty());
        let count = names.as_ref().map_or(0, Vec::len);
        let known = found.entry((kernel.name, count)).or_insert_with(|| names.clone());
        if *known != names {
            *known = None;
        }
    }
    let known = found.into_iter().filter_map(|((kernel, _), names)| Some((kernel, names?)));
    known.map(|(kernel, names)| format!("{kernel}({})", names.join(", "))).collect::<Vec<_>>().join(" ")
}

impl Image {
    /// Adds the names of parameters, as [`Entry::param_names`]. `text` is the result of [`param_names`].
    /// Skips a kernel with another number of parameters.
    pub fn add_param_names(&mut self, text: &str) {
        let kernels = text.split_inclusive(')').filter_map(|kernel| {
            let (name, params) = kernel.trim_start().strip_suffix(')')?.split_once('(')?;
            Some((name, params.split(", ").collect::<Vec<_>>()))
        });
        let known: Vec<_> = kernels.filter(|_| !text.contains(is_control)).collect();
        for entry in self.variants.iter_mut().flat_map(|variant| &mut variant.entries) {
            let is_it = |(name, params): &&(&str, Vec<&str>)| {
                *name == own_name(entry) && params.len() == entry.params.len()
            };
            let names = known.iter().find(is_it).map(|(_, params)| params.iter().map(ToString::to_string));
            entry.param_names = names.into_iter().flatten().collect();
        }
    }
}

/// Returns the kernel's name without namespaces and template arguments.
fn own_name(entry: &Entry) -> &str {
    let name = entry.name().split('<').next().unwrap_or_default();
    name.rsplit("::").next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    #[test]
    fn names_are_certain_or_left_out() {
        for (text, names) in [
            (
                "namespace n { template <int N> __global__ void k(int a, const float* __restrict__ b) {} }",
                "k(a, b)",
            ),
            (
                "__global__ void k(int a); __global__ void k(int a) {} __global__ void k(float a, int b) {}",
                "k(a) k(a, b)",
            ),
            ("__global__ void k(int a); __global__ void k(float b) {}", ""),
            ("__global__ void k(int); __global__ void none();", ""),
        ] {
            assert_eq!(param_names(text), names, "{text}");
        }
    }

    #[test]
    fn an_image_learns_names() {
        let ptx = ".version 8.0 .target sm_75 .entry _ZN1n1kILi3EEEviPKf(.param .u32 p, .param .u64 q) { ret; } .entry c(.param .u32 p) { ret; }";
        let mut image = read(ptx.as_bytes()).unwrap();
        image.add_param_names("c(a, b) k(a) k(x, y)");
        let names = |index: usize| image.variants[0].entries[index].param_names.join(" ");
        assert_eq!([names(0), names(1)], ["x y", ""]);
    }
}
