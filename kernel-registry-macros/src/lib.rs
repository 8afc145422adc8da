//! The macros of [kernel-registry](https://docs.rs/kernel-registry), which re-exports and documents them.
//!
//! Each macro is a file of its own, beside a folder of the same name. `gpu_kernel` goes through phases:
//! typed arguments, a frozen declaration, the facts of the image, a verdict with all errors, and then code.
//!
//! Expansions reach other crates by absolute paths, to `::core` and `::kernel_registry`. The names that they define are inside `const _`,
//! apart from a kernel's type, and a module's `KERNELS` and `warm_all`. So they clash with nothing, and need no prelude; generic kernels
//! do, for `#[diagnostic]`.

#![forbid(unsafe_code)]

mod errors;
mod gpu_kernel;
mod kernel_param;
mod source;
mod warmup;

use proc_macro::TokenStream;

/// Registers a kernel, or every kernel of a module. See `kernel_registry::gpu_kernel`.
#[proc_macro_attribute]
pub fn gpu_kernel(args: TokenStream, item: TokenStream) -> TokenStream {
    gpu_kernel::expand(args.into(), item.into()).into()
}

/// Runs a function when kernels are warmed. See `kernel_registry::warmup`.
#[proc_macro_attribute]
pub fn warmup(args: TokenStream, item: TokenStream) -> TokenStream {
    warmup::expand(args.into(), item.into()).into()
}

/// Makes a struct one that kernels can take. See `kernel_registry::KernelParam`.
#[proc_macro_derive(KernelParam, attributes(kernel_param))]
pub fn kernel_param(input: TokenStream) -> TokenStream {
    kernel_param::expand(input.into()).into()
}

#[cfg(test)]
mod tests;
