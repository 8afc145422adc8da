//! Generic kernels: which instances a declaration names, and which C++ instance each of them is.

use kernel_registry_image::declared::{number_meets, number_size};
use kernel_registry_image::{CudaType, Entry, Image, Signature};
use proc_macro2::{Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    AngleBracketedGenericArguments, Expr, GenericArgument, GenericParam, Lit, LitStr, Token, Type, UnOp,
};

use crate::model::Generic;
use crate::param;
use crate::report::Report;

/// `instances(<f32, 128>, <f32, 256> = "reduce<float, 256u>")` as it is written.
#[derive(Clone)]
pub(crate) struct Instances {
    pub(crate) key: Ident,
    /// None if it makes no sense, which has been reported.
    pub(crate) list: Option<Vec<Written>>,
}

/// One of them.
#[derive(Clone)]
pub(crate) struct Written {
    args: AngleBracketedGenericArguments,
    /// What the instance is called in the image, if its arguments do not tell.
    pub(crate) name: Option<LitStr>,
}

impl Instances {
    /// What follows the key.
    pub(crate) fn parse(key: Ident, input: ParseStream<'_>, report: &mut Report) -> syn::Result<Self> {
        // The group is taken as a whole, so that what is wrong in it leaves the other arguments alone.
        let group: Group = input.parse()?;
        let list = Punctuated::<Written, Token![,]>::parse_terminated.parse2(group.stream());
        let list = list.map_err(|error| report.push(error)).ok();
        Ok(Instances { key, list: list.map(|list| list.into_iter().collect()) })
    }
}

impl Parse for Written {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if !input.peek(Token![<]) {
            return Err(input.error("expected the arguments of an instance, as in `instances(<f32, 128>)`"));
        }
        let args = input.parse()?;
        let name = if input.parse::<Option<Token![=]>>()?.is_some() { Some(input.parse()?) } else { None };
        Ok(Written { args, name })
    }
}

/// An instance with the argument of each generic parameter. An ordinary kernel is one instance, without any.
#[derive(Default)]
pub(crate) struct Instance {
    /// As written, for use behind the kernel's name: `<f32, 128>`.
    pub(crate) args: TokenStream,
    /// The same for people, and empty for an ordinary kernel.
    pub(crate) spelled: String,
    pub(crate) name: Option<LitStr>,
    values: Vec<(Ident, Value)>,
}

enum Value {
    Type(Type),
    Const(Expr),
}

/// The generic parameters of a declaration, with those that a kernel cannot have reported.
pub(crate) fn generics(params: impl IntoIterator<Item = GenericParam>, report: &mut Report) -> Vec<Generic> {
    let mut generics = Vec::new();
    for param in params {
        match param {
            GenericParam::Lifetime(param) => {
                report.at(param, "a lifetime has no meaning for a kernel: leave it out");
            }
            GenericParam::Type(param) => {
                if !param.bounds.is_empty() {
                    report.at(&param.bounds, "the instances say which types there are: leave the bounds out");
                }
                if let Some((_, default)) = &param.default {
                    report.at(default, "every instance says all of its arguments: leave the default out");
                }
                generics.push(Generic { ident: param.ident, of: None });
            }
            GenericParam::Const(param) => {
                if let Some((_, default)) = &param.default {
                    report.at(default, "every instance says all of its arguments: leave the default out");
                }
                generics.push(Generic { ident: param.ident, of: Some(param.ty) });
            }
        }
    }
    generics
}

/// The instances of a kernel that has these parameters.
pub(crate) fn of(generics: &[Generic], written: &[Written], report: &mut Report) -> Vec<Instance> {
    let mut instances: Vec<Instance> = Vec::new();
    for Written { args, name } in written {
        let Some(values) = values(generics, args, report) else { continue };
        let args_tokens = args.to_token_stream();
        let spelled = param::spelled_tokens(args_tokens.clone());
        if instances.iter().any(|other| other.spelled == spelled) {
            report.at(args, format!("the instance `{spelled}` is given twice"));
            continue;
        }
        instances.push(Instance { args: args_tokens, spelled, name: name.clone(), values });
    }
    instances
}

/// Each parameter with its argument.
fn values(
    generics: &[Generic],
    args: &AngleBracketedGenericArguments,
    report: &mut Report,
) -> Option<Vec<(Ident, Value)>> {
    if args.args.len() != generics.len() {
        let (count, given) = (generics.len(), args.args.len());
        let plural = if count == 1 { "" } else { "s" };
        report.at(
            args,
            format!("the kernel has {count} generic parameter{plural}, and {given} are given here"),
        );
        return None;
    }
    let value = |(generic, arg): (&Generic, &GenericArgument)| {
        let value = match (&generic.of, arg) {
            (None, GenericArgument::Type(ty)) => Value::Type(ty.clone()),
            (Some(_), GenericArgument::Const(value)) => Value::Const(value.clone()),
            // The name of a constant parses as a type.
            (Some(_), GenericArgument::Type(Type::Path(path))) => {
                let tokens = path.to_token_stream();
                Value::Const(Expr::Verbatim(quote::quote!({ #tokens })))
            }
            _ => {
                let kind = if generic.of.is_some() { "a number" } else { "a type" };
                report.at(arg, format!("`{}` takes {kind}", generic.ident));
                return None;
            }
        };
        Some((generic.ident.clone(), value))
    };
    generics.iter().zip(&args.args).map(value).collect()
}

impl Instance {
    /// The tokens with the arguments in place of the parameters, where those stood.
    pub(crate) fn put_into(&self, tokens: TokenStream) -> TokenStream {
        let mut out = TokenStream::new();
        // `path::T` is something else than `T`.
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

    /// The same for an expression.
    pub(crate) fn put_into_expr(&self, value: &Expr) -> syn::Result<Expr> {
        syn::parse2(self.put_into(value.to_token_stream()))
    }

    fn value(&self, ident: &Ident) -> Option<TokenStream> {
        let (_, value) = self.values.iter().find(|(parameter, _)| parameter == ident)?;
        Some(match value {
            Value::Type(ty) => ty.to_token_stream(),
            Value::Const(value) => value.to_token_stream(),
        })
    }

    /// What the C++ instance with these arguments is called in the image.
    pub(crate) fn find(&self, template: &str, image: &Image, file: &str) -> Result<String, String> {
        let all: Vec<&Signature> = image
            .variants
            .iter()
            .flat_map(|variant| &variant.entries)
            .filter_map(|entry: &Entry| entry.signature.as_ref())
            .filter(|signature| is_template(signature, template))
            .collect();
        let mut found: Vec<&str> = all
            .iter()
            .filter(|signature| self.is(&signature.template_args))
            .map(|signature| signature.name.as_str())
            .collect();
        found.sort_unstable();
        found.dedup();
        let wanted = format!("{template}{}", self.spelled);
        match found.as_slice() {
            [one] => Ok((*one).to_owned()),
            [] if all.is_empty() => Err(format!("no template `{template}` is instantiated in `{file}`")),
            [] => Err(format!(
                "no instance `{wanted}` in `{file}`: instantiate it there, or say which one it is, \
                 as in `{} = \"..\"`; there are {}",
                self.spelled,
                listed(all.iter().map(|signature| signature.name.as_str()))
            )),
            several => Err(format!(
                "several instances of `{file}` could be `{wanted}`: say which one, as in `{} = \"{}\"`; there are {}",
                self.spelled,
                several[0],
                listed(several.iter().copied())
            )),
        }
    }

    fn is(&self, template_args: &[String]) -> bool {
        template_args.len() == self.values.len()
            && self.values.iter().zip(template_args).all(|((_, value), cuda)| match value {
                Value::Type(ty) => type_is(ty, cuda),
                Value::Const(value) => const_is(value, cuda),
            })
    }
}

fn is_template(signature: &Signature, name: &str) -> bool {
    let unqualified = signature.base_name.rsplit("::").next();
    !signature.template_args.is_empty() && (signature.base_name == name || unqualified == Some(name))
}

/// Whether C++ calls this type so.
fn type_is(ty: &Type, cuda: &str) -> bool {
    let spelled = param::spelled_tokens(ty.to_token_stream());
    if number_size(&spelled).is_some() {
        return matches!(CudaType::parse(cuda), CudaType::Scalar(scalar) if number_meets(&spelled, scalar));
    }
    let Type::Path(path) = ty else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    let (name, cuda) = (last.ident.to_string(), cuda.rsplit("::").next().unwrap_or(cuda));
    // What the crates for it call sixteen-bit floating point, and what CUDA does.
    match name.as_str() {
        "f16" => cuda == "__half",
        "bf16" => cuda == "__nv_bfloat16",
        name => name.eq_ignore_ascii_case(cuda),
    }
}

/// Whether C++ writes this number so: `128u`, `true`, `(unsigned char)5`.
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
        // What it is, only the compiler can say.
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

fn is_joint(punct: &Punct) -> bool {
    punct.spacing() == Spacing::Joint
}

fn respanned(mut token: TokenTree, span: Span) -> TokenTree {
    token.set_span(span);
    token
}
