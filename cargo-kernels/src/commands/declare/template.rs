//! Gathers the instances of a template, which one generic declaration can declare, and `extern "C"` kernels whose names end
//! with types, like `sqrt_f32` and `sqrt_f64`.

use std::collections::BTreeMap;

use kernel_registry_image::{CudaType, Entry, Scalar};

use super::kernel::Kernel;
use super::known_types::{half, number};
use super::names;
use super::types::ParamType;

/// A kernel with Rust types for its parameters.
pub(super) struct Typed<'a> {
    pub(super) kernel: Kernel<'a>,
    pub(super) params: Vec<ParamType>,
}

/// The kernels of one declaration.
pub(super) enum Group<'a> {
    Single(Typed<'a>),
    Family(Family<'a>),
}

/// Instances of one template.
pub(super) struct Family<'a> {
    /// A text that identifies the family.
    pub(super) identity: String,
    pub(super) generics: Vec<Generic>,
    /// The parameters. Their element types can be generic parameters.
    pub(super) params: Vec<ParamType>,
    /// The instances. All have the same limits, so the first instance represents them.
    pub(super) instances: Vec<(Vec<Arg>, Typed<'a>)>,
}

/// A generic parameter.
pub(super) struct Generic {
    pub(super) name: String,
    /// The type of a constant; `None` for a type parameter.
    pub(super) of: Option<&'static str>,
}

impl Generic {
    pub(super) fn spelled(&self) -> String {
        match self.of {
            Some(of) => format!("const {}: {of}", self.name),
            None => self.name.clone(),
        }
    }
}

/// A template argument in Rust.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Arg {
    Type(String),
    Number(&'static str, i128),
    Flag(bool),
}

impl Arg {
    /// Reads an argument as C++ writes it. Returns `None` if Rust has no equivalent.
    pub(super) fn parse(cuda: &str) -> Option<Arg> {
        if let Ok(flag) = cuda.parse() {
            return Some(Arg::Flag(flag));
        }
        if let Some((cast, value)) = cuda.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            let value = value.parse().ok()?;
            // The value of an enumeration is known, but not its underlying type.
            let number = match Scalar::named(cast) {
                Some(scalar) => number(scalar),
                None if i32::try_from(value).is_ok() => "i32",
                None => "i64",
            };
            return Some(Arg::Number(number, value));
        }
        if cuda.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            let value = cuda.trim_end_matches(['u', 'l']);
            let number = match &cuda[value.len()..] {
                "" => "i32",
                "u" => "u32",
                "l" | "ll" => "i64",
                _ => "u64",
            };
            return Some(Arg::Number(number, value.parse().ok()?));
        }
        match CudaType::parse(cuda) {
            CudaType::Scalar(Scalar::Void) => None,
            CudaType::Scalar(scalar) => Some(Arg::Type(number(scalar).to_owned())),
            CudaType::Named(name) => half(&name).map(Arg::Type),
            _ => None,
        }
    }

    /// Returns the type of a constant, or `None` for a type argument.
    fn constant(&self) -> Option<&'static str> {
        match self {
            Arg::Type(_) => None,
            Arg::Number(of, _) => Some(of),
            Arg::Flag(_) => Some("bool"),
        }
    }

    pub(super) fn spelled(&self) -> String {
        match self {
            Arg::Type(name) => name.clone(),
            Arg::Number(_, value) => value.to_string(),
            Arg::Flag(value) => value.to_string(),
        }
    }
}

/// The properties that instances of one declaration have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    template: String,
    generics: Vec<Option<&'static str>>,
    passes: Vec<u8>,
    block: Option<[u32; 3]>,
    min_arch: Option<u32>,
}

/// Groups the kernels. The groups have the order of their first kernels.
pub(super) fn gather(kernels: Vec<Typed<'_>>) -> Vec<Group<'_>> {
    let mut groups = Vec::new();
    let mut families: BTreeMap<Key, Vec<(usize, Vec<Arg>, Typed<'_>)>> = BTreeMap::new();
    for (order, typed) in kernels.into_iter().enumerate() {
        match args(&typed) {
            None => groups.push((order, Group::Single(typed))),
            Some(args) => {
                let same = families.entry(key(&typed, &args)).or_default();
                // C++ has more types than Rust: instances for `long` and `long long` have the same arguments in Rust.
                match same.iter().any(|(_, other, _)| *other == args) {
                    true => groups.push((order, Group::Single(typed))),
                    false => same.push((order, args, typed)),
                }
            }
        }
    }
    for (key, mut members) in families {
        let Key { template, generics: kinds, passes, block, min_arch } = &key;
        let identity = format!("{template} {kinds:?} {passes:?} {block:?} {min_arch:?}");
        let order = members[0].0;
        let generics = generics(kinds, &members[0].2);
        match params(&generics, &members) {
            Some(params) if is_family(&generics, &params, &members) => {
                members.sort_by(|(_, a, _), (_, b, _)| a.cmp(b));
                let instances = members.into_iter().map(|(_, args, typed)| (args, typed)).collect();
                groups.push((order, Group::Family(Family { identity, generics, params, instances })));
            }
            _ => {
                let singles = members.into_iter().map(|(order, _, typed)| (order, Group::Single(typed)));
                groups.extend(singles);
            }
        }
    }
    groups.sort_by_key(|(order, _)| *order);
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Returns the template arguments of an instance, if Rust can write them, or the types in an `extern "C"` name.
fn args(typed: &Typed<'_>) -> Option<Vec<Arg>> {
    let Entry { symbol, signature, .. } = typed.kernel.entry;
    let args = match signature {
        Some(signature) => {
            signature.template_args.iter().map(|arg| Arg::parse(arg)).collect::<Option<Vec<_>>>()?
        }
        None => suffixes(symbol).1,
    };
    (!args.is_empty()).then_some(args)
}

/// Splits an `extern "C"` name into its stem and the types at its end: `cast` and two types for `cast_u32_f64`.
fn suffixes(symbol: &str) -> (&str, Vec<Arg>) {
    let (mut stem, mut types) = (symbol, Vec::new());
    while let Some((before, suffix)) = stem.rsplit_once('_') {
        let ty = match suffix {
            "f16" => "half::f16",
            "bf16" => "half::bf16",
            "f32" | "f64" | "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" => suffix,
            _ => break,
        };
        types.insert(0, Arg::Type(ty.to_owned()));
        stem = before;
    }
    (stem, types)
}

/// Returns an `extern "C"` name without the types at its end, if it has some.
pub(super) fn stem(symbol: &str) -> Option<&str> {
    let (stem, types) = suffixes(symbol);
    (!types.is_empty() && !stem.is_empty()).then_some(stem)
}

/// Returns whether these kernels become one declaration. `extern "C"` kernels do if there are several, and each type in their names
/// is the type of a parameter.
fn is_family(generics: &[Generic], params: &[ParamType], members: &[(usize, Vec<Arg>, Typed<'_>)]) -> bool {
    let is_used = |generic: &Generic| params.iter().any(|param| param.element == generic.name);
    let is_template = members.iter().all(|(_, _, typed)| typed.kernel.entry.signature.is_some());
    is_template || (members.len() > 1 && generics.iter().all(is_used))
}

fn key(typed: &Typed<'_>, args: &[Arg]) -> Key {
    let Kernel { entry, min_arch, .. } = typed.kernel;
    Key {
        template: match &entry.signature {
            Some(signature) => signature.base_name.clone(),
            // The `*` distinguishes this text from the names of templates.
            None => format!("{}_*", suffixes(&entry.symbol).0),
        },
        generics: args.iter().map(Arg::constant).collect(),
        passes: typed.params.iter().map(|param| param.pass as u8).collect(),
        block: entry.limits.required_threads,
        min_arch,
    }
}

/// Returns the generic parameters, named as in the source if that is known.
fn generics(kinds: &[Option<&'static str>], first: &Typed<'_>) -> Vec<Generic> {
    let written = first.kernel.source.map_or(&[][..], |function| &function.generics);
    let name = |(of, name): (&Option<&'static str>, &String)| match of {
        Some(_) => names::snake(name).to_ascii_uppercase(),
        None => names::camel(name),
    };
    let names: Vec<String> = kinds.iter().zip(written).map(name).collect();
    // A generic parameter must not have the name of another type in the declaration.
    let has_word = |element: &str, name: &str| {
        element.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).any(|word| word == name)
    };
    let is_taken = |name: &String| first.params.iter().any(|param| has_word(&param.element, name));
    let is_new = |(index, name): (usize, &String)| !names[..index].contains(name) && !is_taken(name);
    if written.len() == kinds.len() && names.iter().enumerate().all(is_new) {
        let generic = |(name, of): (String, &Option<&'static str>)| Generic { name, of: *of };
        return names.into_iter().zip(kinds).map(generic).collect();
    }
    letters(kinds)
}

/// Returns generic parameters with single letters for names.
fn letters(kinds: &[Option<&'static str>]) -> Vec<Generic> {
    const TYPES: [&str; 5] = ["T", "U", "V", "W", "X"];
    const CONSTANTS: [&str; 5] = ["N", "M", "K", "L", "P"];
    let (mut types, mut constants) = (0, 0);
    let generic = |of: &Option<&'static str>| {
        let (names, count) = if of.is_some() { (CONSTANTS, &mut constants) } else { (TYPES, &mut types) };
        let (round, name) = (*count / names.len(), names[*count % names.len()]);
        *count += 1;
        let name = if round == 0 { name.to_owned() } else { format!("{name}{round}") };
        Generic { name, of: *of }
    };
    kinds.iter().map(generic).collect()
}

/// Returns the parameters of a generic declaration, if one can declare all instances.
fn params(generics: &[Generic], members: &[(usize, Vec<Arg>, Typed<'_>)]) -> Option<Vec<ParamType>> {
    let (_, _, first) = members.first()?;
    let param = |(index, first): (usize, &ParamType)| {
        let is_arg = |generic_index: usize| {
            members.iter().all(|(_, args, typed)| {
                matches!(&args[generic_index], Arg::Type(name) if *name == typed.params[index].element)
            })
        };
        let generic = (0..generics.len()).find(|generic_index| is_arg(*generic_index));
        let element = match generic {
            Some(generic_index) => generics[generic_index].name.clone(),
            None => {
                let is_same = |typed: &Typed<'_>| typed.params[index].element == first.element;
                members.iter().all(|(_, _, typed)| is_same(typed)).then(|| first.element.clone())?
            }
        };
        Some(ParamType { pass: first.pass, element })
    };
    first.params.iter().enumerate().map(param).collect()
}
