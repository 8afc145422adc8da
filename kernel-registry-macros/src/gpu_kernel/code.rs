//! Generates the code for a kernel: the type that represents it, and a call of the library's macro
//! `__kernel!`, which expands to everything else.
//!
//! Code that is the same for all kernels is in `__kernel!`. The compiler expands a `macro_rules!` macro many
//! times faster than this procedural macro, which cargo builds without optimisation, could write the same
//! tokens.

mod checks;
mod record;

use kernel_registry_format::{NOT_FIXED, Pass, SliceLength};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Expr};

use super::checked::{Checked, Kernel};
use super::declaration::block::Block;
use super::declaration::generics::Generic;
use super::declaration::param::Param;
use super::declaration::{Instance, Name};
use super::verdict::Verdict;

/// Generates the code for a declaration, and its errors if it has any.
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
    let lint = names_lint(kernel);
    quote! {
        #(#attrs)*
        #name
        #lint
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

/// Generates the code for a generic kernel. Only the declared instances implement the generated trait
/// `Instance`, so that the compiler's error for other arguments can list the instances. The trait is in a
/// module with a reserved name, so that no names clash.
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

            // Generic code in other crates can name the library's trait `Kernel`, but not `Instance`, so that
            // is the bound.
            #krate::__kernel! {
                [impl<#declared> #ident<#used> where Self: #krate::Kernel]
                #about
                #launch
                #(#registered)*
            }
        };
    }
}

/// Generates the type and its functions for a declaration with errors, so that uses of the kernel compile,
/// and cause no further errors.
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

/// Generates the type that represents the kernel. It's a struct with braces, because the name of a tuple or
/// unit struct is also a value, which could clash after a glob import. An uninhabited field makes sure that
/// the type has no values; an empty enum couldn't hold the marker for the type parameters of generic kernels.
/// Errors and lints about the type are shown at the kernel's name. `dead_code` is allowed, because a kernel
/// is registered even if nothing refers to its type.
fn type_item(name: &Name) -> TokenStream {
    let Name { vis, ident, generics, .. } = name;
    let declared = declared(generics);
    let types = generics.iter().filter(|generic| generic.of.is_none()).map(|generic| &generic.ident);
    let parameters = if generics.is_empty() { quote!() } else { quote!(<#declared>) };
    // Each type parameter has to occur in the struct. As the result of a function pointer, it imposes no
    // conditions on the type.
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

/// Returns the generic parameters as in a declaration: `T, const N: u32`.
fn declared(generics: &[Generic]) -> TokenStream {
    let declared = generics.iter().map(|Generic { ident, of }| match of {
        Some(ty) => quote!(const #ident: #ty),
        None => quote!(#ident),
    });
    quote!(#(#declared),*)
}

/// Returns the generic parameters as arguments of the type: `T, N`.
fn used(generics: &[Generic]) -> TokenStream {
    let idents = generics.iter().map(|generic| &generic.ident);
    quote!(#(#idents),*)
}

/// Returns the parameters of `launch`, each with the name of the function in `__private::pass` that converts
/// it to the driver's argument. A slice has a second function for its length, if the kernel takes that as a
/// separate argument.
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

/// Returns the tokens that make `__kernel!` register one instance. `has_info` is the trait with `INFO` that
/// the instance implements.
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

/// Generates a use of a deprecated constant if the names of parameters differ from the source's, because
/// macros have no other way to warn. Like any lint, it can be allowed or denied on the declaration.
fn names_lint(kernel: &Kernel) -> Option<TokenStream> {
    let (_, message) = kernel.verdicts.first()?.other_names.as_ref()?;
    let is_level = |attr: &&Attribute| {
        ["allow", "warn", "deny", "forbid"].iter().any(|level| attr.path().is_ident(level))
    };
    let levels = kernel.declaration.attrs.iter().filter(is_level);
    let Name { function, cfgs, .. } = &kernel.name;
    Some(quote_spanned! {function.span()=>
        #(#cfgs)*
        #(#levels)*
        const _: () = {
            #[deprecated(note = #message)]
            const PARAMETER_NAMES: () = ();
            PARAMETER_NAMES
        };
    })
}

/// Generates the checks of an instance. Each is in a separate constant, so that a failed check causes no
/// further errors.
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

/// Returns a kernel's name as an expression spells it: `saxpy`, `reduce::<f32, 128>`.
pub(crate) fn used_name(ident: &Ident, instance: &Instance) -> TokenStream {
    let args = &instance.args.tokens;
    if instance.args.is_empty() { quote!(#ident) } else { quote!(#ident::#args) }
}
