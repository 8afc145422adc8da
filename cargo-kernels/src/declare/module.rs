//! The module: every kernel with its name in Rust and in the image, and with its documentation.

use kernel_registry_image::comparison::{Param, Verdict};
use kernel_registry_image::{Entry, Image, Signature};

use super::input::Input;
use super::kernel;
use super::names;
use super::source::{Function, Source};
use super::structs::Structs;
use super::template::{self, Arg, Generic, Group, Typed};
use super::types::{self, ParamType};

/// All that is written.
pub(super) struct Module<'a> {
    /// The image or source, as the declarations call it.
    pub(super) path: String,
    /// The argument that says so.
    pub(super) code: String,
    /// Whether a CUDA source was read.
    pub(super) has_source: bool,
    pub(super) structs: Structs<'a>,
    pub(super) declarations: Vec<Declaration>,
    /// Kernels that cannot be declared, and why.
    pub(super) left_out: Vec<(String, String)>,
}

/// One declaration.
pub(super) struct Declaration {
    /// Lines of documentation.
    pub(super) docs: Vec<String>,
    pub(super) name: String,
    /// The name in the image, if it is another one.
    pub(super) wanted: Option<String>,
    pub(super) generics: Vec<Generic>,
    /// The arguments of each instance, and its name in the image if they do not tell.
    pub(super) instances: Vec<(Vec<Arg>, Option<String>)>,
    pub(super) min_arch: Option<u32>,
    pub(super) block: Option<[u32; 3]>,
    pub(super) params: Vec<(String, ParamType)>,
    /// Whether its name, of `extern "C"`, leaves open which types the parameters are.
    pub(super) is_vague: bool,
}

impl<'a> Module<'a> {
    pub(super) fn of(image: &Image, source: &'a Source, input: &Input) -> Module<'a> {
        let kernels = kernel::all(image, source);
        let mut structs = Structs::new(taken(kernels.iter().map(|kernel| kernel.entry)), &source.structs);
        kernels.iter().for_each(|kernel| types::enter_values(kernel, &mut structs));
        let mut left_out = Vec::new();
        let mut typed = Vec::new();
        for kernel in kernels {
            let params = types::of(&kernel, &mut structs);
            match obstacle(image, kernel.entry, &params, &input.path) {
                Some(reason) => left_out.push((kernel.entry.name().to_owned(), reason)),
                None => typed.push(Typed { kernel, params }),
            }
        }
        let groups = template::gather(typed);
        let candidates: Vec<_> = groups.iter().map(candidates).collect();
        let names = names::distinct(&candidates);
        let declarations =
            groups.into_iter().zip(names).map(|(group, name)| declaration(group, name, image)).collect();
        Module {
            path: input.path.clone(),
            code: input.code.clone(),
            has_source: !source.is_empty(),
            structs,
            declarations,
            left_out,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.declarations.is_empty()
    }
}

/// The names that structs cannot have.
fn taken<'a>(entries: impl Iterator<Item = &'a Entry>) -> impl Iterator<Item = String> {
    entries.map(|entry| match &entry.signature {
        Some(signature) => signature.names()[2].to_owned(),
        None => entry.symbol.clone(),
    })
}

/// Why the macro would refuse the declaration.
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

/// Names for the declaration of a group, the best one first.
fn candidates(group: &Group<'_>) -> Vec<String> {
    let entry = first(group).kernel.entry;
    let Some(signature) = &entry.signature else {
        let stem = template::stem(&entry.symbol).filter(|_| matches!(group, Group::Family(_)));
        return stem.into_iter().chain([entry.symbol.as_str()]).map(names::function).collect();
    };
    let [name, base_name, unqualified] = signature.names();
    let whole = names::function(&names::snake(&signature.to_string()));
    match group {
        Group::Family(_) => vec![names::function(unqualified), names::function(base_name), whole],
        Group::Single(_) if signature.template_args.is_empty() => {
            vec![names::function(unqualified), names::function(name), whole]
        }
        Group::Single(_) => vec![names::function(names::unqualified(name)), names::function(name), whole],
    }
}

fn first<'a, 'b>(group: &'b Group<'a>) -> &'b Typed<'a> {
    match group {
        Group::Single(typed) => typed,
        Group::Family(family) => &family.instances[0].1,
    }
}

fn declaration(group: Group<'_>, name: String, image: &Image) -> Declaration {
    let docs = docs(&group);
    let Typed { kernel, .. } = first(&group);
    let (entry, min_arch, block) = (kernel.entry, kernel.min_arch, kernel.entry.limits.required_threads);
    let called = name.strip_prefix("r#").unwrap_or(&name).to_owned();
    let is_vague = entry.signature.is_none() && is_vague(first(&group));
    let param_names = param_names(kernel.source, kernel.entry);
    let common = |wanted, generics, instances, params: Vec<ParamType>| Declaration {
        docs,
        name,
        wanted,
        generics,
        instances,
        min_arch,
        block,
        params: param_names.into_iter().zip(params).collect(),
        is_vague,
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
                let symbol = &typed.kernel.entry.symbol;
                let name = (!tell(&args, template, symbol, image)).then(|| symbol.clone());
                (args, name)
            };
            let instances = family.instances.into_iter().map(instance).collect();
            let wanted = (!is_called && !base_name.is_empty()).then(|| base_name.to_owned());
            common(wanted, family.generics, instances, family.params)
        }
    }
}

/// Names for the parameters of a kernel: those of the source in snake case.
fn param_names(source: Option<&Function>, entry: &Entry) -> Vec<String> {
    let name = |index: usize| {
        let known = source.and_then(|function| function.params.get(index)?.name.as_deref());
        known.map_or_else(|| format!("p{index}"), names::variable)
    };
    let candidates: Vec<_> = (0..entry.params.len()).map(|index| vec![name(index)]).collect();
    names::distinct(&candidates)
}

/// The value of `name = ..`: the shortest name that finds only this kernel in the image. `None` if the Rust name does.
fn wanted(called: &str, entry: &Entry, image: &Image) -> Option<String> {
    let names = entry.signature.as_ref().map(|signature| signature.names());
    let names = names.into_iter().flat_map(|[name, base_name, unqualified]| [unqualified, base_name, name]);
    let names = names.filter(|name| name.len() <= names::LONGEST);
    let mut all = std::iter::once(called).chain(names).chain([entry.symbol.as_str()]);
    let is_found = |name: &&str| image.find(name, "").is_ok_and(|found| found.symbol == entry.symbol);
    all.find(is_found).filter(|name| *name != called).map(str::to_owned)
}

/// Whether these arguments tell which instance of the template it is.
fn tell(args: &[Arg], template: &str, symbol: &str, image: &Image) -> bool {
    let are_same = |signature: &&Signature| {
        let there = &signature.template_args;
        let is_same = |(arg, cuda): (&Arg, &String)| {
            Arg::of(cuda).is_some_and(|there| there.spelled() == arg.spelled())
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
