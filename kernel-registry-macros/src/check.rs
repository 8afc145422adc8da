//! From what was parsed to the model: every rule about a declaration, each broken one reported where it is broken.

use std::collections::HashSet;
use std::env;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Lit, LitInt, LitStr, Meta, ReturnType, Safety, Signature};

use crate::args::Args;
use crate::declaration::Declaration;
use crate::entry;
use crate::image;
use crate::model::{Image, Kernel, Param, Position};
use crate::param;
use crate::report::Report;

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
    pub(crate) cfgs: Vec<Attribute>,
}

/// The most threads that a block can have in all, and along each axis, on every GPU there is.
const MAX_THREADS: u64 = 1024;
const MAX_BLOCK: [u64; 3] = [1024, 1024, 64];

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
    let Declaration { attrs, vis, sig, body } = declaration;

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
    let block = block(&args, report);
    let shared = shared(&args, report);
    let image = image(&args, &name, report);
    let mut params = params(sig, report);
    let symbol = match (wanted, &image) {
        (Some(wanted), Some(image)) if report.count() == before => {
            compare(&wanted, image, &name, &mut params, block.as_ref(), report)
        }
        _ => None,
    };

    match (symbol, image) {
        (Some(symbol), Some(image)) if report.count() == before => Checked::Kernel(Box::new(Kernel {
            krate,
            ident,
            vis,
            summary: summary(&attrs),
            attrs,
            cfgs,
            symbol,
            package: env::var("CARGO_PKG_NAME").unwrap_or_default(),
            version: env::var("CARGO_PKG_VERSION").unwrap_or_default(),
            position: position(name.span()),
            params,
            min_arch,
            block,
            shared,
            image,
        })),
        _ => Checked::Broken(Box::new(Broken { krate, vis, ident, cfgs })),
    }
}

/// Compares the declaration with the kernel in the image, whose symbol it returns.
fn compare(
    wanted: &Wanted,
    image: &Image,
    name: &Ident,
    params: &mut [Param],
    block: Option<&[Expr; 3]>,
    report: &mut Report,
) -> Option<String> {
    match entry::find(&wanted.name, &image.facts, &image.file) {
        Ok(entry) => {
            entry::compare(params, entry, name, &image.file, report);
            if let Some(block) = block {
                entry::compare_block(block, entry, report);
            }
            Some(entry.symbol.clone())
        }
        Err(message) => {
            report.push(syn::Error::new(wanted.span, message));
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
    if !sig.generics.params.is_empty() {
        report.at(
            &sig.generics,
            "generic kernels are not supported: declare each instance on its own, with its entry as `name = \"..\"`",
        );
    }
    if let Some(clause) = &sig.generics.where_clause {
        report.at(clause, "a kernel has no generic parameters to bound: leave `where` out");
    }
    if let ReturnType::Type(..) = &sig.output {
        report.at(&sig.output, "a kernel returns nothing: let it write through a `&mut [T]` parameter");
    }
    if let Some(variadic) = &sig.variadic {
        report.at(variadic, "a kernel has a fixed number of parameters");
    }
}

fn params(sig: Signature, report: &mut Report) -> Vec<Param> {
    let mut names = HashSet::new();
    let mut params = Vec::new();
    for arg in sig.inputs {
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

fn block(args: &Args, report: &mut Report) -> Option<[Expr; 3]> {
    let value = &args.get("block")?.value;
    let mut axes: Vec<Expr> = match value {
        Expr::Tuple(tuple) => tuple.elems.iter().cloned().collect(),
        value => vec![value.clone()],
    };
    if !(1..=3).contains(&axes.len()) {
        report.at(value, "`block` takes the threads of a block, as in `block = 256` or `block = (32, 8, 1)`");
        return None;
    }
    let mut threads = 1;
    for (axis, max) in axes.iter().zip(MAX_BLOCK) {
        let Expr::Lit(ExprLit { lit, .. }) = axis else { continue };
        let count = match lit {
            Lit::Int(count) => count.base10_parse::<u64>().ok(),
            _ => None,
        };
        match count {
            Some(count @ 1..) if count <= max => threads *= count,
            _ => report.at(axis, format!("a block has 1 to {max} threads along this axis")),
        }
    }
    if threads > MAX_THREADS {
        report.at(
            value,
            format!("a block has at most {MAX_THREADS} threads in all, and this one has {threads}"),
        );
    }
    let one = Lit::Int(LitInt::new("1", Span::call_site()));
    axes.resize(3, Expr::Lit(ExprLit { attrs: Vec::new(), lit: one }));
    axes.try_into().ok()
}

/// A number of bytes, or an expression for which the compiler finds that out.
fn shared(args: &Args, report: &mut Report) -> Option<Expr> {
    let value = &args.get("shared")?.value;
    let fits = match value {
        Expr::Lit(ExprLit { lit: Lit::Int(bytes), .. }) => bytes.base10_parse::<u32>().is_ok(),
        Expr::Lit(_) | Expr::Unary(_) => false,
        _ => true,
    };
    if !fits {
        report.at(value, "`shared` takes the bytes of dynamic shared memory, as in `shared = 48 * 1024`");
    }
    Some(value.clone())
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

fn position(span: Span) -> Position {
    let start = span.start();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position { file: span.file(), line: number(start.line), column: number(start.column + 1) }
}
