//! Builds the model of a module: each kernel with its names in Rust and in the image, and with its documentation.

use std::collections::HashSet;

use kernel_registry_image::comparison::{Param, Verdict};
use kernel_registry_image::{Entry, Image, Signature, stable_symbol};

use super::input::Unit;
use super::kept::{self, Kept};
use super::kernel;
use super::names;
use super::source::Function;
use super::structs::{Shared, Structs};
use super::template::{self, Arg, Generic, Group, Typed};
use super::types::{self, ParamType};

/// The model of a module of declarations.
pub(super) struct Module<'a> {
    /// The additions of people to the earlier file.
    pub(super) kept: &'a Kept,
    /// The image or source, as the declarations call it.
    pub(super) path: String,
    /// The argument of `#[gpu_kernel]` that names the image or source.
    pub(super) code: String,
    /// Whether a CUDA source was read.
    pub(super) has_source: bool,
    pub(super) structs: Structs<'a>,
    pub(super) declarations: Vec<Declaration<'a>>,
    /// Kernels that cannot be declared, and why.
    pub(super) left_out: Vec<(String, String)>,
}

/// One declaration.
pub(super) struct Declaration<'a> {
    /// Lines of documentation.
    pub(super) docs: Vec<String>,
    pub(super) name: String,
    /// The value of `name = ..`, if the Rust name does not find the kernel in the image.
    pub(super) wanted: Option<String>,
    pub(super) generics: Vec<Generic>,
    /// The arguments of each instance, and the instance's name in the image if the arguments do not identify it.
    pub(super) instances: Vec<(Vec<Arg>, Option<String>)>,
    pub(super) min_arch: Option<u32>,
    pub(super) block: Option<[u32; 3]>,
    /// The parameters, each with its type.
    pub(super) params: Vec<(String, String)>,
    /// Whether the types of its parameters are not known, as with an `extern "C"` name.
    pub(super) is_vague: bool,
    /// The declaration of this kernel in the earlier file.
    pub(super) before: Option<&'a kept::OldDeclaration>,
}

impl<'a> Module<'a> {
    pub(super) fn build(unit: &'a Unit, shared: &'a Shared, kept: &'a Kept) -> Module<'a> {
        let Unit { input, image, source, .. } = unit;
        let kernels = kernel::collect_kernels(image, source);
        let mut structs = Structs::new(taken(image), &source.structs, shared);
        types::enter_values(&kernels, &mut structs);
        let mut left_out = Vec::new();
        let mut typed = Vec::new();
        for kernel in kernels {
            let params = types::param_types(&kernel, &mut structs);
            match obstacle(image, kernel.entry, &params, &input.path) {
                Some(reason) => left_out.push((kernel.entry.name().to_owned(), reason)),
                None => typed.push(Typed { kernel, params }),
            }
        }
        let groups = template::gather(typed);
        let before = before(&groups, image, kept);
        let taken: HashSet<&str> = before.iter().flatten().map(|kernel| kernel.name.as_str()).collect();
        let candidates = groups.iter().zip(&before).map(|(group, before)| match before {
            Some(kernel) => vec![kernel.name.clone()],
            None => {
                let mut names = candidates(group);
                let last = names.pop();
                names.into_iter().filter(|name| !taken.contains(name.as_str())).chain(last).collect()
            }
        });
        let names = names::distinct(&candidates.collect::<Vec<_>>());
        let declarations = groups.into_iter().zip(names).zip(before);
        let declarations =
            declarations.map(|((group, name), before)| declaration(group, name, before, image)).collect();
        Module {
            kept,
            path: input.path.clone(),
            code: input.code.clone(),
            has_source: !source.kernels.is_empty(),
            structs,
            declarations,
            left_out,
        }
    }
}

/// Returns the declaration of each group in the earlier file. No declaration belongs to two groups.
fn before<'a>(groups: &[Group<'_>], image: &Image, kept: &'a Kept) -> Vec<Option<&'a kept::OldDeclaration>> {
    let mut taken = HashSet::new();
    let find = |group: &Group<'_>| {
        let (symbols, generics) = match group {
            Group::Single(typed) => (vec![typed.kernel.entry.symbol.as_str()], 0),
            Group::Family(family) => {
                let symbols = family.instances.iter().map(|(_, typed)| typed.kernel.entry.symbol.as_str());
                (symbols.collect(), family.generics.len())
            }
        };
        kept.kernel(&symbols, generics, image).filter(|kernel| taken.insert(kernel.name.as_str()))
    };
    groups.iter().map(find).collect()
}

/// Returns the names of kernels, which structs cannot have.
pub(super) fn taken(image: &Image) -> impl Iterator<Item = String> {
    image.variants.iter().flat_map(|variant| &variant.entries).map(|entry| match &entry.signature {
        Some(signature) => signature.names()[2].to_owned(),
        None => entry.symbol.clone(),
    })
}

/// Returns why the macro would refuse a declaration of this kernel, or `None` if it would not.
fn obstacle(image: &Image, entry: &Entry, params: &[ParamType], file: &str) -> Option<String> {
    let found = match image.find(&entry.symbol, file) {
        Ok(found) => found,
        Err(error) => return Some(error.to_string()),
    };
    params.iter().enumerate().find_map(|(index, param)| {
        let spelled = param.spelled(&param.element);
        let declared = Param { name: "", spelled: &spelled, pass: param.pass, layout: None };
        match declared.compare(index, found, file) {
            Verdict::Wrong(mismatch) => Some(mismatch.message),
            Verdict::Meets | Verdict::Needs { .. } => None,
        }
    })
}

/// Returns names for the declaration of a group, the best first. The names do not depend on other kernels, and the last name is
/// unique.
fn candidates(group: &Group<'_>) -> Vec<String> {
    let entry = first(group).kernel.entry;
    let symbol = stable_symbol(&entry.symbol);
    let (names, identity) = match (&entry.signature, group) {
        (None, Group::Family(_)) => {
            let stem = template::stem(&entry.symbol).unwrap_or(&symbol);
            (vec![stem.to_owned(), symbol.to_string()], symbol)
        }
        (None, Group::Single(_)) => (vec![symbol.to_string()], symbol),
        (Some(signature), Group::Family(family)) => {
            let [_, base_name, unqualified] = signature.names();
            (vec![unqualified.to_owned(), base_name.to_owned()], family.identity.as_str().into())
        }
        (Some(signature), Group::Single(_)) => {
            let [name, _, unqualified] = signature.names();
            let short = names::instance(unqualified, &signature.template_args);
            (vec![short, name.to_owned(), signature.to_string()], symbol)
        }
    };
    let last = names::with_hash(&names[0], &identity);
    names.iter().map(|name| names::function(name)).chain([last]).collect()
}

/// Returns the first kernel of a group.
fn first<'a, 'b>(group: &'b Group<'a>) -> &'b Typed<'a> {
    match group {
        Group::Single(typed) => typed,
        Group::Family(family) => &family.instances[0].1,
    }
}

fn declaration<'a>(
    group: Group<'_>,
    name: String,
    before: Option<&'a kept::OldDeclaration>,
    image: &Image,
) -> Declaration<'a> {
    let docs = docs(&group);
    let docs = before.map_or_else(|| docs.clone(), |before| before.docs(docs.clone()));
    let Typed { kernel, .. } = first(&group);
    let (entry, min_arch, block) = (kernel.entry, kernel.min_arch, kernel.entry.limits.required_threads);
    let called = name.strip_prefix("r#").unwrap_or(&name).to_owned();
    let is_vague = entry.signature.is_none() && is_vague(first(&group));
    let param_names = param_names(kernel.source, kernel.entry);
    let common = |wanted, generics: Vec<Generic>, instances, params: Vec<ParamType>| {
        let params = param_names.into_iter().zip(params);
        let spelled = |(name, ty): (String, ParamType)| (name, ty.spelled(&ty.element));
        let params = match before {
            Some(before) => {
                let generics: Vec<_> =
                    generics.iter().map(|generic| generic.spelled().replace(' ', "")).collect();
                before.params(params.collect(), &generics, entry, is_vague)
            }
            None => params.map(spelled).collect(),
        };
        Declaration { docs, name, wanted, generics, instances, min_arch, block, params, is_vague, before }
    };
    match group {
        Group::Single(Typed { params, .. }) => {
            common(wanted(&called, entry, image), Vec::new(), Vec::new(), params)
        }
        Group::Family(family) => {
            let base_name = entry.signature.as_ref().map_or("", |signature| &signature.base_name);
            let is_called = !image.instances_of(&called).is_empty();
            let template = if is_called { called.as_str() } else { base_name };
            let instance = |(args, typed): (Vec<Arg>, Typed<'_>)| {
                let entry = typed.kernel.entry;
                let is_identified = args_identify(&args, template, &entry.symbol, image);
                let name = if is_identified { None } else { wanted("", entry, image) };
                (args, name)
            };
            let instances = family.instances.into_iter().map(instance).collect();
            let wanted = (!is_called && !base_name.is_empty()).then(|| base_name.to_owned());
            common(wanted, family.generics, instances, family.params)
        }
    }
}

/// Returns names for the parameters of a kernel: the names in the source in snake case, or else `p0`, `p1` and so on.
fn param_names(source: Option<&Function>, entry: &Entry) -> Vec<String> {
    let name = |index: usize| {
        let known = source.and_then(|function| function.params.get(index)?.name.as_deref());
        known.map_or_else(|| format!("p{index}"), names::variable)
    };
    let candidates: Vec<_> = (0..entry.params.len()).map(|index| vec![name(index)]).collect();
    names::distinct(&candidates)
}

/// Returns the value of `name = ..`: the shortest name that finds only this kernel in the image. Returns `None` if the Rust name
/// does. The name of a template's instance contains the arguments, because more instances may be added later.
fn wanted(called: &str, entry: &Entry, image: &Image) -> Option<String> {
    let names: &[&str] = match entry.signature.as_ref().map(|signature| (signature, signature.names())) {
        Some((signature, [name, ..])) if !signature.template_args.is_empty() => &[name],
        Some((_, [name, _, unqualified])) => &[unqualified, name],
        None => &[],
    };
    let names = names.iter().copied().filter(|name| name.len() <= names::LONGEST);
    let symbol = stable_symbol(&entry.symbol);
    let mut all = std::iter::once(called).chain(names).chain([&*symbol, entry.symbol.as_str()]);
    let is_found = |name: &&str| image.find(name, "").is_ok_and(|found| found.symbol == entry.symbol);
    all.find(is_found).filter(|name| *name != called).map(str::to_owned)
}

/// Returns whether the only instance of the template with these arguments is the kernel of this symbol.
fn args_identify(args: &[Arg], template: &str, symbol: &str, image: &Image) -> bool {
    let are_same = |signature: &&Signature| {
        let there = &signature.template_args;
        let is_same = |(arg, cuda): (&Arg, &String)| {
            Arg::parse(cuda).is_some_and(|there| there.spelled() == arg.spelled())
        };
        there.len() == args.len() && args.iter().zip(there).all(is_same)
    };
    let mut names: Vec<&str> = image
        .instances_of(template)
        .into_iter()
        .filter(are_same)
        .map(|signature| signature.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [name] => image.find(name, "").is_ok_and(|found| found.symbol == symbol),
        _ => false,
    }
}

fn is_vague(Typed { kernel, params }: &Typed<'_>) -> bool {
    let is_typed = match kernel.entry.signature {
        Some(_) => kernel.entry.typed_signature().is_some(),
        None => kernel.source.is_some(),
    };
    !is_typed && params.iter().any(ParamType::is_vague)
}

fn docs(group: &Group<'_>) -> Vec<String> {
    let kernel = &first(group).kernel;
    let entry = kernel.entry;
    let mut docs = Vec::new();
    let signature = kernel.signature();
    let is_known = signature.is_some();
    let shown = names::shortened(&signature.unwrap_or_else(|| entry.name().to_owned()));
    docs.push(match (group, &entry.signature) {
        (Group::Family(_), Some(Signature { base_name, .. })) => {
            format!("The template `{base_name}`, such as `{shown}`.")
        }
        (Group::Family(_), None) => format!("A kernel for each type, such as `{shown}`."),
        (Group::Single(_), _) if is_known => format!("`{shown}`"),
        (Group::Single(_), Some(_)) => {
            format!("`{shown}`, whose parameters are not of the types in its symbol.")
        }
        (Group::Single(_), None) => format!("`{shown}`, whose name carries no types."),
    });
    if is_vague(first(group)) {
        let known = match entry.tells_types() {
            true => "Types are those of PTX: signs of integers and what pointers point to are not known.",
            false => "Machine code tells sizes only: no types are known.",
        };
        docs.extend([String::new(), known.to_owned()]);
    }
    let max_threads = |typed: &Typed<'_>| {
        let limits = &typed.kernel.entry.limits;
        limits.max_threads.filter(|_| limits.required_threads.is_none())
    };
    let most = match group {
        Group::Single(typed) => max_threads(typed),
        Group::Family(family) => family.instances.iter().filter_map(|(_, typed)| max_threads(typed)).max(),
    };
    if let Some(most) = most {
        docs.extend([String::new(), format!("For blocks of at most {most} threads.")]);
    }
    docs
}
