//! From what was parsed to the model: every rule about a declaration, each broken one reported where it is broken.

use std::collections::HashSet;
use std::env;

use kernel_registry_image::Entry;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, FnArg, Lit, LitStr, Meta, ReturnType, Safety, Signature, Token};

use crate::args::Args;
use crate::block::Block;
use crate::declaration::Declaration;
use crate::model::{self, Content, Generic, Image, Kernel, Needs, Param, Position, StackFrames};
use crate::report::Report;
use crate::shared::Shared;
use crate::stack::Stack;
use crate::{entry, image, instances, param};

/// What is left of a declaration after the check.
pub(crate) enum Checked {
    Kernel(Box<Kernel>),
    /// Something was wrong, and has been reported; the name stays, so that its uses raise no further errors.
    Broken(Box<Broken>),
}

impl Checked {
    /// The attributes that decide whether the kernel is there.
    pub(crate) fn cfgs(&self) -> &[Attribute] {
        match self {
            Checked::Kernel(kernel) => &kernel.cfgs,
            Checked::Broken(broken) => &broken.cfgs,
        }
    }
}

pub(crate) struct Broken {
    pub(crate) krate: TokenStream,
    pub(crate) vis: syn::Visibility,
    pub(crate) ident: Ident,
    pub(crate) generics: Vec<Generic>,
    /// The parameters, unless it is they that are wrong.
    pub(crate) params: Option<Vec<Param>>,
    pub(crate) cfgs: Vec<Attribute>,
}

/// Checks a declaration with its own arguments and those of the module it stands in.
pub(crate) fn kernel(
    declaration: Declaration,
    args: &Args,
    module: Option<&Args>,
    report: &mut Report,
) -> Checked {
    let before = report.count();
    let args = match module {
        Some(module) => args.clone().or(module),
        None => args.clone(),
    };
    let Declaration { attrs, vis, mut sig, body } = declaration;

    let krate = krate(&args, report);
    let ident = type_name(&args, &sig.ident, report);
    let cfgs: Vec<_> = attrs.iter().filter(|attr| decides_presence(attr)).cloned().collect();

    if let Some(body) = body {
        report.at(
            &body,
            "a kernel is declared without a body: end it with `;`, its code is in the CUDA file or image",
        );
    }
    signature(&sig, report);
    attributes(&attrs, report);
    let name = sig.ident.clone();
    let wanted = wanted(&args, &name, report);
    let min_arch = min_arch(&args, report);
    let image = image(&args, &name, report);
    let generics = instances::generics(std::mem::take(&mut sig.generics.params), report);
    let concrete = concrete(&args, &name, &generics, report);

    // What is wrong with them is reported for the instances.
    let as_declared = || {
        let report = &mut Report::default();
        let params = params(sig.inputs.iter().cloned().collect(), report);
        (report.count() == 0).then_some(params)
    };
    let generic_params = if generics.is_empty() { None } else { as_declared() };
    let mut checked = Vec::new();
    if concrete.is_empty() {
        params(sig.inputs.iter().cloned().collect(), report);
    } else if let Some(wanted) = wanted {
        let common =
            Common { before, name: &name, inputs: &sig.inputs, wanted, min_arch, image: image.as_ref() };
        for instance in &concrete {
            let before = report.count();
            checked.extend(common.instance(instance, &args, report));
            // What is wrong with one instance is mostly wrong with all.
            if report.count() > before {
                break;
            }
        }
    }

    match image {
        Some(image) if report.count() == before => Checked::Kernel(Box::new(Kernel {
            krate,
            ident,
            vis,
            summary: summary(&attrs),
            attrs,
            cfgs,
            package: env::var("CARGO_PKG_NAME").unwrap_or_default(),
            version: env::var("CARGO_PKG_VERSION").unwrap_or_default(),
            position: position(name.span()),
            min_arch,
            image,
            generic_params: generic_params.unwrap_or_default(),
            generics,
            instances: checked,
        })),
        _ => Checked::Broken(Box::new(Broken { krate, vis, ident, generics, params: as_declared(), cfgs })),
    }
}

/// The instances of a generic kernel, or of an ordinary one the one that it is.
fn concrete(
    args: &Args,
    name: &Ident,
    generics: &[Generic],
    report: &mut Report,
) -> Vec<instances::Instance> {
    match &args.instances {
        None if generics.is_empty() => vec![instances::Instance::default()],
        None => {
            report.at(
                name,
                format!("which instances of `{name}` are there? say `instances(<..>, <..>)`, as the CUDA source has them"),
            );
            Vec::new()
        }
        Some(written) if generics.is_empty() => {
            report.at(&written.key, "only a generic kernel has instances: declare `unsafe fn name<T>(..)`");
            Vec::new()
        }
        Some(written) => {
            let list = written.list.as_deref();
            if list.is_some_and(<[_]>::is_empty) {
                report.at(&written.key, "a kernel without instances cannot be launched: name one");
            }
            instances::of(generics, list.unwrap_or_default(), report)
        }
    }
}

/// What all instances of a kernel have in common.
struct Common<'a> {
    /// How many errors there were before anything was known of it.
    before: usize,
    name: &'a Ident,
    inputs: &'a Punctuated<FnArg, Token![,]>,
    wanted: Wanted,
    min_arch: Option<u32>,
    image: Option<&'a Image>,
}

impl Common<'_> {
    fn instance(
        &self,
        instance: &instances::Instance,
        args: &Args,
        report: &mut Report,
    ) -> Option<model::Instance> {
        let inputs = self.inputs.iter().cloned();
        let inputs: Vec<FnArg> = match instance.spelled.is_empty() {
            true => inputs.collect(),
            false => inputs.filter_map(|arg| replaced(arg, instance, report)).collect(),
        };
        let mut params = params(inputs, report);
        let value = |key: &str| {
            let value = &args.get(key)?.value;
            let generic = !instance.spelled.is_empty();
            Some(if generic { instance.put_into_expr(value).unwrap_or(value.clone()) } else { value.clone() })
        };
        let mut block = value("block").and_then(|value| Block::parse(&value, report));
        let mut shared = value("shared").map(|value| Shared::parse(&value, report));
        let stack = value("stack").map(|value| Stack::parse(&value, report));

        let image = self.image?;
        let (mut needs, mut frames) = (Needs::NONE, StackFrames::KNOWN);
        let symbol = match &image.content {
            // Without an image nothing is known of the kernel but what is declared.
            None => format!("{}{}", self.wanted.name, instance.spelled),
            Some(_) if report.count() > self.before => return None,
            Some(Content { facts, .. }) => {
                let entry = match self.find(instance, facts, &image.file) {
                    Ok(entry) => entry,
                    Err(error) => {
                        report.push(error);
                        return None;
                    }
                };
                entry::compare(&mut params, entry, self.name, &image.file, report);
                if let Some(block) = &mut block {
                    block.compare(entry, report);
                }
                if let Some(shared) = &mut shared {
                    shared.compare(entry, facts, &image.file, self.min_arch, report);
                }
                needs = facts.needs(&entry.symbol);
                frames = facts.stack_frames(&entry.symbol);
                entry.symbol.clone()
            }
        };
        let (args, spelled) = (instance.args.clone(), instance.spelled.clone());
        Some(model::Instance { args, spelled, symbol, params, block, shared, stack, frames, needs })
    }

    /// The kernel in the image.
    fn find<'a>(
        &self,
        instance: &instances::Instance,
        facts: &'a kernel_registry_image::Image,
        file: &str,
    ) -> syn::Result<&'a Entry> {
        let at = |span: Span| move |message: String| syn::Error::new(span, message);
        let at_arguments = |message| syn::Error::new_spanned(&instance.args, message);
        match &instance.name {
            _ if instance.spelled.is_empty() => {
                entry::find(&self.wanted.name, facts, file).map_err(at(self.wanted.span))
            }
            Some(name) => entry::find(&name.value(), facts, file).map_err(at(name.span())),
            None => {
                let name = instance.find(&self.wanted.name, facts, file).map_err(at_arguments)?;
                entry::find(&name, facts, file).map_err(at_arguments)
            }
        }
    }
}

/// A parameter of a generic kernel as it is in an instance.
fn replaced(arg: FnArg, instance: &instances::Instance, report: &mut Report) -> Option<FnArg> {
    let FnArg::Typed(mut arg) = arg else { return Some(arg) };
    match syn::parse2(instance.put_into(arg.ty.to_token_stream())) {
        Ok(ty) => {
            *arg.ty = ty;
            Some(FnArg::Typed(arg))
        }
        Err(error) => {
            report.push(error);
            None
        }
    }
}

fn signature(sig: &Signature, report: &mut Report) {
    match &sig.safety {
        Safety::Unsafe(_) => {}
        Safety::Safe(safe) => report.at(safe, "launching a kernel is unsafe: write `unsafe fn`"),
        Safety::Default => report.at(
            sig.fn_token,
            "launching a kernel is unsafe, as its code can do anything to device memory: write `unsafe fn`",
        ),
    }
    if let Some(token) = &sig.constness {
        report.at(token, "a kernel cannot be `const`: it runs on the device");
    }
    if let Some(token) = &sig.asyncness {
        report.at(token, "a kernel cannot be `async`: every launch is asynchronous already");
    }
    if let Some(abi) = &sig.abi {
        report.at(abi, "the calling convention is CUDA's own: leave `extern` out");
    }
    if let Some(clause) = &sig.generics.where_clause {
        report.at(clause, "the instances say which types there are: leave `where` out");
    }
    if let ReturnType::Type(..) = &sig.output {
        report.at(&sig.output, "a kernel returns nothing: let it write through a `&mut [T]` parameter");
    }
    if let Some(variadic) = &sig.variadic {
        report.at(variadic, "a kernel has a fixed number of parameters");
    }
}

fn params(inputs: Vec<FnArg>, report: &mut Report) -> Vec<Param> {
    let mut names = HashSet::new();
    let mut params = Vec::new();
    for arg in inputs {
        let span = arg.span();
        let Some(param) = param::check(arg, report) else { continue };
        if !names.insert(param.name.clone()) {
            report.push(syn::Error::new(span, format!("there is a parameter `{}` already", param.name)));
        }
        params.push(param);
    }
    params
}

/// Attributes that ask the compiler for something it cannot do to a kernel.
fn attributes(attrs: &[Attribute], report: &mut Report) {
    const CODE: [&str; 8] = [
        "inline",
        "cold",
        "no_mangle",
        "export_name",
        "link_section",
        "target_feature",
        "track_caller",
        "naked",
    ];
    const TESTS: [&str; 3] = ["test", "bench", "should_panic"];
    for attr in attrs {
        let path = match &attr.meta {
            Meta::List(list) if list.path.is_ident("unsafe") => {
                list.parse_args::<Meta>().map_or_else(|_| list.path.clone(), |meta| meta.path().clone())
            }
            meta => meta.path().clone(),
        };
        let Some(name) = path.get_ident().map(Ident::to_string) else { continue };
        if CODE.contains(&name.as_str()) {
            report
                .at(attr, format!("`{name}` is about machine code of the host, of which a kernel has none"));
        } else if TESTS.contains(&name.as_str()) {
            report.at(attr, "a kernel is not a test: launch it from one");
        } else if name == "derive" || name == "repr" {
            report.at(attr, format!("`{name}` is about values, and nobody makes a value of a kernel's type"));
        } else if name == "gpu_kernel" {
            report.at(attr, "`gpu_kernel` is given twice");
        }
    }
}

/// Whether the attribute can remove what it stands on.
pub(crate) fn decides_presence(attr: &Attribute) -> bool {
    let removes = |meta: &Meta| match meta {
        Meta::List(list) if list.path.is_ident("cfg_attr") => {
            list.tokens.clone().into_iter().any(|token| token.to_string() == "cfg")
        }
        meta => meta.path().is_ident("cfg"),
    };
    removes(&attr.meta)
}

/// How the expansion reaches the library.
pub(crate) fn krate(args: &Args, report: &mut Report) -> TokenStream {
    match args.get("crate").map(|arg| &arg.value) {
        Some(Expr::Path(path)) if path.qself.is_none() => path.path.to_token_stream(),
        Some(value) => {
            report.at(value, "`crate` takes the path under which this crate knows kernel-registry");
            quote!(::kernel_registry)
        }
        None => quote!(::kernel_registry),
    }
}

/// The type is named as if the user had written it, but lints about names see a macro's work.
fn type_name(args: &Args, name: &Ident, report: &mut Report) -> Ident {
    let mut ident = name.clone();
    if let Some(arg) = args.get("type") {
        match &arg.value {
            Expr::Path(path) if path.path.get_ident().is_some() => {
                ident = path.path.get_ident().cloned().unwrap_or(ident);
            }
            value => report.at(value, "`type` takes the name of the type to generate, as in `type = Saxpy`"),
        }
    }
    ident.set_span(ident.span().resolved_at(Span::mixed_site()));
    ident
}

/// What the kernel is called in the image, and where that is written.
struct Wanted {
    name: String,
    span: Span,
}

fn wanted(args: &Args, ident: &Ident, report: &mut Report) -> Option<Wanted> {
    let Some(arg) = args.get("name") else {
        let name = ident.unraw().to_string();
        if !name.is_ascii() {
            report
                .at(ident, "CUDA's names are ASCII: give the kernel's name in the image as `name = \"..\"`");
        }
        return Some(Wanted { name, span: ident.span() });
    };
    let name = text(&arg.value, "`name` takes the kernel's name in the image, in quotes", report)?;
    Some(Wanted { name: name.value(), span: name.span() })
}

fn min_arch(args: &Args, report: &mut Report) -> Option<u32> {
    const RULE: &str =
        "`arch` takes the least compute capability that the kernel runs on, as in `arch = \">=80\"`";
    let arch = text(&args.get("arch")?.value, RULE, report)?;
    let number = arch.value().strip_prefix(">=").and_then(|number| number.trim().parse().ok());
    let known = number.filter(|number| (50..1000).contains(number));
    if known.is_none() {
        report.at(&arch, RULE);
    }
    known
}

fn image(args: &Args, name: &Ident, report: &mut Report) -> Option<Image> {
    let (arg, is_source) = match (args.get("file"), args.get("image")) {
        (Some(_), Some(image)) => {
            report
                .at(&image.key, "the code is either compiled from `file` or found in `image`: leave one out");
            return None;
        }
        (Some(file), None) => (file, true),
        (None, Some(image)) => (image, false),
        (None, None) => {
            report.at(
                name,
                format!("where is the code of `{name}`? say `file = \"cuda/x.cu\"` or `image = \"x.ptx\"`"),
            );
            return None;
        }
    };
    let rule = format!("`{}` takes a path in quotes, relative to the folder of Cargo.toml", arg.key);
    let path = text(&arg.value, &rule, report)?;
    let file = path.value();
    let found = if is_source { image::of_source(&file) } else { image::compiled(&file) };
    found.map_err(|message| report.at(&path, message)).ok()
}

fn text(value: &Expr, rule: &str, report: &mut Report) -> Option<LitStr> {
    // What `macro_rules` passes on as an expression comes in an invisible group.
    let mut inner = value;
    while let Expr::Group(group) = inner {
        inner = &group.expr;
    }
    if let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = inner {
        return Some(text.clone());
    }
    report.at(value, rule);
    None
}

/// The first line of the documentation that says anything.
fn summary(attrs: &[Attribute]) -> String {
    let line = |attr: &Attribute| match &attr.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    };
    let lines = attrs
        .iter()
        .filter_map(line)
        .flat_map(|text| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>());
    lines.into_iter().find(|line| !line.is_empty()).unwrap_or_default()
}

pub(crate) fn position(span: Span) -> Position {
    let start = span.start();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position { file: span.file(), line: number(start.line), column: number(start.column + 1) }
}
