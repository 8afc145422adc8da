//! Parses the arguments of the attribute, `key = value` separated by commas, into typed values.

use std::fmt::Display;

use proc_macro2::{Group, Ident, TokenStream};
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{AngleBracketedGenericArguments, Expr, ExprLit, Lit, LitStr, Path, Token};

use crate::errors::Errors;

/// The keys that the attribute accepts, in the order in which errors list them.
const KEYS: [&str; 11] =
    ["file", "image", "linked", "name", "instances", "arch", "block", "shared", "stack", "type", "crate"];

/// The attribute's arguments, on a kernel or on a module of kernels.
#[derive(Clone, Default)]
pub(crate) struct Arguments {
    /// Where the kernel's code is.
    pub(crate) code: Option<Code>,
    /// The kernel's name in the image.
    pub(crate) name: Option<Argument<LitStr>>,
    pub(crate) instances: Option<Argument<Vec<Instance>>>,
    /// The lowest architecture, 80 for `">=80"`.
    pub(crate) min_arch: Option<Argument<u32>>,
    pub(crate) block: Option<Argument<Expr>>,
    pub(crate) shared: Option<Argument<Expr>>,
    pub(crate) stack: Option<Argument<Expr>>,
    /// The name of the generated type.
    pub(crate) type_name: Option<Argument<Ident>>,
    /// The path of kernel-registry.
    pub(crate) krate: Option<Argument<Path>>,
}

/// A key with its value. The value is `None` if it was wrong, which has been reported.
#[derive(Clone)]
pub(crate) struct Argument<T> {
    pub(crate) key: Ident,
    pub(crate) value: Option<T>,
}

/// Where a kernel's code comes from.
#[derive(Clone)]
pub(crate) enum Code {
    /// The code comes from a source file that the build script compiles.
    File(Argument<LitStr>),
    /// The code comes from a compiled image.
    Image(Argument<LitStr>),
    /// The code comes from nvcc, which links the kernel into the program.
    Linked,
}

/// The arguments that say where the code comes from. Only one of them may be given.
#[derive(Default)]
struct Codes {
    file: Option<Argument<LitStr>>,
    image: Option<Argument<LitStr>>,
    linked: Option<Argument<()>>,
}

impl Codes {
    fn choose(self, errors: &mut Errors) -> Option<Code> {
        let Codes { file, image, linked } = self;
        match (file, image, linked) {
            (Some(_), Some(Argument { key, .. }), _) => {
                errors.at(&key, "the code is either compiled from `file` or found in `image`: leave one out");
                Some(Code::Image(Argument { key, value: None }))
            }
            (Some(Argument { key, .. }), None, Some(_)) | (None, Some(Argument { key, .. }), Some(_)) => {
                errors.at(
                    &key,
                    format!("the code is either `linked` by nvcc or named by `{key}`: leave one out"),
                );
                Some(Code::Image(Argument { key, value: None }))
            }
            (None, None, Some(_)) => Some(Code::Linked),
            (file, image, None) => file.map(Code::File).or(image.map(Code::Image)),
        }
    }
}

/// One instance of `instances(<f32, 128>, <f32, 256> = "reduce<float, 256u>")`.
#[derive(Clone)]
pub(crate) struct Instance {
    pub(crate) args: AngleBracketedGenericArguments,
    /// The instance's name in the image, if it can't be derived from the arguments.
    pub(crate) name: Option<LitStr>,
}

impl Arguments {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let parser = |input: ParseStream<'_>| Ok(Self::read(input, errors));
        // The parser consumes all tokens and reports errors itself, so its result is always `Ok`.
        parser.parse2(tokens).unwrap_or_default()
    }

    fn read(input: ParseStream<'_>, errors: &mut Errors) -> Self {
        let (mut args, mut codes) = (Arguments::default(), Codes::default());
        while !input.is_empty() {
            if let Err(error) = args.read_one(input, &mut codes, errors) {
                errors.push(error);
                skip_to_comma(input);
            }
            if !input.is_empty()
                && let Err(error) = input.parse::<Token![,]>()
            {
                errors.push(error);
                skip_to_comma(input);
                let _ = input.parse::<Token![,]>();
            }
        }
        args.code = codes.choose(errors);
        args
    }

    fn read_one(
        &mut self,
        input: ParseStream<'_>,
        codes: &mut Codes,
        errors: &mut Errors,
    ) -> syn::Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error("expected an argument, as in `block = 256`"));
        }
        let key = input.call(Ident::parse_any)?;
        if key == "instances" {
            let list = instances(&key, input, errors)?;
            set(&mut self.instances, key, list, errors);
            return Ok(());
        }
        if key == "linked" && !input.peek(Token![=]) {
            set(&mut codes.linked, key, Some(()), errors);
            return Ok(());
        }
        if !input.peek(Token![=]) {
            return Err(syn::Error::new_spanned(&key, format!("expected a value, as in `{key} = ..`")));
        }
        input.parse::<Token![=]>()?;
        let value = value(input)?;
        let name = key.unraw().to_string();
        match name.as_str() {
            "file" => set(&mut codes.file, key, path(&name, value, errors), errors),
            "image" => set(&mut codes.image, key, path(&name, value, errors), errors),
            "linked" => {
                errors.at(&key, "`linked` takes no value");
                set(&mut codes.linked, key, Some(()), errors);
            }
            "name" => {
                let rule = "`name` takes the kernel's name in the image, in quotes";
                set(&mut self.name, key, text(value, rule, errors), errors);
            }
            "arch" => set(&mut self.min_arch, key, min_arch(value, errors), errors),
            "block" => set(&mut self.block, key, Some(value), errors),
            "shared" => set(&mut self.shared, key, Some(value), errors),
            "stack" => set(&mut self.stack, key, Some(value), errors),
            "type" => set(&mut self.type_name, key, type_name(value, errors), errors),
            "crate" => set(&mut self.krate, key, krate(value, errors), errors),
            _ => {
                let hint = match near(&name) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are {}", KEYS.map(|key| format!("`{key}`")).join(", ")),
                };
                errors.at(&key, format!("unknown argument `{name}`: {hint}"));
            }
        }
        Ok(())
    }

    /// Adds the arguments of the surrounding module, unless they are set here.
    pub(crate) fn or(self, module: &Arguments) -> Self {
        let module = module.clone();
        Arguments {
            code: self.code.or(module.code),
            name: self.name.or(module.name),
            instances: self.instances.or(module.instances),
            min_arch: self.min_arch.or(module.min_arch),
            block: self.block.or(module.block),
            shared: self.shared.or(module.shared),
            stack: self.stack.or(module.stack),
            type_name: self.type_name.or(module.type_name),
            krate: self.krate.or(module.krate),
        }
    }

    /// Returns the keys of arguments that belong to one kernel, so a module can't have them.
    pub(crate) fn keys_of_one_kernel(&self) -> impl Iterator<Item = &Ident> {
        let name = self.name.as_ref().map(|name| &name.key);
        let stack = self.stack.as_ref().map(|stack| &stack.key);
        let type_name = self.type_name.as_ref().map(|name| &name.key);
        [name, stack, type_name].into_iter().flatten()
    }
}

fn set<T>(slot: &mut Option<Argument<T>>, key: Ident, value: Option<T>, errors: &mut Errors) {
    if slot.is_some() {
        errors.at(&key, format!("`{}` is given twice", key.unraw()));
    } else {
        *slot = Some(Argument { key, value });
    }
}

fn instances(key: &Ident, input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<Option<Vec<Instance>>> {
    if !input.peek(syn::token::Paren) {
        errors.at(key, "expected a list, as in `instances(<f32, 128>, <f64, 128>)`");
        skip_to_comma(input);
        return Ok(None);
    }
    // The group is parsed separately, so that an error in it doesn't affect the other arguments.
    let group: Group = input.parse()?;
    let list = Punctuated::<Instance, Token![,]>::parse_terminated.parse2(group.stream());
    Ok(list.map_err(|error| errors.push(error)).ok().map(|list| list.into_iter().collect()))
}

impl Parse for Instance {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if !input.peek(Token![<]) {
            return Err(input.error("expected the arguments of an instance, as in `instances(<f32, 128>)`"));
        }
        let args = input.parse()?;
        let name = if input.parse::<Option<Token![=]>>()?.is_some() { Some(input.parse()?) } else { None };
        Ok(Instance { args, name })
    }
}

/// Parses a value. Literals get a fast path, because most values are literals, and the parser of expressions
/// is slow.
fn value(input: ParseStream<'_>) -> syn::Result<Expr> {
    let ahead = input.fork();
    match ahead.parse::<Lit>() {
        Ok(lit) if ahead.is_empty() || ahead.peek(Token![,]) => {
            input.advance_to(&ahead);
            Ok(Expr::Lit(ExprLit { attrs: Vec::new(), lit }))
        }
        _ => input.parse(),
    }
}

fn path(key: &str, value: Expr, errors: &mut Errors) -> Option<LitStr> {
    let rule = format_args!("`{key}` takes a path in quotes, relative to the folder of Cargo.toml");
    text(value, rule, errors)
}

fn text(value: Expr, rule: impl Display, errors: &mut Errors) -> Option<LitStr> {
    // An expression passed through a `macro_rules!` macro is inside an invisible group.
    let mut inner = &value;
    while let Expr::Group(group) = inner {
        inner = &group.expr;
    }
    if let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = inner {
        return Some(text.clone());
    }
    errors.at(value, rule);
    None
}

fn min_arch(value: Expr, errors: &mut Errors) -> Option<u32> {
    const RULE: &str =
        "`arch` takes the least compute capability that the kernel runs on, as in `arch = \">=80\"`";
    let arch = text(value, RULE, errors)?;
    let number = arch.value().strip_prefix(">=").and_then(|number| number.trim().parse().ok());
    let known = number.filter(|number| (50..1000).contains(number));
    if known.is_none() {
        errors.at(&arch, RULE);
    }
    known
}

fn type_name(value: Expr, errors: &mut Errors) -> Option<Ident> {
    if let Expr::Path(path) = &value
        && let Some(ident) = path.path.get_ident()
    {
        return Some(ident.clone());
    }
    errors.at(value, "`type` takes the name of the type to generate, as in `type = Saxpy`");
    None
}

fn krate(value: Expr, errors: &mut Errors) -> Option<Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Some(path.path),
        value => {
            errors.at(value, "`crate` takes the path under which this crate knows kernel-registry");
            None
        }
    }
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        let _ = input.parse::<proc_macro2::TokenTree>();
    }
}

/// Returns the known key that is most similar to this one, if it's similar enough to suggest.
fn near(key: &str) -> Option<&'static str> {
    let (distance, near) =
        KEYS.iter().map(|known| (strsim::damerau_levenshtein(key, known), *known)).min()?;
    (3 * distance <= key.len()).then_some(near)
}
