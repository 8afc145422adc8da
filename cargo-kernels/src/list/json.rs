//! The list as JSON. docs/list-json.md is the schema.

use kernel_registry_format::{KernelRecord, LibraryRecord, Param, SliceLength, StackFrames};
use serde_json::{Value, json};

use crate::binary::Contents;
use crate::linked::HandedOver;
use crate::show;
use crate::show::alone::Alone;

/// Raised by every change that could break a reader.
const SCHEMA: u32 = 1;

pub(super) fn document(binaries: &[Contents<'_>], linked: &[Option<Alone<'_>>]) -> Value {
    let kernels =
        binaries.iter().flat_map(|binary| binary.kernels.iter().map(move |one| kernel(binary, one)));
    json!({
        "schema": SCHEMA,
        "binaries": binaries.iter().map(binary).collect::<Value>(),
        "kernels": kernels.collect::<Value>(),
        "linked": linked.iter().flatten().flat_map(show::json::kernels).collect::<Value>(),
    })
}

fn binary(binary: &Contents<'_>) -> Value {
    let library = |library: &LibraryRecord<'_>| {
        let LibraryRecord { version, compiler, copy } = *library;
        json!({ "version": version, "compiler": compiler, "copy": hex(copy) })
    };
    json!({
        "path": binary.path.display().to_string(),
        "libraries": binary.libraries.iter().map(library).collect::<Value>(),
        "linked_warmed": (binary.has_records() && !binary.linked.is_empty()).then(|| match binary.linked.handed_over() {
            HandedOver::All => "all",
            HandedOver::OfArchives => "some",
            HandedOver::None => "none",
        }),
    })
}

/// Hexadecimal, because not every JSON reader can hold a 64-bit number.
fn hex(copy: u64) -> String {
    format!("{copy:016x}")
}

/// A kernel as its record in a binary has it.
pub(crate) fn kernel(binary: &Contents<'_>, kernel: &KernelRecord<'_>) -> Value {
    let image = kernel.image.map(|image| {
        let variants = image.variants.split(',').filter(|variant| !variant.is_empty());
        json!({ "file": image.file, "bytes": image.len, "variants": variants.collect::<Value>() })
    });
    json!({
        "binary": binary.path.display().to_string(),
        "path": kernel.path,
        "symbol": kernel.symbol,
        "crate": kernel.package,
        "version": kernel.version,
        "file": kernel.file,
        "line": kernel.line,
        "column": kernel.column,
        "summary": kernel.summary,
        "signature": kernel.signature().to_string(),
        "params": kernel.params.iter().map(param).collect::<Value>(),
        "min_arch": kernel.min_arch,
        "block": kernel.block,
        "shared": kernel.shared,
        "stack": kernel.stack,
        "frames": frames(kernel.frames),
        "needs": kernel.needs.words().collect::<Value>(),
        "image": image,
        "copy": hex(kernel.copy),
    })
}

pub(crate) fn frames(frames: StackFrames) -> Value {
    let StackFrames { recursive, launched } = frames;
    json!({ "recursive": recursive, "launched": launched })
}

fn param(param: Param<'_>) -> Value {
    json!({
        "name": param.name,
        "type": param.ty,
        "pass": param.pass.as_str(),
        "nullable": param.nullable,
        "length": param.length.map(SliceLength::as_str),
        "direction": param.direction().as_str(),
        "size": param.size,
        "align": param.align,
        "element_size": param.element_size,
        "element_align": param.element_align,
    })
}
