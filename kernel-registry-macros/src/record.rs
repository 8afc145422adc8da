//! What goes into the record of a kernel.

use kernel_registry_format as format;
use proc_macro2::{Ident, Literal, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::spanned::Spanned;

use crate::image;
use crate::model::{Expected, Instance, Kernel, Param, Pass};

/// What the record says of the kernel that is known here and now.
pub(crate) fn fixed_fields(kernel: &Kernel, instance: &Instance) -> Vec<u8> {
    // Sizes and alignments are the compiler's to say.
    let params = instance.params.iter();
    let params: Vec<_> =
        params.map(|param| format::Param::new(&param.name, &param.spelled, param.pass, 0, 0)).collect();
    let content = kernel.image.content.as_ref();
    let variants = content.map(|content| image::variants(&content.facts)).unwrap_or_default();
    let mut bytes = Vec::new();
    format::fixed_fields(
        &format::Kernel {
            symbol: &instance.symbol,
            package: &kernel.package,
            version: &kernel.version,
            file: &kernel.position.file,
            line: kernel.position.line,
            column: kernel.position.column,
            summary: &kernel.summary,
            params: format::Params::new(&params),
            min_arch: kernel.min_arch,
            frames: instance.frames,
            needs: instance.needs,
            image: Some(format::Image {
                file: &kernel.image.file,
                len: content.map_or(0, |content| content.len),
                variants: &variants,
            }),
            ..format::Kernel::EMPTY
        },
        &mut bytes,
    );
    bytes
}

/// A call that returns size and alignment of a parameter's type, after comparing that with what the image
/// says. All of it has the span of the type, so that an error in it is shown there.
pub(crate) fn layout(param: &Param, krate: &TokenStream) -> TokenStream {
    let Param { element, message, .. } = param;
    let span = element.span();
    let function = |name: &str| {
        let name = Ident::new(name, span);
        let path = quote_spanned!(span=> #krate::__private::param::#name);
        let respan = |mut token: TokenTree| {
            token.set_span(span);
            token
        };
        path.into_iter().map(respan).collect::<TokenStream>()
    };
    match (param.expected, param.pass) {
        (Expected::Known { size }, _) => {
            let size = Literal::u32_unsuffixed(size);
            quote_spanned!(span=> [#size, #size])
        }
        (Expected::Scalar(scalar), _) => {
            let (check, scalar) = (function("scalar"), Ident::new(&format!("{scalar:?}"), span));
            let scalar_path = function("Scalar");
            quote_spanned!(span=> #check::<#element>(#scalar_path::#scalar, #message))
        }
        (Expected::Pointer, _) => {
            let check = function("address");
            quote_spanned!(span=> #check::<#element>(#message))
        }
        (Expected::Layout { size, align }, _) => {
            let check = function("sized");
            quote_spanned!(span=> #check::<#element>(#size, #align, #message))
        }
        (Expected::Nothing, Pass::Pointer | Pass::PointerMut) => {
            let any = function("pointee");
            quote_spanned!(span=> #any::<#element>())
        }
        (Expected::Nothing, _) => {
            let any = function("any");
            quote_spanned!(span=> #any::<#element>())
        }
    }
}
