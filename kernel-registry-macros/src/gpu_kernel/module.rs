//! `#[gpu_kernel]` on a module: each declaration inside becomes a kernel, and the module gets a list of its
//! kernels.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Item, ItemMod};

use super::arguments::Arguments;
use super::checked::{Checked, Kernel};
use super::code;
use super::written::Declaration;
use crate::errors::Errors;
use crate::source;

/// Expands the attribute on a module. `errors` has the errors in the attribute's arguments.
pub(crate) fn expand(module: ItemMod, args: &Arguments, mut errors: Errors) -> TokenStream {
    for key in args.keys_of_one_kernel() {
        errors.at(key, format!("`{key}` belongs to one kernel: put it on the declaration"));
    }
    let module = expand_module(module, args, &mut errors);
    let errors = errors.into_items(&[]);
    quote!(#errors #module)
}

fn expand_module(mut module: ItemMod, args: &Arguments, errors: &mut Errors) -> TokenStream {
    let Some((_, items)) = module.content.take() else {
        errors.at(
            &module,
            "the attribute does not see the kernels of a module in its own file: \
             put it on each declaration there, or write the module inline",
        );
        return module.into_token_stream();
    };
    let ItemMod { attrs, vis, mod_token, ident, .. } = &module;

    let mut body = TokenStream::new();
    let mut kernels = Vec::new();
    let mut name_is_taken = false;
    let mut has_warm_all = false;
    for item in items {
        match member(item) {
            Member::Kernel(written, own) => {
                // The compiler hasn't evaluated `#[cfg]` inside the module yet. So errors get the kernel's
                // `#[cfg]` attributes, which removes the errors of a kernel that isn't compiled.
                let mut errors = Errors::default();
                let own = own.map(|attr| arguments(&attr, &mut errors)).unwrap_or_default();
                let checked = Checked::new(*written, &own.or(args), errors);
                if let Checked::Kernel(kernel) = &checked {
                    let Kernel { name, declaration, .. } = &**kernel;
                    let cfgs = &name.cfgs;
                    let names =
                        declaration.instances.iter().map(|instance| code::used_name(&name.ident, instance));
                    kernels.push(quote!(#(#cfgs)* &[#(#names::INFO),*]));
                }
                body.extend(code::expand(checked));
            }
            Member::Module(inner, own) => {
                let mut errors = Errors::default();
                let own = own.map(|attr| arguments(&attr, &mut errors)).unwrap_or_default();
                let name = &inner.ident;
                let cfgs = source::cfgs(&inner.attrs);
                kernels.push(quote!(#(#cfgs)* #name::KERNELS));
                body.extend(expand_module(*inner, &own.or(args), &mut errors));
                body.extend(errors.into_items(&cfgs));
            }
            Member::Other(item) => {
                // None is generated if the module defines `warm_all`.
                has_warm_all |= matches!(&*item, Item::Fn(item) if item.sig.ident == "warm_all");
                if let Some(ident) = kernels_item(&item) {
                    name_is_taken = true;
                    errors.at(
                        ident,
                        "`KERNELS` is the list that `#[gpu_kernel]` generates: choose another name",
                    );
                }
                item.to_tokens(&mut body);
            }
        }
    }

    let krate = args.krate();
    let private = quote!(#krate::__private_0_1);
    let list = quote! {
        /// The kernels declared in this module and the modules inside it, in the order of their declaration.
        #[allow(deprecated)]
        pub const KERNELS: &[&#krate::KernelInfo] = {
            const PARTS: &[&[&#krate::KernelInfo]] = &[#(#kernels),*];
            const JOINED: [&#krate::KernelInfo; #private::total(PARTS)] = #private::join(PARTS);
            &JOINED
        };
    };
    let list = if name_is_taken { TokenStream::new() } else { list };
    let warm_all = quote! {
        /// Makes the kernels of [`KERNELS`] ready in a context, and no others. See
        /// `kernel_registry::warm_all`.
        #[allow(dead_code)]
        pub fn warm_all(
            context: &#private::Arc<#private::CudaContext>,
        ) -> ::core::result::Result<#krate::Warm, #krate::WarmError> {
            #private::warm_module(KERNELS, context)
        }
    };
    let warm_all = if has_warm_all || name_is_taken { TokenStream::new() } else { warm_all };
    quote! {
        #(#attrs)*
        #vis #mod_token #ident {
            #body
            #list
            #warm_all
        }
    }
}

enum Member {
    Kernel(Box<Declaration>, Option<Attribute>),
    Module(Box<ItemMod>, Option<Attribute>),
    Other(Box<Item>),
}

/// Classifies an item of the module. A function without a body is a kernel, with or without its own
/// `#[gpu_kernel]`. One with a body is left unchanged.
fn member(item: Item) -> Member {
    match item {
        Item::Mod(mut module) if module.content.is_some() => {
            let own = take_own(&mut module.attrs);
            Member::Module(Box::new(module), own)
        }
        Item::Verbatim(tokens) => match syn::parse2::<Declaration>(tokens.clone()) {
            Ok(mut declaration) => {
                let own = take_own(&mut declaration.attrs);
                Member::Kernel(Box::new(declaration), own)
            }
            Err(_) => Member::Other(Box::new(Item::Verbatim(tokens))),
        },
        item => Member::Other(Box::new(item)),
    }
}

/// Removes `#[gpu_kernel]`, under any path, from the attributes of an item, and returns it.
fn take_own(attrs: &mut Vec<Attribute>) -> Option<Attribute> {
    let is_own =
        |attr: &Attribute| attr.path().segments.last().is_some_and(|last| last.ident == "gpu_kernel");
    let at = attrs.iter().position(is_own)?;
    Some(attrs.remove(at))
}

fn arguments(attr: &Attribute, errors: &mut Errors) -> Arguments {
    match &attr.meta {
        syn::Meta::Path(_) => Arguments::default(),
        syn::Meta::List(list) => Arguments::parse(list.tokens.clone(), errors),
        syn::Meta::NameValue(meta) => {
            errors.at(meta, "`gpu_kernel` takes its arguments in parentheses");
            Arguments::default()
        }
    }
}

/// Returns the name of an item that would clash with the generated list.
fn kernels_item(item: &Item) -> Option<&syn::Ident> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Static(item) => &item.ident,
        _ => return None,
    };
    (ident == "KERNELS").then_some(ident)
}
