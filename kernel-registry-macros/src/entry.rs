//! A declaration against the image that it names: is the kernel there, and does it take what is declared?

use kernel_registry_image::{CudaType, Entry, Image, ParamLayout, Scalar, near};
use proc_macro2::Ident;
use syn::Type;
use syn::spanned::Spanned;

use crate::model::{Expected, Param, Pass};
use crate::primitive::Primitive;
use crate::report::Report;

/// The size of an address among the arguments of a kernel.
const ADDRESS: u32 = 8;

/// Finds the kernel that is called `name`: its symbol, or its C++ name with or without namespaces and template arguments.
pub(crate) fn find<'a>(name: &str, image: &'a Image, file: &str) -> Result<&'a Entry, String> {
    let entries = || image.variants.iter().flat_map(|variant| &variant.entries);
    let mut found: Vec<&Entry> = entries().filter(|entry| entry.symbol == name).collect();
    if found.is_empty() {
        found = entries().filter(|entry| is_called(entry, name)).collect();
    }
    let Some(first) = found.first() else { return Err(missing(name, image, file)) };
    if found.iter().any(|entry| entry.symbol != first.symbol) {
        return Err(ambiguous(name, &found, file));
    }
    if first.signature.as_ref().is_some_and(|signature| signature.anonymous_namespace) {
        return Err(format!(
            "`{}` of `{file}` is in an anonymous namespace, so that its symbol contains a hash of its source's path \
             and differs from machine to machine: give the namespace a name, or the kernel none",
            first.name()
        ));
    }
    let sizes = |entry: &Entry| entry.params.iter().map(|param| param.size).collect::<Vec<_>>();
    if found.iter().any(|entry| sizes(entry) != sizes(first)) {
        return Err(format!(
            "`{}` takes other parameters in one variant of `{file}` than in another",
            first.name()
        ));
    }
    Ok(first)
}

fn is_called(entry: &Entry, name: &str) -> bool {
    entry.signature.as_ref().is_some_and(|signature| {
        let unqualified = signature.base_name.rsplit("::").next();
        signature.name == name || signature.base_name == name || unqualified == Some(name)
    })
}

fn missing(name: &str, image: &Image, file: &str) -> String {
    let mut all: Vec<Entry> = image.variants.iter().flat_map(|variant| variant.entries.clone()).collect();
    all.sort_by(|a, b| (a.name(), &a.symbol).cmp(&(b.name(), &b.symbol)));
    all.dedup_by(|a, b| a.symbol == b.symbol);
    match near(name, &all).as_slice() {
        [] if all.is_empty() => format!("`{file}` holds no kernels"),
        [] => {
            let mut names: Vec<_> = all.iter().map(|entry| format!("`{}`", entry.name())).collect();
            names.dedup();
            let more = if names.len() > 8 { " and others" } else { "" };
            names.truncate(8);
            format!("no kernel `{name}` in `{file}`: there are {}{more}", names.join(", "))
        }
        names => {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("no kernel `{name}` in `{file}`: did you mean {}?", names.join(" or "))
        }
    }
}

fn ambiguous(name: &str, found: &[&Entry], file: &str) -> String {
    let mut names: Vec<&str> = found.iter().map(|entry| entry.name()).collect();
    names.sort_unstable();
    names.dedup();
    // Overloads share their C++ name, and only their symbols tell them apart.
    if names.len() == 1 {
        names = found.iter().map(|entry| entry.symbol.as_str()).collect();
        names.sort_unstable();
        names.dedup();
    }
    format!(
        "several kernels of `{file}` are called `{name}`: say which one, as in `name = \"{}\"`; there are {}",
        names[0],
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    )
}

/// Compares the parameters. What only the compiler can say is left in them as an expectation.
pub(crate) fn compare(params: &mut [Param], entry: &Entry, name: &Ident, file: &str, report: &mut Report) {
    if params.len() != entry.params.len() {
        let count = entry.params.len();
        let plural = if count == 1 { "" } else { "s" };
        let whole = whole(entry);
        report.at(
            name,
            format!(
                "`{whole}` of `{file}` takes {count} parameter{plural}, and {} are declared",
                params.len()
            ),
        );
        return;
    }
    let types = entry.signature.as_ref().map(|signature| signature.params.as_slice()).unwrap_or_default();
    for (index, (param, layout)) in params.iter_mut().zip(&entry.params).enumerate() {
        let cuda = types.get(index);
        let expected = expected(param, cuda, layout).and_then(|expected| settled(expected, &param.element));
        // Most parameters are right, and nothing has to be said of them.
        let message = || {
            let (name, spelled, there, whole) =
                (&param.name, &param.spelled, there(cuda, layout), whole(entry));
            format!("`{name}` is `{spelled}` here, and {there} in `{whole}` of `{file}`")
        };
        match expected {
            Ok(expected) => {
                if !matches!(expected, Expected::Nothing | Expected::Known { .. }) {
                    param.message = message();
                }
                param.expected = expected;
            }
            Err(remedy) => report.push(syn::Error::new(param.element.span(), message() + remedy)),
        }
    }
}

/// The kernel as C++ declares it, or as much as its symbol tells.
fn whole(entry: &Entry) -> String {
    match &entry.signature {
        Some(signature) => signature.to_string(),
        None => entry.symbol.clone(),
    }
}

/// The parameter as CUDA has it.
fn there(cuda: Option<&CudaType>, layout: &ParamLayout) -> String {
    let align = layout.align.map(|align| format!(", aligned to {align}")).unwrap_or_default();
    match cuda {
        Some(cuda @ CudaType::Named(_)) => format!("`{cuda}` ({} bytes{align})", layout.size),
        Some(cuda) => format!("`{cuda}`"),
        None => format!("a value of {} bytes{align},", layout.size),
    }
}

/// What the Rust type has to be, or an error with the way to declare it instead, if there is one to offer.
fn expected(param: &Param, cuda: Option<&CudaType>, layout: &ParamLayout) -> Result<Expected, &'static str> {
    match (param.pass, cuda) {
        (Pass::Value, Some(CudaType::Scalar(scalar))) => Ok(Expected::Scalar(*scalar)),
        (Pass::Value, Some(CudaType::Pointer { .. })) => Ok(Expected::Pointer),
        (Pass::Value, _) => Ok(Expected::Layout { size: layout.size, align: layout.align.unwrap_or(0) }),
        (pass, Some(CudaType::Pointer { to, is_const, .. })) => element(pass, to, *is_const, &param.element),
        (_, Some(CudaType::Other(_))) => Ok(Expected::Nothing),
        (_, None) if layout.size == ADDRESS => Ok(Expected::Nothing),
        _ => Err(""),
    }
}

/// Compares here and now what a number type's name tells.
fn settled(expected: Expected, element: &Type) -> Result<Expected, &'static str> {
    let Some(primitive) = Primitive::of(element) else { return Ok(expected) };
    let meets = match expected {
        Expected::Scalar(scalar) => primitive.meets(scalar),
        Expected::Layout { size, align } => primitive.size == size && (align == 0 || primitive.size == align),
        Expected::Pointer => false,
        Expected::Nothing | Expected::Known { .. } => true,
    };
    if meets { Ok(Expected::Known { size: primitive.size }) } else { Err("") }
}

/// What is expected of the element of a slice or pointer, or in words how to declare it instead.
fn element(pass: Pass, to: &CudaType, is_const: bool, element: &Type) -> Result<Expected, &'static str> {
    match pass {
        Pass::Slice if !is_const => Err(": the kernel may write through it, so declare `&mut [T]`"),
        Pass::Pointer if !is_const => Err(": the kernel may write through it, so declare `*mut T`"),
        _ => Ok(match to {
            // A pointer to anything meets any pointer.
            CudaType::Scalar(Scalar::Void) => Expected::Nothing,
            _ if is_void(element) => Expected::Nothing,
            CudaType::Scalar(scalar) => Expected::Scalar(*scalar),
            CudaType::Pointer { .. } => Expected::Nothing,
            // Of what has a name, the mangled name of the kernel does not tell the layout.
            CudaType::Named(_) | CudaType::Other(_) => Expected::Nothing,
        }),
    }
}

/// Whether this is `c_void`, under whatever path.
fn is_void(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "c_void"))
}
