//! Code: the type that stands for a kernel, and a call of the library's `__kernel!`, which does the rest.
//!
//! The compiler expands that macro many times faster than a procedural macro, which cargo builds without optimisation,
//! can write the same tokens. So what is the same for all kernels is there.

mod checks;
mod record;

use kernel_registry_format::{NOT_FIXED, Pass, SliceLength};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::Expr;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::checked::{Checked, Kernel};
use super::declaration::block::Block;
use super::declaration::generics::Generic;
use super::declaration::param::Param;
use super::declaration::{Instance, Name};
use super::verdict::Verdict;

/// Writes what a declaration becomes, with its errors if it has any.
pub(crate) fn expand(checked: Checked) -> TokenStream {
    match checked {
        Checked::Kernel(kernel) => expand_kernel(&kernel),
        Checked::Broken(name, errors) => {
            let (errors, code) = (errors.into_items(&name.cfgs), expand_broken(&name));
            quote!(#errors #code)
        }
    }
}

fn expand_kernel(kernel: &Kernel) -> TokenStream {
    let attrs = &kernel.declaration.attrs;
    let (name, rest) = (
        type_item(&kernel.name),
        match kernel.name.generics.is_empty() {
            true => ordinary(kernel),
            false => generic(kernel),
        },
    );
    quote! {
        #(#attrs)*
        #name
        #rest
    }
}

fn ordinary(kernel: &Kernel) -> TokenStream {
    let Kernel { name, declaration, image, verdicts } = kernel;
    let Name { krate, ident, cfgs, .. } = name;
    let ([instance], [verdict]) = (&*declaration.instances, &**verdicts) else { return TokenStream::new() };
    let params = instance.params.iter();
    let params: Vec<String> = params.map(|param| format!("{}: {}", param.name, param.spelled)).collect();
    let about =
        format!("Kernel `{ident}({})`, entry `{}` of `{}`.", params.join(", "), verdict.symbol, image.file);
    let launch = launch(&instance.params, verdict.length, krate);
    let registered = registered_as(kernel, instance, verdict, quote!(#krate::Kernel));
    let checks = checks(kernel, instance, verdict);
    quote! {
        #checks

        #(#cfgs)*
        #krate::__kernel! {
            [impl #ident] #about
            #launch
            #registered
        }
    }
}

/// What the instances share needs a bound that only they meet: a trait of its own, whose error can list the instances. The trait is
/// in a module with a name that nobody uses, so that its name, and those of its attributes, clash with nothing.
fn generic(kernel: &Kernel) -> TokenStream {
    let Kernel { name, declaration, verdicts, .. } = kernel;
    let Name { krate, ident, cfgs, generics, .. } = name;
    let (declared, used) = (declared(generics), used(generics));
    let instances = &declaration.instances;
    let listed: Vec<String> =
        instances.iter().map(|instance| format!("`{ident}::{}`", instance.args.spelled)).collect();
    let listed = listed.join(", ");
    let message = format!("`{{Self}}` is not an instance of the kernel `{ident}`");
    let note = format!("its instances are {listed}: others are added in `instances(..)` of its declaration");
    let about = format!("A kernel with the instances {listed}.");
    let length = verdicts.first().and_then(|verdict| verdict.length);
    let launch = name.params.as_ref().map(|params| launch(params, length, krate));
    let all = || instances.iter().zip(verdicts);
    let checks = all().map(|(instance, verdict)| checks(kernel, instance, verdict));
    let module = format_ident!("__instances_of_{}", ident.unraw());
    let instance = quote!(#module::Instance);
    let registered = all().map(|(of, verdict)| registered_as(kernel, of, verdict, instance.clone()));
    quote! {
        #(#checks)*

        #(#cfgs)*
        #[allow(deprecated)]
        const _: () = {
            #krate::__instances! { #module #message #note }

            impl<#declared> #krate::Kernel for #ident<#used>
            where
                Self: #instance,
            {
                const INFO: &'static #krate::KernelInfo = <Self as #instance>::INFO;
            }

            // The library's trait is the one that others can name, so that code which is generic itself can launch.
            #krate::__kernel! {
                [impl<#declared> #ident<#used> where Self: #krate::Kernel]
                #about
                #launch
                #(#registered)*
            }
        };
    }
}

/// Writes the name and its functions for a broken declaration: uses of it compile, so that the reported errors are the only ones.
fn expand_broken(name: &Name) -> TokenStream {
    let Name { krate, ident, cfgs, generics, params, .. } = name;
    let launch = params.as_ref().map(|params| launch(params, None, krate));
    let (declared, used) = (declared(generics), used(generics));
    let type_item = type_item(name);
    quote! {
        #(#cfgs)*
        #[allow(missing_docs)]
        #type_item

        #(#cfgs)*
        impl<#declared> #krate::__private_0_1::ImageSource for #ident<#used> {
            const BYTES: &'static [::core::primitive::u8] = &[];
        }

        #(#cfgs)*
        impl<#declared> #krate::Kernel for #ident<#used> {
            const INFO: &'static #krate::KernelInfo = #krate::__private_0_1::UNKNOWN;
        }

        #(#cfgs)*
        #krate::__kernel! { [impl<#declared> #ident<#used>] "" #launch }
    }
}

/// The type that stands for the kernel. It has braces, so that values can have its name after a glob import, and a field without a
/// value, so that nobody can make one. An empty enum has no place for the marker of generic kernels. Errors and lints about
/// it are shown at the kernel's name. A kernel that nothing refers to is registered all the same: it is not dead.
fn type_item(name: &Name) -> TokenStream {
    let Name { vis, ident, generics, .. } = name;
    let declared = declared(generics);
    let types = generics.iter().filter(|generic| generic.of.is_none()).map(|generic| &generic.ident);
    let parameters = if generics.is_empty() { quote!() } else { quote!(<#declared>) };
    // Each type parameter has to occur; as the result of a function it asks nothing of the type.
    let marker = quote!(::core::marker::PhantomData<(#(fn() -> #types,)*)>);
    let field = match generics.as_slice() {
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

/// The parameters as `launch` has them, each with the function of `__private::pass` that turns it into the driver's argument.
/// A slice has a second function for its length, if that is an argument of its own.
fn launch(params: &[Param], length: Option<SliceLength>, krate: &TokenStream) -> TokenStream {
    let length = length.filter(|length| *length == SliceLength::Next).map(|_| quote!(, length));
    let params = params.iter().map(|Param { ident, element, pass, nullable, .. }| {
        let span = element.span();
        match pass {
            Pass::Slice if *nullable => {
                quote_spanned!(span=> #ident: impl #krate::__private_0_1::SliceOrNull<#element> = nullable #length;)
            }
            Pass::SliceMut if *nullable => {
                quote_spanned!(span=> #ident: impl #krate::__private_0_1::SliceOrNullMut<#element> = nullable_mut #length;)
            }
            Pass::Value => quote!(#ident: #element = value;),
            Pass::Slice => {
                quote_spanned!(span=> #ident: &impl #krate::__private_0_1::DevicePtr<#element> = slice #length;)
            }
            Pass::SliceMut => {
                quote_spanned!(span=> #ident: &mut impl #krate::__private_0_1::DevicePtrMut<#element> = slice_mut #length;)
            }
            Pass::Pointer => quote_spanned!(span=> #ident: impl #krate::__private_0_1::PointerTo<#element> = pointer;),
            Pass::PointerMut => {
                quote_spanned!(span=> #ident: impl #krate::__private_0_1::PointerToMut<#element> = pointer;)
            }
        }
    });
    quote!(launch(#(#params)*))
}

/// The tokens for `__kernel!` to register one instance. `has_info` is the trait that the instance implements.
fn registered_as(
    kernel: &Kernel,
    instance: &Instance,
    verdict: &Verdict,
    has_info: TokenStream,
) -> TokenStream {
    let Name { krate, ident, .. } = &kernel.name;
    let args = &instance.args;
    let tokens = &args.tokens;
    let turbofish = if args.is_empty() { "" } else { "::" };
    let path = format!("::{}{turbofish}{}", ident.unraw(), args.spelled);
    let fixed = record::fixed_fields(kernel, instance, verdict);
    let (fixed, fixed_len) = (Literal::byte_string(&fixed), Literal::usize_unsuffixed(fixed.len()));
    let layouts = instance.params.iter().zip(&verdict.layouts);
    let layouts = layouts.map(|(param, layout)| record::layout(param, layout, krate));
    let param_count = Literal::usize_unsuffixed(instance.params.len());
    let not_fixed = Literal::u32_unsuffixed(NOT_FIXED);
    let block = instance.block.as_ref().map(|Block { axes: [x, y, z] }| quote!([#x, #y, #z]));
    let block = block.unwrap_or_else(|| match verdict.default_block {
        Some([x, y, z]) => quote!([#x, #y, #z]),
        None => quote!([#not_fixed; 3]),
    });
    let bytes = |given: &Option<Expr>| given.as_ref().map_or(quote!(#not_fixed), |bytes| quote!(#bytes));
    let (shared, stack) = (bytes(&instance.shared), bytes(&instance.stack));
    let image = match &kernel.image.content {
        Some(content) => {
            let path = &content.path;
            quote!(::core::include_bytes!(#path))
        }
        None => quote!(&[]),
    };
    quote! {
        register #ident #tokens: #has_info, #path
        #fixed #fixed_len [#(#layouts,)*] #param_count #block, #shared, #stack, #image;
    }
}

/// The checks of an instance, each in a constant of its own, so that one that fails is the only error.
fn checks(kernel: &Kernel, instance: &Instance, verdict: &Verdict) -> TokenStream {
    let Name { krate, cfgs, .. } = &kernel.name;
    let checks = checks::emit(instance, verdict, krate).into_iter();
    let check = |check| {
        quote! {
            #(#cfgs)*
            #[allow(deprecated)]
            const _: () = #check;
        }
    };
    checks.map(check).collect()
}

/// The kernel's own name in code outside of its item: `saxpy`, `reduce::<f32, 128>`.
pub(crate) fn used_name(ident: &Ident, instance: &Instance) -> TokenStream {
    let args = &instance.args.tokens;
    if instance.args.is_empty() { quote!(#ident) } else { quote!(#ident::#args) }
}
