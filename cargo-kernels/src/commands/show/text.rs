//! Writes kernels as text: the declaration, then the resources of each variant of the image.

use std::io::{self, Write};

use kernel_registry_command::many;

use crate::binary::Contents;
use crate::commands::list::table::launch;
use crate::document::{
    Declaration, DeclaredKernel, Document, ImageKernel, ImageKind, ImageParam, Kernel, Limits, Place,
    Variant, hex,
};
use crate::output::table;

/// Stands for a value that is unknown or not needed.
const NOTHING: &str = "-";

const HEADINGS: [&str; 9] =
    ["VARIANT", "TOOLKIT", "REGISTERS", "SHARED", "CONSTANT", "FRAME", "STACK", "LAUNCH", "NEEDS"];

/// Writes the kernels, and the variants that could not be read. If `are_all`, also writes the number of kernels.
pub(super) fn write(
    document: &Document,
    binaries: &[Contents<'_>],
    are_all: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    for (index, kernel) in document.kernels.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        match kernel {
            Kernel::Declared(kernel) => {
                let Place { path, binary, .. } = &kernel.declaration.place;
                write_kernel(path, binary, declared_facts(kernel, binaries), &kernel.variants, out)?;
                if let Some(partial) = &kernel.partial {
                    writeln!(out, "    The kernel is only {partial}")?;
                }
            }
            Kernel::Undeclared(kernel) => {
                write_kernel(&kernel.name(), &kernel.file, image_facts(kernel), &kernel.variants, out)?;
            }
        }
    }
    let unread = document.unread().sentences;
    if are_all || !unread.is_empty() {
        let (kernels, images) = (document.kernels.len(), document.images.len());
        writeln!(out, "\n{} of {}", many(kernels, "kernel"), many(images, "image"))?;
    }
    unread.iter().try_for_each(|sentence| writeln!(out, "unread: {sentence}"))
}

fn write_kernel(
    name: &str,
    file: &str,
    facts: Vec<(&str, String)>,
    variants: &[Variant],
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "{name} in {file}")?;
    for (name, value) in facts {
        writeln!(out, "    {name:<9} {value}")?;
    }
    if variants.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(variants.iter().map(row));
    table::columns(&rows, "    ", out)
}

fn image_facts(kernel: &ImageKernel) -> Vec<(&'static str, String)> {
    let word = |param: &ImageParam| match &param.ptx {
        Some(ty) => format!(".{ty}"),
        None => format!("{} B", param.size),
    };
    let takes = match &kernel.params[..] {
        [] => "nothing".to_owned(),
        params => params.iter().map(word).collect::<Vec<_>>().join(", "),
    };
    let cuda = kernel.cuda.iter().map(|cuda| ("C++", cuda.clone()));
    cuda.chain([("symbol", kernel.symbol.clone()), ("takes", takes)]).collect()
}

fn declared_facts(kernel: &DeclaredKernel, binaries: &[Contents<'_>]) -> Vec<(&'static str, String)> {
    let declaration = &kernel.declaration;
    let place = &declaration.place;
    let mut facts = vec![("Rust", declaration.signature.clone())];
    facts.extend(kernel.cuda.iter().map(|cuda| ("C++", cuda.clone())));
    facts.extend(kernel.ptx_types.as_ref().map(|types| ("types", ptx_types(types))));
    facts.extend(slices(declaration).map(|slices| ("slices", slices.to_owned())));
    facts.push(("symbol", declaration.symbol.clone()));
    let [package, version] = [&place.package, &place.version].map(|text| text.as_deref().unwrap_or_default());
    facts.push(("declared", format!("{}:{}, in {package} {version}", place.file, place.line)));
    if !declaration.summary.is_empty() {
        facts.push(("about", declaration.summary.clone()));
    }
    facts.push(("launch", launch(declaration)));
    if declaration.needs.iter().any(|need| need == "unknown") {
        facts.push(("needs", "unknown, because part of its image cannot be read".to_owned()));
    }
    facts.push(("image", image(kernel)));
    let binary = binaries.iter().find(|binary| binary.path.display().to_string() == place.binary);
    if let Some(binary) = binary.filter(|binary| !binary.copies.is_empty()) {
        let copy = binary.libraries.iter().find(|library| hex(library.copy) == declaration.copy);
        let version = copy.map_or("of unknown version", |library| library.version);
        facts.push(("warmed by", format!("kernel-registry {version}, one of several copies in the binary")));
    }
    facts
}

/// Describes how a kernel takes slices, if it takes their lengths.
fn slices(kernel: &Declaration) -> Option<&'static str> {
    kernel.params.iter().find_map(|param| param.length.as_deref()).map(|length| match length {
        "within" => "address and length, as one parameter",
        _ => "address and length, as two parameters",
    })
}

fn ptx_types(types: &[String]) -> String {
    let types: Vec<_> = types.iter().map(|ty| format!(".{ty}")).collect();
    format!("as PTX tells: {}; not signs, what addresses point to, and .b types", types.join(", "))
}

fn image(kernel: &DeclaredKernel) -> String {
    let Some(recorded) = &kernel.declaration.image else { return "none".to_owned() };
    if recorded.bytes == 0 {
        return format!("{}, which was not compiled", recorded.file);
    }
    let kind = match kernel.image_kind {
        Some(ImageKind::Ptx) => "PTX",
        Some(ImageKind::Cubin) => "a cubin",
        Some(ImageKind::Fatbin) => "a fatbin",
        None => "not in the binary",
    };
    let or_another = match kernel.image_kind.is_some() && !kernel.certain {
        true => ", or another one of this length with this kernel",
        false => "",
    };
    let baked = match &recorded.baked[..] {
        [] => String::new(),
        baked => format!(", baked for {}", baked.join(", ")),
    };
    format!("{}, {} bytes, {kind}{or_another}{baked}", recorded.file, recorded.bytes)
}

fn row(variant: &Variant) -> [String; HEADINGS.len()] {
    let ptx = variant.ptx.iter().map(|version| format!(", PTX {version}"));
    let known = |number: Option<u32>| number.map_or(NOTHING.to_owned(), |number| number.to_string());
    let bytes = |number: Option<u32>| number.map_or(NOTHING.to_owned(), |number| format!("{number} B"));
    let words = |words: &[String]| if words.is_empty() { NOTHING.to_owned() } else { words.join(", ") };
    let resources = variant.resources;
    // The stack of a thread, as far as known.
    let stack = match variant.frames.recursive {
        Some(least) => format!("{least} B or more"),
        None => bytes(resources.and_then(|resources| resources.stack)),
    };
    [
        variant.target.clone() + &ptx.collect::<String>(),
        variant.toolkit.clone().unwrap_or_else(|| NOTHING.to_owned()),
        known(resources.map(|resources| resources.registers)),
        bytes(resources.map(|resources| resources.static_shared)),
        bytes(resources.map(|resources| resources.constants)),
        bytes(resources.map(|resources| resources.local_frame)),
        stack,
        words(&limits(&variant.limits)),
        words(&variant.needs),
    ]
}

/// Describes the limits for launches, such as `block of at most 256`.
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
