//! From the model to code: the type, what is known of the kernel, its record and its registration.

use kernel_registry_format as format;
use proc_macro2::{Ident, Literal, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Visibility};

use crate::check::{Broken, Checked};
use crate::model::{Expected, Kernel, Param, Pass};

impl Checked {
    pub(crate) fn expand(&self) -> TokenStream {
        match self {
            Checked::Kernel(kernel) => expand_kernel(kernel),
            Checked::Broken(broken) => expand_broken(broken),
        }
    }
}

/// The type, and a call of the library's `__register!`, which does the rest inside of an unnamed constant.
///
/// The fewer tokens are written here, the faster are the builds of those who have many kernels.
fn expand_kernel(kernel: &Kernel) -> TokenStream {
    let Kernel { krate, ident, vis, attrs, cfgs, .. } = kernel;
    let name = name(vis, ident);
    let path = format!("::{}", ident.unraw());
    let fixed = fixed_fields(kernel);
    let (fixed, fixed_len) = (Literal::byte_string(&fixed), Literal::usize_unsuffixed(fixed.len()));
    let params = kernel.params.iter().map(|param| layout(param, krate));
    let param_count = Literal::usize_unsuffixed(kernel.params.len());
    let block = kernel.block.as_ref().map(|axes| block(axes, krate));
    let shared = &kernel.shared;
    let image = &kernel.image.path;
    let about =
        format!("Kernel `{}`, entry `{}` of `{}`.", signature(kernel), kernel.symbol, kernel.image.file);

    quote! {
        #(#attrs)*
        #name

        #(#cfgs)*
        #krate::__register! {
            #ident path: #path fixed: #fixed #fixed_len params: [#(#params,)*] #param_count
            block: (#block) shared: (#shared) image: #image about: #about
        }
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
            pub const INFO: &'static #krate::KernelInfo = ::core::panic!("this kernel has errors");
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

/// What the record says of the kernel that is known here and now.
fn fixed_fields(kernel: &Kernel) -> Vec<u8> {
    // Sizes and alignments are the compiler's to say.
    let params = kernel.params.iter();
    let params: Vec<_> =
        params.map(|param| format::Param::new(&param.name, &param.spelled, param.pass, 0, 0)).collect();
    let mut bytes = Vec::new();
    format::fixed_fields(
        &format::Kernel {
            symbol: &kernel.symbol,
            package: &kernel.package,
            version: &kernel.version,
            file: &kernel.position.file,
            line: kernel.position.line,
            column: kernel.position.column,
            summary: &kernel.summary,
            params: format::Params::new(&params),
            min_arch: kernel.min_arch,
            image: Some(format::Image { file: &kernel.image.file, len: kernel.image.len }),
            ..format::Kernel::EMPTY
        },
        &mut bytes,
    );
    bytes
}

/// A call that returns size and alignment of a parameter's type, after comparing that with what the image
/// says. All of it has the span of the type, so that an error in it is shown there.
fn layout(param: &Param, krate: &TokenStream) -> TokenStream {
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

/// The threads of a block. What the macro has not seen to be right is checked by the compiler, in code
/// that has the span of what was written, so that an error in it is shown there.
fn block(axes: &[Expr; 3], krate: &TokenStream) -> TokenStream {
    let [x, y, z] = axes;
    if axes.iter().all(|axis| matches!(axis, Expr::Lit(_))) {
        return quote!([#x, #y, #z]);
    }
    let check = quote_spanned!(x.span()=> __block([#x, #y, #z]));
    quote!({ use #krate::__private::block as __block; #check })
}

/// The declaration as a person would write it.
fn signature(kernel: &Kernel) -> String {
    let params: Vec<String> =
        kernel.params.iter().map(|param| format!("{}: {}", param.name, param.spelled)).collect();
    format!("{}({})", kernel.ident, params.join(", "))
}
