//! Parses the parameters of a declaration: which Rust types a kernel can take, and how they are passed.

use kernel_registry_format::Pass;
use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{FnArg, GenericArgument, Pat, PathArguments, PointerMutability, Type};

use crate::errors::Errors;

/// A parameter that a kernel can have.
pub(crate) struct Param {
    pub(crate) ident: Ident,
    /// The parameter's name without `r#`.
    pub(crate) name: String,
    pub(crate) pass: Pass,
    /// Whether the parameter is an `Option` of a slice.
    pub(crate) nullable: bool,
    /// The type as written, on one line.
    pub(crate) spelled: String,
    /// The type that is passed by value, or the type behind the slice or pointer.
    pub(crate) element: Type,
}

/// Parses the parameters of a kernel, and reports errors.
pub(crate) fn parse_params<'a>(
    inputs: impl IntoIterator<Item = &'a FnArg>,
    errors: &mut Errors,
) -> Vec<Param> {
    let mut params: Vec<Param> = Vec::new();
    for arg in inputs {
        let Some(param) = parse_param(arg, errors) else { continue };
        if params.iter().any(|other| other.name == param.name) {
            errors
                .push(syn::Error::new(arg.span(), format!("there is a parameter `{}` already", param.name)));
        }
        params.push(param);
    }
    params
}

fn parse_param(arg: &FnArg, errors: &mut Errors) -> Option<Param> {
    let FnArg::Typed(arg) = arg else {
        errors.at(arg, "a kernel is not a method: it takes no `self`");
        return None;
    };
    if let Some(attr) = arg.attrs.first() {
        errors.at(attr, "attributes on a kernel's parameters have no meaning");
    }
    let name = name(&arg.pat, errors);
    let optional = in_option(&arg.ty);
    let nullable = optional.is_some();
    let (pass, element) = match optional.unwrap_or_else(|| classify(&arg.ty)) {
        Ok(passed) => passed,
        Err(message) => {
            errors.at(&arg.ty, message);
            return None;
        }
    };
    let (element, spelled) = (element.clone(), spelled(&arg.ty));
    let mut ident = name?;
    let name = ident.unraw().to_string();
    ident.set_span(ident.span().resolved_at(Span::mixed_site()));
    Some(Param { ident, name, pass, nullable, spelled, element })
}

fn name(pat: &Pat, errors: &mut Errors) -> Option<Ident> {
    match pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.mutability.is_none() && pat.subpat.is_none() => {
            Some(pat.ident.clone())
        }
        Pat::Ident(pat) => {
            errors.at(pat, format!("a kernel's parameter is a plain name: write `{}`", pat.ident));
            None
        }
        _ => {
            errors.at(pat, "a kernel's parameter needs a name: errors and listings show it");
            None
        }
    }
}

/// How a type is passed, with its element type, or why it can't be.
type Passed<'a> = Result<(Pass, &'a Type), &'static str>;

/// Returns how an `Option` of a reference is passed. `None` for every other type.
fn in_option(ty: &Type) -> Option<Passed<'_>> {
    let Type::Path(path) = plain(ty) else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(inside) => match plain(inside) {
            Type::Reference(_) => Some(classify(inside)),
            Type::Ptr(_) => Some(Err("a pointer can be null without `Option`: write `*const T` or `*mut T`")),
            _ => None,
        },
        _ => None,
    }
}

/// Returns how a type is passed.
fn classify(ty: &Type) -> Passed<'_> {
    match ty {
        Type::Group(group) => classify(&group.elem),
        Type::Paren(paren) => classify(&paren.elem),
        Type::Reference(reference) => {
            if reference.lifetime.is_some() {
                return Err("a lifetime on a kernel's parameter has no meaning: leave it out");
            }
            match (plain(&reference.elem), &reference.mutability) {
                (Type::Slice(slice), None) => sized(&slice.elem).map(|element| (Pass::Slice, element)),
                (Type::Slice(slice), Some(_)) => sized(&slice.elem).map(|element| (Pass::SliceMut, element)),
                (Type::Array(_), _) => Err("the device is told no length: write `&[T]` or `&mut [T]`"),
                _ => Err("a reference into host memory does not cross to the device: \
                     write `&[T]` or `&mut [T]` for device memory, or `*const T` or `*mut T` for any device pointer"),
            }
        }
        Type::Ptr(pointer) => {
            let pass = match pointer.mutability {
                PointerMutability::Const(_) => Pass::Pointer,
                PointerMutability::Mut(_) => Pass::PointerMut,
            };
            sized(&pointer.elem).map(|element| (pass, element))
        }
        Type::Path(_) | Type::Macro(_) => Ok((Pass::Value, ty)),
        Type::Slice(_) => Err("a slice is passed by reference: write `&[T]` or `&mut [T]`"),
        Type::Array(_) => {
            Err("CUDA passes no arrays by value: write `&[T]`, or put the array into a `#[repr(C)]` struct")
        }
        Type::Tuple(_) => Err("the layout of a tuple is unspecified: use a `#[repr(C)]` struct"),
        Type::FnPtr(_) => Err("a function of the host cannot be called on the device"),
        Type::ImplTrait(_) | Type::TraitObject(_) => Err("a kernel takes concrete types, not traits"),
        Type::Infer(_) => Err("spell the type out: nothing tells the compiler what it is"),
        _ => Err("a kernel takes numbers, `#[repr(C)]` structs, device pointers and slices"),
    }
}

/// Checks the element type of a slice or pointer, which must have a fixed size.
fn sized(element: &Type) -> Result<&Type, &'static str> {
    match plain(element) {
        Type::Slice(_) | Type::TraitObject(_) => {
            Err("a pointer to something without a fixed size is two words, and CUDA passes one: \
                 write `*const T`, and pass the length on its own")
        }
        Type::Path(path) if path.path.is_ident("str") => {
            Err("text is bytes on the device: write `*const u8` or `&[u8]`, and pass the length on its own")
        }
        Type::Infer(_) => Err("spell the type out: nothing tells the compiler what it is"),
        _ => Ok(element),
    }
}

/// Returns the type without parentheses and the invisible groups of `macro_rules!`.
fn plain(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(paren) => plain(&paren.elem),
        _ => ty,
    }
}

/// Returns a type as one line of text, with the usual spaces.
fn spelled(ty: &Type) -> String {
    // A fast path for the kinds that make up nearly all types, because printing tokens is slow.
    match ty {
        Type::Path(path) => {
            if let (None, Some(ident)) = (&path.qself, path.path.get_ident()) {
                return ident.to_string();
            }
        }
        Type::Reference(reference) if reference.lifetime.is_none() => {
            let mutability = if reference.mutability.is_some() { "mut " } else { "" };
            return format!("&{mutability}{}", spelled(&reference.elem));
        }
        Type::Slice(slice) => return format!("[{}]", spelled(&slice.elem)),
        _ => {}
    }
    spelled_tokens(ty.to_token_stream())
}

/// Returns tokens as one line of text, with the usual spaces.
pub(crate) fn spelled_tokens(tokens: TokenStream) -> String {
    let mut text = String::new();
    for word in tokens.to_string().split_whitespace() {
        let closes = word.starts_with([']', '>', ')', ',', ';', ':', '<']);
        if !(text.is_empty() || text.ends_with(['&', '*', '[', '<', '(', ':']) || closes) {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}
