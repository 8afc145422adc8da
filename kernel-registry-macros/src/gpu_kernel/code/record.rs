//! Generates a kernel's record: the bytes that the macro knows, and calls through which the compiler adds the
//! sizes of types.

use std::env;

use kernel_registry_format::{self as format, Pass};
use proc_macro2::{Literal, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::checks::respanned;
use crate::gpu_kernel::checked::Kernel;
use crate::gpu_kernel::declaration::Instance;
use crate::gpu_kernel::declaration::param::Param;
use crate::gpu_kernel::verdict::{Layout, Verdict};

/// Encodes the fields of the record that the macro knows: all but path, launch, stack, copy and layouts.
pub(crate) fn fixed_fields(kernel: &Kernel, instance: &Instance, verdict: &Verdict) -> Vec<u8> {
    let Kernel { declaration, image, .. } = kernel;
    // The compiler adds sizes and alignments, so they're 0 here.
    let params = instance.params.iter();
    let params: Vec<_> = params
        .map(|Param { name, spelled, pass, nullable, .. }| {
            let param = format::Param::new(name, spelled, *pass, 0, 0);
            let param = if *nullable { param.or_null() } else { param };
            let length = verdict.length.filter(|_| matches!(pass, Pass::Slice | Pass::SliceMut));
            length.map_or(param, |length| param.with_length(length))
        })
        .collect();
    let variants = image.content.as_ref().map(|content| content.facts.variant_names()).unwrap_or_default();
    let variable = |name| env::var(name).unwrap_or_default();
    let mut bytes = Vec::new();
    format::fixed_fields(
        &format::KernelRecord {
            symbol: &verdict.symbol,
            package: &variable("CARGO_PKG_NAME"),
            version: &variable("CARGO_PKG_VERSION"),
            file: &declaration.position.file,
            line: declaration.position.line,
            column: declaration.position.column,
            summary: &declaration.summary,
            params: format::Params::new(&params),
            source_names: verdict.other_names.as_ref().map_or("", |(names, _)| names),
            min_arch: declaration.min_arch,
            frames: verdict.frames,
            needs: verdict.needs,
            image: (!image.is_linked).then(|| format::ImageRecord {
                file: &image.file,
                len: image.content.as_ref().map_or(0, |content| content.len),
                variants: &variants,
                separable: image.content.as_ref().is_some_and(|content| content.facts.is_separable()),
            }),
            ..format::KernelRecord::EMPTY
        },
        &mut bytes,
    );
    bytes
}

/// Returns an expression for the size and alignment of a parameter's value or element. Its tokens have the
/// span of the type, so that the compiler shows an error there.
pub(crate) fn layout(param: &Param, layout: &Layout, krate: &TokenStream) -> TokenStream {
    let element = &param.element;
    let span = element.span();
    let function = match (layout, param.pass) {
        (Layout::Number(size), _) => {
            let size = Literal::u32_unsuffixed(*size);
            return quote_spanned!(span=> [#size, #size]);
        }
        // `pointee` doesn't require a `KernelParam`. For a checked type, the check does.
        (Layout::Checked(..), _) | (Layout::Any, Pass::Pointer | Pass::PointerMut) => quote!(pointee),
        (Layout::Any, _) => quote!(any),
    };
    let function = respanned(quote!(#krate::__private_0_1::param::#function), span);
    quote_spanned!(span=> #function::<#element>())
}
