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
    let (stream, config, launch, args) = (own("stream"), own("config"), own("launch"), own("args"));
    let declared = params.iter().map(|param| declared(param, &private));
    let taken = params.iter().map(|param| taken(param, &private, &stream));
    let names = params.iter().map(|param| &param.ident);
    quote! {
        /// As many blocks as `n` threads need, with the blocks and the shared memory that the declaration says, else with
        /// blocks of 256 threads.
        #[inline]
        pub fn over(n: ::core::primitive::u32) -> #krate::LaunchConfig {
            Self::INFO.over(n)
        }

        /// Launches the kernel on a stream of a context in which it is warm.
        ///
        /// # Safety
        ///
        /// The kernel does with its arguments what its declaration says: it stays within the slices, reads through
        /// `&[T]` and `*const T` only, and what pointers point to stays until it is done.
        #[inline]
        #[allow(clippy::too_many_arguments)]
        pub unsafe fn launch(
            #stream: &#private::CudaStream,
            #config: impl #krate::Configure,
            #(#declared),*
        ) -> ::core::result::Result<(), #krate::LaunchError> {
            let #launch = #krate::Configure::configure(#config, Self::INFO, #stream)?;
            #(#taken)*
            let mut #args = [#((&raw const #names).cast_mut().cast()),*];
            // SAFETY: the arguments are those of the declaration; the rest is the caller's promise.
            unsafe { #launch.submit(&mut #args) }
        }
    }
}

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

/// The address in place of the slice or pointer. What keeps track of a slice stays until the launch is made.
fn taken(param: &Param, private: &TokenStream, stream: &Ident) -> TokenStream {
    let Param { ident, element, .. } = param;
    let guard = Ident::new("__guard", Span::mixed_site());
    match param.pass {
        Pass::Value => quote!(),
        Pass::Slice => {
            quote!(let (#ident, #guard) = #private::DevicePtr::<#element>::device_ptr(#ident, #stream);)
        }
        Pass::SliceMut => {
            quote!(let (#ident, #guard) = #private::DevicePtrMut::<#element>::device_ptr_mut(#ident, #stream);)
        }
        Pass::Pointer | Pass::PointerMut => {
            quote!(let #ident = #private::PointerTo::<#element>::address(#ident);)
        }
    }
}
