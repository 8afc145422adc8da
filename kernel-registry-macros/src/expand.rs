//! From the model to code: the type, what is known of the kernel, and its registration.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Attribute, Visibility};

use crate::check::{Broken, Checked};
use crate::model::{Generic, Instance, Kernel};
use crate::{launch, record};

impl Checked {
    pub(crate) fn expand(&self) -> TokenStream {
        match self {
            Checked::Kernel(kernel) => match kernel.instances.as_slice() {
                [instance] if kernel.generics.is_empty() => expand_kernel(kernel, instance),
                instances => expand_generic(kernel, instances),
            },
            Checked::Broken(broken) => expand_broken(broken),
        }
    }
}

/// The type, what users call on it, and calls of the library's `__register!`, which does the rest inside of an
/// unnamed constant.
///
/// The fewer tokens are written here, the faster are the builds of those who have many kernels.
fn expand_kernel(kernel: &Kernel, instance: &Instance) -> TokenStream {
    let Kernel { krate, ident, vis, attrs, cfgs, .. } = kernel;
    let name = name(vis, ident, &[]);
    let silent = silent(attrs);
    let about = about(kernel, instance);
    let registered = register(kernel, instance, quote!(#krate::Kernel));
    let functions = launch::functions(&instance.params, krate);

    quote! {
        #(#attrs)*
        #name

        #(#cfgs)*
        #registered

        #(#cfgs)*
        #silent
        #[doc = #about]
        impl #ident {
            /// What is known of this kernel without loading it.
            pub const INFO: &'static #krate::KernelInfo = <Self as #krate::Kernel>::INFO;

            #functions
        }
    }
}

/// The same for a kernel with instances. What they share needs a bound that only they meet: a trait of its own, because
/// then it can say in an error which instances there are.
fn expand_generic(kernel: &Kernel, instances: &[Instance]) -> TokenStream {
    let Kernel { krate, ident, vis, attrs, cfgs, generics, .. } = kernel;
    let name = name(vis, ident, generics);
    let silent = silent(attrs);
    let (declared, used) = (declared(generics), used(generics));
    let listed: Vec<String> =
        instances.iter().map(|instance| format!("`{ident}::{}`", instance.spelled)).collect();
    let listed = listed.join(", ");
    let message = format!("`{{Self}}` is not an instance of the kernel `{ident}`");
    let note = format!("its instances are {listed}: others are added in `instances(..)` of its declaration");
    let about = format!("A kernel with the instances {listed}.");
    let functions = launch::functions(&kernel.generic_params, krate);
    let registered = instances.iter().map(|instance| register(kernel, instance, quote!(Instance)));

    quote! {
        #(#attrs)*
        #name

        #(#cfgs)*
        #silent
        const _: () = {
            #[diagnostic::on_unimplemented(message = #message, label = "no such instance", note = #note)]
            #[allow(unreachable_pub)]
            pub trait Instance {
                const INFO: &'static #krate::KernelInfo;
            }

            #(#registered)*

            impl<#declared> #krate::Kernel for #ident<#used>
            where
                Self: Instance,
            {
                const INFO: &'static #krate::KernelInfo = <Self as Instance>::INFO;
            }

            // The library's trait is the one that others can name, so that code which is generic itself can launch.
            #[doc = #about]
            impl<#declared> #ident<#used>
            where
                Self: #krate::Kernel,
            {
                /// What is known of this instance without loading it.
                pub const INFO: &'static #krate::KernelInfo = <Self as #krate::Kernel>::INFO;

                #functions
            }
        };
    }
}

/// The name and its functions: using it compiles as far as types go, and the errors that were reported stay the only ones.
fn expand_broken(broken: &Broken) -> TokenStream {
    let Broken { krate, vis, ident, generics, params, cfgs } = broken;
    let functions = params.as_ref().map(|params| launch::functions(params, krate));
    let name = name(vis, ident, generics);
    let (declared, used) = (declared(generics), used(generics));
    quote! {
        #(#cfgs)*
        #[allow(missing_docs)]
        #name

        #(#cfgs)*
        #[allow(missing_docs)]
        impl<#declared> #krate::Kernel for #ident<#used> {
            const INFO: &'static #krate::KernelInfo = ::core::panic!("this kernel has errors");
        }

        #(#cfgs)*
        #[allow(missing_docs)]
        impl<#declared> #ident<#used> {
            pub const INFO: &'static #krate::KernelInfo = <Self as #krate::Kernel>::INFO;

            #functions
        }
    }
}

/// The type that stands for the kernel. It has braces, so that its name stays free for values after a
/// glob import, and a field without a value, so that there is nothing to make. Errors and lints about
/// it are shown at the kernel's name. A kernel that nothing refers to is registered all the same: it is not dead.
fn name(vis: &Visibility, ident: &Ident, generics: &[Generic]) -> TokenStream {
    let declared = declared(generics);
    let types = generics.iter().filter(|generic| generic.of.is_none()).map(|generic| &generic.ident);
    let parameters = if generics.is_empty() { quote!() } else { quote!(<#declared>) };
    // Each type parameter has to occur; as the result of a function it asks nothing of the type.
    let marker = quote!(::core::marker::PhantomData<(#(fn() -> #types,)*)>);
    let field = match generics {
        [] => quote!(::core::convert::Infallible),
        _ => quote!((::core::convert::Infallible, #marker)),
    };
    quote_spanned! {ident.span()=>
        #[allow(dead_code)]
        #vis struct #ident #parameters {
            #[doc(hidden)]
            __only_a_name: #field,
        }
    }
}

/// The generic parameters as a declaration has them.
fn declared(generics: &[Generic]) -> TokenStream {
    let declared = generics.iter().map(|Generic { ident, of }| match of {
        Some(ty) => quote!(const #ident: #ty),
        None => quote!(#ident),
    });
    quote!(#(#declared),*)
}

/// The generic parameters as arguments.
fn used(generics: &[Generic]) -> TokenStream {
    let idents = generics.iter().map(|generic| &generic.ident);
    quote!(#(#idents),*)
}

/// Registers one instance, and implements for its type the trait that has its `INFO`.
fn register(kernel: &Kernel, instance: &Instance, has_info: TokenStream) -> TokenStream {
    let Kernel { krate, ident, .. } = kernel;
    let args = &instance.args;
    let turbofish = if instance.spelled.is_empty() { "" } else { "::" };
    let path = format!("::{}{turbofish}{}", ident.unraw(), instance.spelled);
    let fixed = record::fixed_fields(kernel, instance);
    let (fixed, fixed_len) = (Literal::byte_string(&fixed), Literal::usize_unsuffixed(fixed.len()));
    let params = instance.params.iter().map(|param| record::layout(param, krate));
    let param_count = Literal::usize_unsuffixed(instance.params.len());
    let block = instance.block.as_ref().map(|block| block.expand(krate));
    let shared = instance.shared.as_ref().map(|shared| shared.expand(krate));
    let stack = instance.stack.as_ref().map(|stack| stack.expand(krate));
    let image = match &kernel.image.content {
        Some(content) => {
            let path = &content.path;
            quote!(::core::include_bytes!(#path))
        }
        None => quote!(&[]),
    };
    quote! {
        #krate::__register! {
            #has_info, #ident #args,
            path: #path fixed: #fixed #fixed_len params: [#(#params,)*] #param_count
            block: (#block) shared: (#shared) stack: (#stack) image: #image
        }
    }
}

/// What the implementations for a type need that its user has deprecated.
fn silent(attrs: &[Attribute]) -> TokenStream {
    let is_deprecated = attrs.iter().any(|attr| attr.path().is_ident("deprecated"));
    if is_deprecated { quote!(#[allow(deprecated)]) } else { quote!() }
}

/// The declaration as a person would write it, and where its code is.
fn about(kernel: &Kernel, instance: &Instance) -> String {
    let params = instance.params.iter();
    let params: Vec<String> = params.map(|param| format!("{}: {}", param.name, param.spelled)).collect();
    let (ident, symbol, file) = (&kernel.ident, &instance.symbol, &kernel.image.file);
    format!("Kernel `{ident}({})`, entry `{symbol}` of `{file}`.", params.join(", "))
}
