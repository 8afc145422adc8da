//! Finds the kernel in the image for an instance of a declaration.

use kernel_registry_format::{RustType, Scalar};
use kernel_registry_image::{CudaType, Entry, Image, Signature};
use proc_macro2::Span;
use quote::ToTokens;
use syn::{Expr, Lit, Type, UnOp};

use super::declaration::Wanted;
use super::declaration::generics::{GenericArgs, Value};
use super::declaration::param;

/// Finds the kernel of an instance. `file` is the name of the image in errors.
pub(crate) fn entry<'a>(
    wanted: &Wanted,
    args: &GenericArgs,
    image: &'a Image,
    file: &str,
) -> syn::Result<&'a Entry> {
    let find = |name: &str| image.find(name, file).map_err(|error| error.to_string());
    let at = |span: Span| move |message: String| syn::Error::new(span, message);
    match &args.name {
        _ if args.is_empty() => find(&wanted.name).map_err(at(wanted.span)),
        Some(name) => find(&name.value()).map_err(at(name.span())),
        None => {
            let name = instance(args, &wanted.name, image, file);
            let entry = name.and_then(|name| find(&name));
            entry.map_err(|message| syn::Error::new_spanned(&args.tokens, message))
        }
    }
}

/// Returns the C++ name of the instance of a template with these arguments.
fn instance(args: &GenericArgs, template: &str, image: &Image, file: &str) -> Result<String, String> {
    let all: Vec<&Signature> = image.instances_of(template);
    let mut found: Vec<&str> = all
        .iter()
        .filter(|signature| args_match(args, &signature.template_args))
        .map(|signature| signature.name.as_str())
        .collect();
    found.sort_unstable();
    found.dedup();
    let spelled = &args.spelled;
    match found.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] if all.is_empty() => Err(format!("no template `{template}` is instantiated in `{file}`")),
        [] => Err(format!(
            "no instance `{template}{spelled}` in `{file}`: instantiate it there, or say which one it is, \
             as in `{spelled} = \"..\"`; there are {}",
            listed(all.iter().map(|signature| signature.name.as_str()))
        )),
        several => Err(format!(
            "several instances of `{file}` could be `{template}{spelled}`: say which one, \
             as in `{spelled} = \"{}\"`; there are {}",
            several[0],
            listed(several.iter().copied())
        )),
    }
}

/// Returns whether these Rust arguments are the same as these C++ template arguments.
fn args_match(args: &GenericArgs, template_args: &[String]) -> bool {
    template_args.len() == args.values.len()
        && args.values.iter().zip(template_args).all(|((_, value), cuda)| match value {
            Value::Type(ty) => type_is(ty, cuda),
            Value::Const(value) => const_is(value, cuda),
        })
}

/// Returns whether this Rust type is the C++ type with this name.
fn type_is(ty: &Type, cuda: &str) -> bool {
    let spelled = param::spelled_tokens(ty.to_token_stream());
    if let Some(number) = RustType::named(&spelled) {
        return matches!(CudaType::parse(cuda), CudaType::Scalar(scalar) if scalar != Scalar::Void && scalar.accepts(number));
    }
    let Type::Path(path) = ty else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    let (name, cuda) = (last.ident.to_string(), cuda.rsplit("::").next().unwrap_or(cuda));
    // CUDA names 16-bit floating-point types differently than Rust crates do.
    match name.as_str() {
        "f16" => cuda == "__half",
        "bf16" => cuda == "__nv_bfloat16",
        name => name.eq_ignore_ascii_case(cuda),
    }
}

/// Returns whether C++ spells this number like that: `128u`, `true`, `(unsigned char)5`.
fn const_is(value: &Expr, cuda: &str) -> bool {
    let bare = cuda.rsplit(')').next().unwrap_or(cuda);
    let written = match value {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(number) => number.base10_digits().to_owned(),
            Lit::Bool(flag) => flag.value.to_string(),
            Lit::Char(c) => u32::from(c.value()).to_string(),
            _ => return false,
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => match &*unary.expr {
            Expr::Lit(syn::ExprLit { lit: Lit::Int(number), .. }) => format!("-{}", number.base10_digits()),
            _ => return false,
        },
        // Only the compiler knows the value of other expressions.
        _ => return false,
    };
    bare == written || bare.trim_end_matches(['u', 'l']) == written
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    names.sort();
    names.dedup();
    names.join(", ")
}
