//! From the model to code: the type, what is known of the kernel, its record and its registration.

use kernel_registry_format::section;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Visibility;
use syn::spanned::Spanned;

use crate::check::{Broken, Checked};
use crate::model::{Image, Kernel, Param, Pass};

impl Checked {
    pub(crate) fn expand(&self) -> TokenStream {
        match self {
            Checked::Kernel(kernel) => expand_kernel(kernel),
            Checked::Broken(broken) => expand_broken(broken),
        }
    }
}

/// Everything but the type is inside of an unnamed constant, where no name can clash with the user's.
fn expand_kernel(kernel: &Kernel) -> TokenStream {
    let Kernel { krate, ident, vis, attrs, cfgs, .. } = kernel;
    let private = quote!(#krate::__private);
    let description = description(kernel);
    let signature = signature(kernel);
    let about = format!("Kernel `{signature}`, entry `{}` of `{}`.", kernel.symbol, kernel.image.file);
    let link_section = link_section();
    let path = &kernel.image.path;

    let name = name(vis, ident);

    quote! {
        #(#attrs)*
        #name

        #(#cfgs)*
        #[allow(deprecated)]
        const _: () = {
            #[allow(unused_imports)]
            use #private::block as __block;

            enum __Image {}

            impl #private::ImageSource for __Image {
                const BYTES: &'static [::core::primitive::u8] = ::core::include_bytes!(#path);
            }

            const __KERNEL: #private::Kernel<'static> = #description;

            #[used]
            #link_section
            static __RECORD: [::core::primitive::u8; #private::encoded_len(&__KERNEL)] =
                #private::encode_kernel(&__KERNEL);

            static __INFO: #private::KernelInfo = #private::info::<__Image>(__KERNEL, &__RECORD);

            #private::inventory::submit! { #private::Registration(&__INFO) }

            #[doc = #about]
            impl #ident {
                /// What is known of this kernel without loading it.
                pub const INFO: &'static #private::KernelInfo = &__INFO;
            }
        };
    }
}

/// The name alone: using it compiles as far as types go, and the errors that were reported stay the only ones.
fn expand_broken(broken: &Broken) -> TokenStream {
    let Broken { krate, vis, ident, cfgs } = broken;
    let name = name(vis, ident);
    quote! {
        #(#cfgs)*
        #[allow(missing_docs)]
        #name

        #(#cfgs)*
        #[allow(missing_docs)]
        impl #ident {
            pub const INFO: &'static #krate::__private::KernelInfo = ::core::panic!("this kernel has errors");
        }
    }
}

/// The type that stands for the kernel. It has braces, so that its name stays free for values after a
/// glob import, and a field without a value, so that there is nothing to make. Errors and lints about
/// it are shown at the kernel's name. A kernel that nothing refers to is registered all the same: it is not dead.
fn name(vis: &Visibility, ident: &Ident) -> TokenStream {
    quote_spanned! {ident.span()=>
        #[allow(dead_code)]
        #vis struct #ident {
            #[doc(hidden)]
            __only_a_name: ::core::convert::Infallible,
        }
    }
}

/// The kernel as a `kernel_registry_format::Kernel`.
fn description(kernel: &Kernel) -> TokenStream {
    let private = &kernel.krate;
    let private = quote!(#private::__private);
    let Kernel { symbol, package, version, summary, .. } = kernel;
    let path = format!("::{}", syn::ext::IdentExt::unraw(&kernel.ident));
    let (file, line, column) = (&kernel.position.file, kernel.position.line, kernel.position.column);
    let params = kernel.params.iter().map(|param| description_of_param(param, &private));
    let min_arch = option(kernel.min_arch.as_ref());
    let block = option(kernel.block.as_ref().map(|axes| {
        let [x, y, z] = axes;
        // All of it with the span of what was written, so that an error in it is shown there.
        quote_spanned!(x.span()=> __block([#x, #y, #z]))
    }));
    let shared = option(kernel.shared.as_ref());
    let Image { file: image, len, .. } = &kernel.image;
    quote! {
        #private::Kernel {
            path: ::core::concat!(::core::module_path!(), #path),
            symbol: #symbol,
            package: #package,
            version: #version,
            file: #file,
            line: #line,
            column: #column,
            summary: #summary,
            params: #private::Params::new(&[#(#params),*]),
            min_arch: #min_arch,
            block: #block,
            shared: #shared,
            image: ::core::option::Option::Some(#private::Image { file: #image, len: #len }),
        }
    }
}

fn description_of_param(param: &Param, private: &TokenStream) -> TokenStream {
    let Param { name, element, .. } = param;
    let constructor = match param.pass {
        Pass::Value => quote!(value),
        Pass::Slice => quote!(slice),
        Pass::SliceMut => quote!(slice_mut),
        Pass::Pointer => quote!(pointer),
        Pass::PointerMut => quote!(pointer_mut),
    };
    let ty = spelled(&param.ty);
    // With the span of the type, so that an error about it is shown there.
    quote_spanned!(element.span()=> #private::param::#constructor::<#element>(#name, #ty))
}

fn option(value: Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

/// The declaration as a person would write it.
fn signature(kernel: &Kernel) -> String {
    let params: Vec<String> =
        kernel.params.iter().map(|param| format!("{}: {}", param.name, spelled(&param.ty))).collect();
    format!("{}({})", kernel.ident, params.join(", "))
}

/// A type on one line, with the spaces that people put.
fn spelled(ty: &syn::Type) -> String {
    let mut text = String::new();
    for word in ty.to_token_stream().to_string().split_whitespace() {
        let closes = word.starts_with([']', '>', ')', ',', ';', ':', '<']);
        if !(text.is_empty() || text.ends_with(['&', '*', '[', '<', '(', ':']) || closes) {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

/// The attribute that places a record, for every object format.
fn link_section() -> TokenStream {
    let (elf, mach_o, pe) = (section::ELF, section::MACH_O, section::PE);
    quote! {
        #[cfg_attr(
            not(any(windows, target_vendor = "apple", target_family = "wasm")),
            unsafe(link_section = #elf)
        )]
        #[cfg_attr(target_vendor = "apple", unsafe(link_section = #mach_o))]
        #[cfg_attr(windows, unsafe(link_section = #pe))]
    }
}
