//! The macros of [kernel-registry](https://docs.rs/kernel-registry), which re-exports and documents them.
//!
//! Each macro has a file; `gpu_kernel` also has a folder. `gpu_kernel` works in phases: it parses the
//! arguments, resolves the declaration, reads the image, compares both (the verdict, with all errors), and
//! then generates code.
//!
//! Expansions refer to other crates by the absolute paths `::core` and `::kernel_registry`, so they don't
//! need the prelude. Only expansions of generic kernels do, for `#[diagnostic]`. All names that an expansion
//! defines are inside `const _`, except a kernel's type and a module's `KERNELS` and `warm_all`, so they
//! can't clash with others.

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

/// Implements `KernelParam` for a struct, so that kernels can take the struct. See
/// `kernel_registry::KernelParam`.
#[proc_macro_derive(KernelParam, attributes(kernel_param))]
pub fn kernel_param(input: TokenStream) -> TokenStream {
    kernel_param::expand(input.into()).into()
}

#[cfg(test)]
mod tests;
