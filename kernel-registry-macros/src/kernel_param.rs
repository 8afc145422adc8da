//! `#[derive(KernelParam)]`: implements the trait for a struct with C's layout.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Fields, Item, ItemStruct, Member, Meta, Token, Type, parse_quote};

use crate::errors::Errors;

pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let implementation = match syn::parse2(input) {
        Ok(Item::Struct(input)) => implement(&input, &mut errors),
        Ok(Item::Enum(input)) => {
            errors.at(
                input.enum_token,
                "the kernel could create an enum value that Rust does not know: pass its number",
            );
            TokenStream::new()
        }
        Ok(item) => {
            errors.at(
                item,
                "some bits of a union may be undefined: implement `KernelParam` by hand, with the reason why it is sound",
            );
            TokenStream::new()
        }
        Err(error) => {
            errors.push(error);
            TokenStream::new()
        }
    };
    let errors = errors.into_items(&[]);
    quote!(#errors #implementation)
}

/// The layout that the struct's attributes ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    C,
    Transparent,
}

fn implement(input: &ItemStruct, errors: &mut Errors) -> TokenStream {
    let krate = krate(input, errors);
    let ItemStruct { ident, fields, .. } = input;
    let Some(layout) = layout(input, errors) else { return TokenStream::new() };
    if fields.is_empty() {
        errors.at(ident, "a struct without fields has one byte in C++ and none in Rust: leave it out");
    }
    report_references(fields, errors);
    let types = fields.iter().map(|field| &field.ty);
    let mut generics = input.generics.clone();
    if !generics.params.is_empty() {
        let clause = generics.make_where_clause();
        for ty in types.clone() {
            clause.predicates.push(parse_quote!(#ty: #krate::KernelParam));
        }
    }
    let (before, arguments, clause) = generics.split_for_impl();
    // A field's tokens have the span of its type, so that the compiler shows an error there. Fields with
    // references have already been reported.
    let described = fields.members().zip(types).filter(|(_, ty)| !matches!(ty, Type::Reference(_)));
    let described = described.map(|(member, ty)| {
        let name = match &member {
            Member::Named(name) => name.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        quote_spanned!(ty.span()=> #krate::__private_0_1::param::field::<#ty>(
            #name, ::core::stringify!(#ty), ::core::mem::offset_of!(Self, #member)
        ))
    });
    let rust = match (layout, fields.iter().next()) {
        (Layout::Transparent, Some(field)) if fields.len() == 1 => {
            let ty = &field.ty;
            quote!(const RUST: #krate::RustType = <#ty as #krate::KernelParam>::RUST;)
        }
        _ => quote!(),
    };
    quote! {
        // SAFETY: C and Rust agree on the layout of the struct and of each field.
        #[automatically_derived]
        unsafe impl #before #krate::KernelParam for #ident #arguments #clause {
            #rust
            #[allow(deprecated)]
            const FIELDS: &'static [#krate::__private_0_1::param::Field] = &[#(#described),*];
        }

        // SAFETY: as above. So cudarc can copy the struct to the device and pass it to kernels.
        #[automatically_derived]
        unsafe impl #before #krate::cudarc::driver::DeviceRepr for #ident #arguments #clause {}
    }
}

/// Returns the layout that `#[repr(..)]` asks for. Reports an error if C++ has no such layout.
fn layout(input: &ItemStruct, errors: &mut Errors) -> Option<Layout> {
    let mut found = None;
    for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
        // The compiler reports errors in `repr`.
        let _ = attr.parse_nested_meta(|meta| {
            if meta.path.is_ident("C") {
                found = Some(Layout::C);
            } else if meta.path.is_ident("transparent") {
                found = Some(Layout::Transparent);
            } else if meta.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<TokenStream>()?;
            }
            Ok(())
        });
    }
    if found.is_none() {
        errors.at(
            &input.ident,
            "the layout of the struct is unspecified, and may differ from C++: add `#[repr(C)]`",
        );
    }
    found
}

/// Reports fields that are references, because references point into host memory.
fn report_references(fields: &Fields, errors: &mut Errors) {
    for field in fields {
        if let Type::Reference(_) = field.ty {
            errors.at(
                &field.ty,
                "a reference into host memory does not cross to the device: write `*const T` or `*mut T`, for a device pointer",
            );
        }
    }
}

/// Returns the path of kernel-registry: `::kernel_registry`, or the path in `#[kernel_param(crate = ..)]`.
fn krate(input: &ItemStruct, errors: &mut Errors) -> TokenStream {
    let mut krate = quote!(::kernel_registry);
    for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("kernel_param")) {
        let path = match &attr.meta {
            Meta::List(list) => list.parse_args_with(|input: syn::parse::ParseStream<'_>| {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                input.parse::<syn::Path>()
            }),
            meta => Err(syn::Error::new_spanned(meta, "")),
        };
        match path {
            Ok(path) => krate = path.to_token_stream(),
            Err(_) => errors.at(
                attr,
                "`kernel_param` takes `crate = path`, under which this crate knows kernel-registry",
            ),
        }
    }
    krate
}
