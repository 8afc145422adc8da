//! The arguments of the attribute, `key = value` separated by commas, before anybody asks what they mean.

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, ExprLit, Lit, Token};

use crate::instances::Instances;
use crate::report::Report;

/// The keys that the attribute knows, in the order in which its documentation has them.
pub(crate) const KEYS: [&str; 10] =
    ["file", "image", "name", "instances", "arch", "block", "shared", "stack", "type", "crate"];

/// Keys that say something of one kernel, and so cannot be said of a whole module.
pub(crate) const KERNEL_KEYS: [&str; 3] = ["name", "stack", "type"];

/// The one argument that is not `key = value`.
const INSTANCES: &str = "instances";

/// Arguments with known keys, each at most once.
#[derive(Clone, Default)]
pub(crate) struct Args {
    values: Vec<Arg>,
    pub(crate) instances: Option<Instances>,
}

#[derive(Clone)]
pub(crate) struct Arg {
    pub(crate) key: Ident,
    pub(crate) value: Expr,
}

impl Args {
    pub(crate) fn parse(tokens: TokenStream, report: &mut Report) -> Self {
        let parser = |input: ParseStream<'_>| Ok(Self::read(input, report));
        // The parser consumes all it is given, or reports why it did not.
        parser.parse2(tokens).unwrap_or_default()
    }

    fn read(input: ParseStream<'_>, report: &mut Report) -> Self {
        let mut args = Args::default();
        while !input.is_empty() {
            let read = match is_instances(input) {
                true => instances(input, report).map(|instances| args.set_instances(instances, report)),
                false => arg(input).map(|arg| args.insert(arg, report)),
            };
            match read {
                Ok(()) => {}
                Err(error) => {
                    report.push(error);
                    skip_to_comma(input);
                }
            }
            if !input.is_empty()
                && let Err(error) = input.parse::<Token![,]>()
            {
                report.push(error);
                skip_to_comma(input);
                let _ = input.parse::<Token![,]>();
            }
        }
        args
    }

    fn insert(&mut self, arg: Arg, report: &mut Report) {
        let key = arg.key.unraw().to_string();
        if !KEYS.contains(&key.as_str()) {
            let hint = match near(&key) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", list(&KEYS)),
            };
            report.at(&arg.key, format!("unknown argument `{key}`: {hint}"));
        } else if self.get(&key).is_some() {
            report.at(&arg.key, format!("`{key}` is given twice"));
        } else {
            self.values.push(arg);
        }
    }

    fn set_instances(&mut self, instances: Instances, report: &mut Report) {
        if self.instances.is_some() {
            report.at(&instances.key, "`instances` is given twice");
        } else {
            self.instances = Some(instances);
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arg> {
        self.values.iter().find(|arg| arg.key.unraw() == key)
    }

    /// These arguments, and where they are silent those of the module around them.
    pub(crate) fn or(mut self, module: &Args) -> Self {
        // `file` and `image` answer the same question, so that either hides the other.
        let answered = |args: &Args, key: &str| match key {
            "file" | "image" => args.get("file").or(args.get("image")).is_some(),
            _ => args.get(key).is_some(),
        };
        for arg in &module.values {
            if !answered(&self, &arg.key.unraw().to_string()) {
                self.values.push(arg.clone());
            }
        }
        self
    }
}

fn is_instances(input: ParseStream<'_>) -> bool {
    input.fork().parse::<Ident>().is_ok_and(|key| key == INSTANCES)
}

fn instances(input: ParseStream<'_>, report: &mut Report) -> syn::Result<Instances> {
    let key = input.parse()?;
    if input.peek(syn::token::Paren) {
        return Instances::parse(key, input, report);
    }
    report.at(&key, "expected a list, as in `instances(<f32, 128>, <f64, 128>)`");
    skip_to_comma(input);
    Ok(Instances { key, list: None })
}

fn arg(input: ParseStream<'_>) -> syn::Result<Arg> {
    if !input.peek(Ident::peek_any) {
        return Err(input.error("expected an argument, as in `block = 256`"));
    }
    let key = input.call(Ident::parse_any)?;
    if !input.peek(Token![=]) {
        return Err(syn::Error::new_spanned(&key, format!("expected a value, as in `{key} = ..`")));
    }
    input.parse::<Token![=]>()?;
    // Most values are literals, for which the parser of expressions takes a long way.
    let ends = |input: ParseStream<'_>| input.is_empty() || input.peek(Token![,]);
    let ahead = input.fork();
    let value = match ahead.parse::<Lit>() {
        Ok(lit) if ends(&ahead) => {
            input.advance_to(&ahead);
            Expr::Lit(ExprLit { attrs: Vec::new(), lit })
        }
        _ => input.parse()?,
    };
    Ok(Arg { key, value })
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        let _ = input.parse::<proc_macro2::TokenTree>();
    }
}

fn list(keys: &[&str]) -> String {
    keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

/// The known key that differs from this one by the fewest letters, if it is close at all.
fn near(key: &str) -> Option<&'static str> {
    let (distance, near) =
        KEYS.iter().map(|known| (strsim::damerau_levenshtein(key, known), *known)).min()?;
    (3 * distance <= key.len()).then_some(near)
}
