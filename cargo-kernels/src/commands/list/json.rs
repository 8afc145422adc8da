//! Writes the list as JSON. docs/list-json.md is the schema.

use kernel_registry_format::LibraryRecord;
use serde_json::{Value, json};

use crate::binary::Contents;
use crate::binary::fatbins::HandedOver;
use crate::document::{Declaration, ImageKernel, hex};
use crate::kernels::undeclared::UndeclaredImage;

/// The version of the JSON. Every change that could break a reader raises it.
const SCHEMA: u32 = 1;

pub(super) fn document(binaries: &[Contents<'_>], linked: &[Option<UndeclaredImage<'_>>]) -> Value {
    let linked_kernels = |image: &UndeclaredImage<'_>| {
        let kernels = image.kernels().unwrap_or_default();
        kernels.iter().map(|kernel| image.describe_kernel(kernel)).collect::<Vec<ImageKernel>>()
    };
    json!({
        "schema": SCHEMA,
        "binaries": binaries.iter().map(binary).collect::<Value>(),
        "kernels": binaries.iter().flat_map(declarations).collect::<Vec<_>>(),
        "linked": linked.iter().flatten().flat_map(linked_kernels).collect::<Vec<_>>(),
    })
}

/// Returns the declared kernels of a binary.
fn declarations(binary: &Contents<'_>) -> Vec<Declaration> {
    binary.kernels.iter().map(|kernel| Declaration::new(binary, kernel)).collect()
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
