//! Kernels as JSON. docs/show-json.md is the schema.

use kernel_registry_image::{Entry, ParamLayout, Variant, VariantKind};
use serde_json::{Value, json};

use super::alone::{Alone, Kernel};
use super::shown::Shown;
use super::summary::{Summary, kind};
use crate::json::joined;
use crate::list::json::{frames, kernel};

/// Raised by every change that could break a reader.
pub(crate) const SCHEMA: u32 = 2;

/// The document of kernels in binaries.
pub(super) fn binaries(kernels: &[Shown<'_>], summary: &Summary<'_>) -> Value {
    document(kernels.iter().map(shown), summary)
}

/// The document of kernels in an image that is in no binary.
pub(super) fn image(image: &Alone<'_>, kernels: &[Kernel<'_>]) -> Value {
    document(kernels.iter().map(|kernel| alone(image, kernel)), &image.summary())
}

/// The kernels of an image that is in no binary, or that nvcc linked into one.
pub(crate) fn kernels(image: &Alone<'_>) -> Vec<Value> {
    image.all().unwrap_or_default().iter().map(|kernel| alone(image, kernel)).collect()
}

fn document(kernels: impl ExactSizeIterator<Item = Value>, summary: &Summary<'_>) -> Value {
    json!({
        "schema": SCHEMA,
        "summary": {
            "kernels": kernels.len(),
            "images": summary.images.len(),
            "unread": summary.unread.variants,
        },
        "images": summary.images,
        "kernels": kernels.collect::<Value>(),
    })
}

fn shown(shown: &Shown<'_>) -> Value {
    let found = shown.found();
    let image = found.and_then(|found| found.image.as_ref());
    let more = json!({
        "cuda": shown.cuda(),
        "ptx_types": shown.ptx_types(),
        "image_kind": image.map(|image| kind(image.kind)),
        "certain": found.is_some_and(|found| found.is_certain),
        "variants": shown.variants().iter().map(variant).collect::<Value>(),
        "partial": shown.partial().map(|partial| partial.to_string()),
    });
    joined(kernel(shown.binary, &shown.kernel), more)
}

fn alone(Alone { image, file, bytes }: &Alone<'_>, variants: &Kernel<'_>) -> Value {
    let (_, entry) = variants[0];
    json!({
        "file": file.display().to_string(),
        "symbol": entry.symbol,
        "cuda": entry.signature.as_ref().map(ToString::to_string),
        "image_kind": kind(image.kind),
        "image_bytes": bytes,
        "params": entry.params.iter().map(param).collect::<Value>(),
        "variants": variants.iter().map(variant).collect::<Value>(),
    })
}

fn param(param: &ParamLayout) -> Value {
    json!({ "offset": param.offset, "size": param.size, "align": param.align, "ptx": param.ptx_type })
}

fn variant((variant, entry): &(&Variant, &Entry)) -> Value {
    let (kind, ptx) = match variant.kind {
        VariantKind::Ptx { version: (major, minor) } => ("ptx", Some(format!("{major}.{minor}"))),
        VariantKind::Cubin => ("cubin", None),
    };
    let limits = &entry.limits;
    let resources = entry.resources.map(|resources| {
        json!({
            "registers": resources.registers,
            "static_shared": resources.static_shared,
            "reserved_shared": resources.reserved_shared,
            "constants": resources.constants,
            "local_frame": resources.local_frame,
            "stack": resources.stack,
        })
    });
    json!({
        "kind": kind,
        "target": variant.target.to_string(),
        "ptx": ptx,
        "toolkit": variant.toolkit,
        "resources": resources,
        "limits": {
            "max_threads": limits.max_threads,
            "required_threads": limits.required_threads,
            "min_blocks": limits.min_blocks,
            "cluster": limits.cluster,
            "max_cluster": limits.max_cluster,
        },
        "needs": entry.needs.words().collect::<Value>(),
        "frames": frames(entry.frames),
        "code_bytes": entry.code_size,
    })
}
