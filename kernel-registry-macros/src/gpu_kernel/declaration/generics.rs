//! Parses the generic parameters of a declaration, and the generic arguments of each instance.

use proc_macro2::{Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    AngleBracketedGenericArguments, Expr, FnArg, GenericArgument, GenericParam, Generics, LitStr, Type,
};

use super::param;
use crate::errors::Errors;
use crate::gpu_kernel::arguments;

/// A generic parameter.
pub(crate) struct Generic {
    pub(crate) ident: Ident,
    /// The type of a const parameter; `None` for a type parameter.
    pub(crate) of: Option<Type>,
}

/// The generic arguments of an instance. Empty for a kernel that isn't generic.
#[derive(Default)]
pub(crate) struct GenericArgs {
    /// The arguments as written, to append to the kernel's name: `<f32, 128>`.
    pub(crate) tokens: TokenStream,
    /// `tokens` as text for messages. Empty for a kernel that isn't generic.
    pub(crate) spelled: String,
    /// The instance's name in the image, if the declaration states it.
    pub(crate) name: Option<LitStr>,
    /// The names of the generic parameters, each with its argument.
    pub(crate) values: Vec<(Ident, Value)>,
}

/// A generic argument.
pub(crate) enum Value {
    Type(Type),
    Const(Expr),
}

/// Parses the generic parameters of a declaration, and reports unsupported ones.
pub(crate) fn parse_generics(written: &Generics, errors: &mut Errors) -> Vec<Generic> {
    let mut generics = Vec::new();
    for param in &written.params {
        match param {
            GenericParam::Lifetime(param) => {
                errors.at(param, "a lifetime has no meaning for a kernel: leave it out");
            }
            GenericParam::Type(param) => {
                if !param.bounds.is_empty() {
                    errors.at(&param.bounds, "the instances say which types there are: leave the bounds out");
                }
                if let Some((_, default)) = &param.default {
                    errors.at(default, "every instance says all of its arguments: leave the default out");
                }
                generics.push(Generic { ident: param.ident.clone(), of: None });
            }
            GenericParam::Const(param) => {
                if let Some((_, default)) = &param.default {
                    errors.at(default, "every instance says all of its arguments: leave the default out");
                }
                generics.push(Generic { ident: param.ident.clone(), of: Some(param.ty.clone()) });
            }
        }
    }
    generics
}

/// Matches the arguments of each listed instance to the generic parameters.
pub(crate) fn args(
    generics: &[Generic],
    listed: &[arguments::Instance],
    errors: &mut Errors,
) -> Vec<GenericArgs> {
    let mut all: Vec<GenericArgs> = Vec::new();
    for arguments::Instance { args, name } in listed {
        let Some(values) = values(generics, args, errors) else { continue };
        let tokens = args.to_token_stream();
        let spelled = param::spelled_tokens(tokens.clone());
        if all.iter().any(|other| other.spelled == spelled) {
            errors.at(args, format!("the instance `{spelled}` is given twice"));
            continue;
        }
        all.push(GenericArgs { tokens, spelled, name: name.clone(), values });
    }
    all
}

/// Matches the arguments of one instance to the generic parameters.
fn values(
    generics: &[Generic],
    args: &AngleBracketedGenericArguments,
    errors: &mut Errors,
) -> Option<Vec<(Ident, Value)>> {
    if args.args.len() != generics.len() {
        let (count, given) = (generics.len(), args.args.len());
        let plural = if count == 1 { "" } else { "s" };
        errors.at(
            args,
            format!("the kernel has {count} generic parameter{plural}, and {given} are given here"),
        );
        return None;
    }
    let value = |(generic, arg): (&Generic, &GenericArgument)| {
        let value = match (&generic.of, arg) {
            (None, GenericArgument::Type(ty)) => Value::Type(ty.clone()),
            (Some(_), GenericArgument::Const(value)) => Value::Const(value.clone()),
            // The name of a constant was parsed as a type.
            (Some(_), GenericArgument::Type(Type::Path(path))) => {
                let tokens = path.to_token_stream();
                Value::Const(Expr::Verbatim(quote::quote!({ #tokens })))
            }
            _ => {
                let kind = if generic.of.is_some() { "a number" } else { "a type" };
                errors.at(arg, format!("`{}` takes {kind}", generic.ident));
                return None;
            }
        };
        Some((generic.ident.clone(), value))
    };
    generics.iter().zip(&args.args).map(value).collect()
}

impl GenericArgs {
    /// Returns whether there are no arguments, because the kernel isn't generic.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Replaces the generic parameters in a parameter's type with the arguments.
    pub(crate) fn put_into_param(&self, arg: &FnArg, errors: &mut Errors) -> Option<FnArg> {
        let mut arg = arg.clone();
        if let FnArg::Typed(arg) = &mut arg {
            match syn::parse2(self.put_into(arg.ty.to_token_stream())) {
                Ok(ty) => *arg.ty = ty,
                Err(error) => {
                    errors.push(error);
                    return None;
                }
            }
        }
        Some(arg)
    }

    /// Replaces the generic parameters in an expression with the arguments.
    pub(crate) fn put_into_expr(&self, value: &Expr) -> Expr {
        if self.is_empty() {
            return value.clone();
        }
        syn::parse2(self.put_into(value.to_token_stream())).unwrap_or_else(|_| value.clone())
    }

    fn put_into(&self, tokens: TokenStream) -> TokenStream {
        let mut out = TokenStream::new();
        // In `path::T`, `T` isn't the generic parameter, so colons before a name are counted.
        let mut colons = 0;
        for token in tokens {
            let behind_path = colons == 2;
            colons = match &token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && (colons == 1 || is_joint(punct)) => {
                    colons + 1
                }
                _ => 0,
            };
            match token {
                TokenTree::Ident(ident) if !behind_path => match self.value(&ident) {
                    Some(value) => out.extend(value.into_iter().map(|token| respanned(token, ident.span()))),
                    None => out.extend([TokenTree::Ident(ident)]),
                },
                TokenTree::Group(group) => {
                    let mut inner = Group::new(group.delimiter(), self.put_into(group.stream()));
                    inner.set_span(group.span());
                    out.extend([TokenTree::Group(inner)]);
                }
                token => out.extend([token]),
            }
        }
        out
    }

    fn value(&self, ident: &Ident) -> Option<TokenStream> {
        let (_, value) = self.values.iter().find(|(parameter, _)| parameter == ident)?;
        Some(match value {
            Value::Type(ty) => ty.to_token_stream(),
            Value::Const(value) => value.to_token_stream(),
        })
    }
}

fn is_joint(punct: &Punct) -> bool {
    punct.spacing() == Spacing::Joint
}

fn respanned(mut token: TokenTree, span: Span) -> TokenTree {
    token.set_span(span);
    token
}
