//! Resolves a declaration, making every check that doesn't need the image. Errors point at the tokens that
//! break a rule.

pub(crate) mod block;
pub(crate) mod bytes;
pub(crate) mod generics;
pub(crate) mod param;

use std::rc::Rc;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Expr, ExprLit, FnArg, Lit, Meta, ReturnType, Safety, Signature, Visibility};

use self::block::Block;
use self::generics::{Generic, GenericArgs};
use self::param::Param;
use super::arguments::{Argument, Arguments};
use super::written;
use crate::errors::Errors;
use crate::source::{self, Position};

/// The generated type that represents a kernel. It's generated even if the rest of the declaration is wrong.
pub(crate) struct Name {
    /// The path of the library: `::kernel_registry`, or the path in `crate = ..`.
    pub(crate) krate: TokenStream,
    /// The name of the declared function.
    pub(crate) function: Ident,
    /// The name of the generated type.
    pub(crate) ident: Ident,
    pub(crate) vis: Visibility,
    /// The attributes that decide whether the kernel is compiled.
    pub(crate) cfgs: Vec<Attribute>,
    /// The generic parameters. Empty for a kernel that is not generic.
    pub(crate) generics: Vec<Generic>,
    /// The declared parameters. `None` if one of them is wrong.
    pub(crate) params: Option<Rc<Vec<Param>>>,
}

/// The parts of a declaration other than its [`Name`].
pub(crate) struct Declaration {
    /// The user's attributes, which are copied onto the type.
    pub(crate) attrs: Vec<Attribute>,
    /// The first line of the doc comment.
    pub(crate) summary: String,
    pub(crate) position: Position,
    pub(crate) wanted: Wanted,
    pub(crate) min_arch: Option<u32>,
    /// The instances to register. A kernel that isn't generic has exactly one.
    pub(crate) instances: Vec<Instance>,
}

/// The kernel's name in the image, and the span of the tokens that it comes from.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) span: Span,
}

/// A kernel to register: one that isn't generic, or an instance of a generic one.
pub(crate) struct Instance {
    pub(crate) args: GenericArgs,
    pub(crate) params: Rc<Vec<Param>>,
    pub(crate) block: Option<Block>,
    pub(crate) shared: Option<Expr>,
    pub(crate) stack: Option<Expr>,
}

impl Name {
    pub(crate) fn resolve(written: &written::Declaration, args: &Arguments, errors: &mut Errors) -> Self {
        let written::Declaration { attrs, vis, sig, .. } = written;
        let generics = generics::parse_generics(&sig.generics, errors);
        // For a generic kernel, errors in its parameters are reported with its instances.
        let mut own = Errors::default();
        let params = param::parse_params(&sig.inputs, &mut own);
        let params = own.is_empty().then(|| Rc::new(params));
        if generics.is_empty() {
            errors.append(own);
        }
        let ident = args.type_name.as_ref().and_then(|name| name.value.clone());
        let mut ident = ident.unwrap_or_else(|| sig.ident.clone());
        // User code can name a type with this span, but lints about names ignore it.
        ident.set_span(ident.span().resolved_at(Span::mixed_site()));
        Name {
            krate: args.krate(),
            function: sig.ident.clone(),
            ident,
            vis: vis.clone(),
            cfgs: source::cfgs(attrs),
            generics,
            params,
        }
    }
}

impl Declaration {
    pub(crate) fn resolve(
        name: &Name,
        written: written::Declaration,
        args: &Arguments,
        errors: &mut Errors,
    ) -> Option<Self> {
        let written::Declaration { attrs, sig, body, .. } = written;
        if let Some(body) = body {
            errors.at(
                &body,
                "a kernel is declared without a body: end it with `;`, its code is in the CUDA file or image",
            );
        }
        check_signature(&sig, errors);
        check_attributes(&attrs, errors);
        let wanted = wanted(name, args, errors);
        let instances = instances(name, &sig, args, errors);
        Some(Declaration {
            summary: summary(&attrs),
            attrs,
            position: Position::from_span(name.function.span()),
            wanted: wanted?,
            min_arch: args.min_arch.as_ref().and_then(|arch| arch.value),
            instances,
        })
    }
}

impl Arguments {
    /// Returns the path of the library: `::kernel_registry`, or the path in `crate = ..`.
    pub(crate) fn krate(&self) -> TokenStream {
        let path = self.krate.as_ref().and_then(|krate| krate.value.as_ref());
        path.map_or_else(|| quote!(::kernel_registry), ToTokens::to_token_stream)
    }
}

fn wanted(name: &Name, args: &Arguments, errors: &mut Errors) -> Option<Wanted> {
    if let Some(Argument { value, .. }) = &args.name {
        return value.as_ref().map(|name| Wanted { name: name.value(), span: name.span() });
    }
    let function = &name.function;
    let name = function.unraw().to_string();
    if !name.is_ascii() {
        errors.at(function, "CUDA's names are ASCII: give the kernel's name in the image as `name = \"..\"`");
    }
    Some(Wanted { name, span: function.span() })
}

/// Resolves the instances of a kernel. A kernel that isn't generic has exactly one.
fn instances(name: &Name, sig: &Signature, args: &Arguments, errors: &mut Errors) -> Vec<Instance> {
    if name.generics.is_empty() {
        if let Some(Argument { key, .. }) = &args.instances {
            errors.at(key, "only a generic kernel has instances: declare `unsafe fn name<T>(..)`");
        }
        let params = name.params.clone().unwrap_or_default();
        return vec![Instance::new(GenericArgs::default(), params, args, errors)];
    }
    let mut instances = Vec::new();
    for generic_args in concrete(name, args, errors) {
        let mut own = Errors::default();
        let inputs: Vec<FnArg> =
            sig.inputs.iter().filter_map(|arg| generic_args.put_into_param(arg, &mut own)).collect();
        let params = Rc::new(param::parse_params(&inputs, &mut own));
        instances.push(Instance::new(generic_args, params, args, &mut own));
        // All instances usually have the same error, so only the first is reported.
        if !own.is_empty() {
            errors.append(own);
            return instances;
        }
    }
    if instances.is_empty() {
        param::parse_params(&sig.inputs, errors);
    }
    instances
}

/// Returns the generic arguments of each instance.
fn concrete(name: &Name, args: &Arguments, errors: &mut Errors) -> Vec<GenericArgs> {
    let Some(Argument { key, value }) = &args.instances else {
        let function = &name.function;
        errors.at(
            function,
            format!("which instances of `{function}` are there? say `instances(<..>, <..>)`, as the CUDA source has them"),
        );
        return Vec::new();
    };
    let Some(list) = value else { return Vec::new() };
    if list.is_empty() {
        errors.at(key, "a kernel without instances cannot be launched: name one");
    }
    generics::args(&name.generics, list, errors)
}

impl Instance {
    fn new(args: GenericArgs, params: Rc<Vec<Param>>, given: &Arguments, errors: &mut Errors) -> Self {
        let value =
            |given: &Option<Argument<Expr>>| Some(args.put_into_expr(given.as_ref()?.value.as_ref()?));
        Instance {
            block: value(&given.block).and_then(|value| Block::parse(&value, errors)),
            shared: value(&given.shared).map(|value| bytes::shared(value, errors)),
            stack: value(&given.stack).map(|value| bytes::stack(value, errors)),
            params,
            args,
        }
    }
}

fn check_signature(sig: &Signature, errors: &mut Errors) {
    match &sig.safety {
        Safety::Unsafe(_) => {}
        Safety::Safe(safe) => errors.at(safe, "launching a kernel is unsafe: write `unsafe fn`"),
        Safety::Default => errors.at(
            sig.fn_token,
            "launching a kernel is unsafe, as its code can do anything to device memory: write `unsafe fn`",
        ),
    }
    if let Some(token) = &sig.constness {
        errors.at(token, "a kernel cannot be `const`: it runs on the device");
    }
    if let Some(token) = &sig.asyncness {
        errors.at(token, "a kernel cannot be `async`: every launch is asynchronous already");
    }
    if let Some(abi) = &sig.abi {
        errors.at(abi, "the calling convention is CUDA's own: leave `extern` out");
    }
    if let Some(clause) = &sig.generics.where_clause {
        errors.at(clause, "the instances say which types there are: leave `where` out");
    }
    if let ReturnType::Type(..) = &sig.output {
        errors.at(&sig.output, "a kernel returns nothing: let it write through a `&mut [T]` parameter");
    }
    if let Some(variadic) = &sig.variadic {
        errors.at(variadic, "a kernel has a fixed number of parameters");
    }
}

/// Reports attributes that don't apply to kernels.
fn check_attributes(attrs: &[Attribute], errors: &mut Errors) {
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
            errors.at(attr, format!("`{name}` is about machine code of the host, and a kernel has none"));
        } else if TESTS.contains(&name.as_str()) {
            errors.at(attr, "a kernel is not a test: launch it from one");
        } else if name == "derive" || name == "repr" {
            errors.at(attr, format!("`{name}` is about values, and a kernel's type has none"));
        } else if name == "gpu_kernel" {
            errors.at(attr, "`gpu_kernel` is given twice");
        }
    }
}

/// Returns the first non-empty line of the doc comment.
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
