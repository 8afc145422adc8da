//! The functions of a kernel's type: how many blocks, and the launch with arguments of the declared types.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use crate::model::{Param, Pass};

/// The items of the `impl` of the kernel's type.
pub(crate) fn functions(params: &[Param], krate: &TokenStream) -> TokenStream {
    let private = quote!(#krate::__private);
    // Lints about names see a macro's work in the parameters, so they are of one kind with what is ours.
    let own = |name: &str| {
        let taken = |name: &str| params.iter().any(|param| param.name == name);
        let mut name = name.to_owned();
        while taken(&name) {
            name.insert(0, '_');
        }
        Ident::new(&name, Span::mixed_site())
    };
    let (stream, config) = (own("stream"), own("config"));
    let declared = params.iter().map(|param| declared(param, &private));
    let passed = params.iter().map(|param| passed(param, &private, &stream));
    // A launch that is refused does nothing to slices and streams: a receiver comes before arguments.
    // Each of these tokens is written for each kernel, by code that cargo does not optimise: what can be is a function of
    // the library, and documentation is one literal.
    quote! {
        #[doc = #OVER]
        #[inline]
        pub fn over(n: ::core::primitive::u32) -> #krate::LaunchConfig {
            Self::INFO.over(n)
        }

        #[doc = #CONFIG]
        #[inline]
        pub fn config(grid: impl ::core::convert::Into<#krate::Dim3>) -> #krate::LaunchConfig {
            Self::INFO.config(grid)
        }

        #[doc = #LAUNCH]
        #[inline]
        #[allow(clippy::too_many_arguments)]
        pub unsafe fn launch(
            #stream: &#private::CudaStream,
            #config: impl #krate::Configure<Self>,
            #(#declared),*
        ) -> ::core::result::Result<(), #krate::LaunchError> {
            // SAFETY: the arguments are those of the declaration; the rest is the caller's promise.
            unsafe { #krate::Configure::<Self>::configure(#config, #stream)?.submit(&mut [#(#passed),*]) }
        }
    }
}

const OVER: &str = " A grid that covers `n` threads, with the `block` and `shared` of the declaration.";

const CONFIG: &str = " A grid of that many blocks, with the `block` and `shared` of the declaration.";

const LAUNCH: &str = " Launches the kernel on a stream of a context in which it is warm.

 # Safety

 The kernel does with its arguments what its declaration says: it stays within the slices, reads through
 `&[T]` and `*const T` only, and what pointers point to stays until it is done.";

/// The parameter as the launch has it.
fn declared(param: &Param, private: &TokenStream) -> TokenStream {
    let Param { ident, element, .. } = param;
    let span = element.span();
    match param.pass {
        Pass::Value => quote!(#ident: #element),
        Pass::Slice => quote_spanned!(span=> #ident: &impl #private::DevicePtr<#element>),
        Pass::SliceMut => quote_spanned!(span=> #ident: &mut impl #private::DevicePtrMut<#element>),
        Pass::Pointer => quote_spanned!(span=> #ident: impl #private::PointerTo<#element>),
        Pass::PointerMut => quote_spanned!(span=> #ident: impl #private::PointerToMut<#element>),
    }
}

/// A pointer to the value, or to the address in place of a slice or pointer, which stays where it is for the whole expression
/// of the launch. So does what keeps track of a slice.
fn passed(param: &Param, private: &TokenStream, stream: &Ident) -> TokenStream {
    let Param { ident, element, .. } = param;
    match param.pass {
        Pass::Value => quote!(#private::pointer(&#ident)),
        Pass::Slice => quote!(#private::pointer(&#private::slice::<#element>(#ident, #stream).0)),
        Pass::SliceMut => quote!(#private::pointer(&#private::slice_mut::<#element>(#ident, #stream).0)),
        Pass::Pointer | Pass::PointerMut => quote!(#private::pointer(&#private::address::<#element>(#ident))),
    }
}
