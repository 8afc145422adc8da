//! Writes kernels as text: the declaration, then the resources of each variant of the image.

use std::io::{self, Write};

use kernel_registry_format::{KernelRecord, SliceLength};
use kernel_registry_image::{Entry, ImageKind, Limits, Variant, VariantKind};

use crate::list::table::launch;
use crate::show::shown::Shown;
use crate::table;

/// Stands for a value that is unknown or not needed.
const NOTHING: &str = "-";

const HEADINGS: [&str; 9] =
    ["VARIANT", "TOOLKIT", "REGISTERS", "SHARED", "CONSTANT", "FRAME", "STACK", "LAUNCH", "NEEDS"];

pub(super) fn write(kernels: &[Shown<'_>], out: &mut impl Write) -> io::Result<()> {
    for (index, shown) in kernels.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{} in {}", shown.kernel.path, shown.binary.path.display())?;
        for (name, value) in facts(shown) {
            writeln!(out, "    {name:<9} {value}")?;
        }
        table(&shown.variants(), shown.partial().map(|partial| partial.to_string()), out)?;
    }
    Ok(())
}

/// The variants of an image that have a kernel.
pub(super) fn table(
    variants: &[(&Variant, &Entry)],
    partial: Option<String>,
    out: &mut impl Write,
) -> io::Result<()> {
    if !variants.is_empty() {
        writeln!(out)?;
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.extend(variants.iter().map(|(variant, entry)| row(variant, entry)));
        table::columns(&rows, "    ", out)?;
    }
    if let Some(partial) = partial {
        writeln!(out, "    The kernel is only {partial}")?;
    }
    Ok(())
}

fn facts(shown: &Shown<'_>) -> Vec<(&'static str, String)> {
    let kernel = &shown.kernel;
    let mut facts = vec![("Rust", kernel.signature().to_string())];
    facts.extend(shown.cuda().map(|cuda| ("C++", cuda)));
    facts.extend(shown.ptx_types().map(|types| ("types", ptx_types(&types))));
    facts.extend(slices(kernel).map(|slices| ("slices", slices.to_owned())));
    facts.push(("symbol", kernel.symbol.to_owned()));
    let (file, line, package, version) = (kernel.file, kernel.line, kernel.package, kernel.version);
    facts.push(("declared", format!("{file}:{line}, in {package} {version}")));
    if !kernel.summary.is_empty() {
        facts.push(("about", kernel.summary.to_owned()));
    }
    facts.push(("launch", launch(kernel)));
    if kernel.needs.unknown {
        facts.push(("needs", "unknown, because part of its image cannot be read".to_owned()));
    }
    facts.push(("image", image(shown)));
    if !shown.binary.copies.is_empty() {
        let copy = shown.binary.libraries.iter().find(|library| library.copy == kernel.copy);
        let version = copy.map_or("of unknown version", |library| library.version);
        facts.push(("warmed by", format!("kernel-registry {version}, one of several copies in the binary")));
    }
    facts
}

/// How a kernel takes slices, if it takes their lengths.
fn slices(kernel: &KernelRecord<'_>) -> Option<&'static str> {
    kernel.params.iter().find_map(|param| param.length).map(|length| match length {
        SliceLength::Next => "address and length, as two parameters",
        SliceLength::Within => "address and length, as one parameter",
    })
}

fn ptx_types(types: &[&str]) -> String {
    let types: Vec<_> = types.iter().map(|ty| format!(".{ty}")).collect();
    format!("as PTX tells: {}; not signs, what addresses point to, and .b types", types.join(", "))
}

fn image(shown: &Shown<'_>) -> String {
    let Some(recorded) = shown.kernel.image else { return "none".to_owned() };
    if !recorded.is_there() {
        return format!("{}, which was not compiled", recorded.file);
    }
    let about = match shown.found().map(|found| (&found.image, found.is_certain)) {
        Some((Some(image), true)) => kind(image.kind).to_owned(),
        Some((Some(image), false)) => {
            format!("{}, or another one of this length with this kernel", kind(image.kind))
        }
        _ => "not in the binary".to_owned(),
    };
    format!("{}, {} bytes, {about}", recorded.file, recorded.len)
}

const fn kind(kind: ImageKind) -> &'static str {
    match kind {
        ImageKind::Ptx => "PTX",
        ImageKind::Cubin => "a cubin",
        ImageKind::Fatbin => "a fatbin",
    }
}

fn row(variant: &Variant, entry: &Entry) -> [String; HEADINGS.len()] {
    let kind = match variant.kind {
        VariantKind::Ptx { version: (major, minor) } => format!("{}, PTX {major}.{minor}", variant.target),
        VariantKind::Cubin => variant.target.to_string(),
    };
    let known = |number: Option<u32>| number.map_or(NOTHING.to_owned(), |number| number.to_string());
    let bytes = |number: Option<u32>| number.map_or(NOTHING.to_owned(), |number| format!("{number} B"));
    let resources = entry.resources.as_ref();
    let words = |words: Vec<String>| if words.is_empty() { NOTHING.to_owned() } else { words.join(", ") };
    [
        kind,
        variant.toolkit.clone().unwrap_or_else(|| NOTHING.to_owned()),
        known(resources.map(|resources| resources.registers)),
        bytes(resources.map(|resources| resources.static_shared)),
        bytes(resources.map(|resources| resources.constants)),
        bytes(resources.map(|resources| resources.local_frame)),
        stack(entry),
        words(limits(&entry.limits)),
        words(entry.needs.words().map(str::to_owned).collect()),
    ]
}

/// The stack of a thread, as far as known.
fn stack(entry: &Entry) -> String {
    match (entry.resources.and_then(|resources| resources.stack), entry.frames.recursive) {
        (_, Some(least)) => format!("{least} B or more"),
        (Some(stack), None) => format!("{stack} B"),
        (None, None) => NOTHING.to_owned(),
    }
}

/// The limits for launches, such as `block of at most 256`.
fn limits(limits: &Limits) -> Vec<String> {
    let axes = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
    let mut words = Vec::new();
    match (limits.required_threads, limits.max_threads) {
        (Some(block), _) => words.push(format!("block {}", axes(block))),
        (None, Some(max)) => words.push(format!("block of at most {max}")),
        (None, None) => {}
    }
    words.extend(limits.min_blocks.map(|blocks| format!("{blocks} blocks or more")));
    words.extend(limits.cluster.map(|cluster| format!("cluster {}", axes(cluster))));
    words.extend(limits.max_cluster.map(|max| format!("cluster of at most {max}")));
    words
}
