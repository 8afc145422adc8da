//! The macros of [kernel-registry](https://docs.rs/kernel-registry), which re-exports and documents them.
//!
//! The phases are the modules: `args` and `declaration` parse, `check` turns what was parsed
//! into the `model` and says all that is wrong with it, `expand` writes the code, with `record` and `launch`. `module`
//! does the same for each declaration of a module; `image` finds the files, and `entry` compares with the kernels in them;
//! `block` and `shared` are arguments with rules of their own, and `instances` is what generic kernels need.
//! `derive` and `warmup` are the other macros, each on its own.

#![forbid(unsafe_code)]

mod args;
mod block;
mod check;
mod declaration;
mod derive;
mod entry;
mod expand;
mod image;
mod instances;
mod launch;
mod model;
mod module;
mod param;
mod record;
mod report;
mod shared;
mod stack;
mod warmup;

use proc_macro::TokenStream;

use crate::args::Args;
use crate::declaration::Item;
use crate::report::Report;

/// Registers a kernel, or every kernel of a module. See `kernel_registry::gpu_kernel`.
#[proc_macro_attribute]
pub fn gpu_kernel(args: TokenStream, item: TokenStream) -> TokenStream {
    gpu_kernel_impl(args.into(), item.into()).into()
}

/// Runs a function when kernels are warmed. See `kernel_registry::warmup`.
#[proc_macro_attribute]
pub fn warmup(args: TokenStream, item: TokenStream) -> TokenStream {
    warmup::expand(args.into(), item.into()).into()
}

/// Makes a struct one that kernels can take. See `kernel_registry::KernelParam`.
#[proc_macro_derive(KernelParam, attributes(kernel_param))]
pub fn kernel_param(input: TokenStream) -> TokenStream {
    derive::expand(input.into()).into()
}

fn gpu_kernel_impl(
    args: proc_macro2::TokenStream,
    item: proc_macro2::TokenStream,
) -> proc_macro2::TokenStream {
    let mut report = Report::default();
    let args = Args::parse(args, &mut report);
    let expansion = match declaration::parse(item) {
        Ok(Item::Kernel(declaration)) => check::kernel(*declaration, &args, None, &mut report).expand(),
        Ok(Item::Module(item)) => module::expand(item, args, &mut report),
        Err(error) => {
            report.push(error);
            Default::default()
        }
    };
    let errors = report.into_items(&[]);
    quote::quote!(#errors #expansion)
}

#[cfg(test)]
mod tests;
