//! Writes kernels as JSON. docs/show-json.md is the schema: change it first.

use std::io::{self, Write};

use kernel_registry_image::{Entry, Variant, VariantKind};
use serde::Serialize;
use serde_json::Value;

use crate::list::json::{FramesEntry, KernelEntry};
use crate::show::shown::Shown;
use crate::show::summary::{Counts, ImageEntry, Summary, kind};

/// Raised by every change that could break a reader.
pub(crate) const SCHEMA: u32 = 2;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    schema: u32,
    summary: Counts,
    images: &'a [ImageEntry<'a>],
    kernels: Vec<ShownEntry<'a>>,
}

#[derive(Serialize)]
struct ShownEntry<'a> {
    #[serde(flatten)]
    kernel: KernelEntry<'a>,
    cuda: Option<String>,
    ptx_types: Option<Vec<&'a str>>,
    image_kind: Option<&'static str>,
    certain: bool,
    variants: Vec<VariantEntry<'a>>,
    partial: Option<String>,
}

#[derive(Serialize)]
pub(super) struct VariantEntry<'a> {
    kind: &'static str,
    target: String,
    ptx: Option<String>,
    toolkit: Option<&'a str>,
    resources: Option<ResourcesEntry>,
    limits: LimitsEntry,
    needs: Vec<&'static str>,
    frames: FramesEntry,
    code_bytes: u32,
}

#[derive(Serialize)]
struct ResourcesEntry {
    registers: u32,
    static_shared: u32,
    reserved_shared: u32,
    constants: u32,
    local_frame: u32,
    stack: Option<u32>,
}

#[derive(Serialize)]
struct LimitsEntry {
    max_threads: Option<u32>,
    required_threads: Option<[u32; 3]>,
    min_blocks: Option<u32>,
    cluster: Option<[u32; 3]>,
    max_cluster: Option<u32>,
}

pub(super) fn write(kernels: &[Shown<'_>], summary: &Summary<'_>, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document::of(kernels, summary))?;
    writeln!(out)
}

/// A document as a reader of the JSON gets it.
pub(super) fn value(document: &impl Serialize) -> Value {
    // Only keys that are no text, and numbers that are none, could fail.
    serde_json::to_value(document).unwrap_or_default()
}

impl<'a> Document<'a> {
    pub(super) fn of(kernels: &[Shown<'a>], summary: &'a Summary<'a>) -> Self {
        Document {
            schema: SCHEMA,
            summary: summary.counts(kernels.len()),
            images: &summary.images,
            kernels: kernels.iter().map(ShownEntry::of).collect(),
        }
    }
}

impl<'a> ShownEntry<'a> {
    fn of(shown: &Shown<'a>) -> Self {
        let found = shown.found();
        let image = found.and_then(|found| found.image.as_ref());
        ShownEntry {
            kernel: KernelEntry::of(shown.binary, &shown.kernel),
            cuda: shown.cuda(),
            ptx_types: shown.ptx_types(),
            image_kind: image.map(|image| kind(image.kind)),
            certain: found.is_some_and(|found| found.is_certain),
            partial: shown.partial().map(|partial| partial.to_string()),
            variants: shown.variants().into_iter().map(VariantEntry::of).collect(),
        }
    }
}

impl<'a> VariantEntry<'a> {
    pub(super) fn of((variant, entry): (&'a Variant, &'a Entry)) -> Self {
        let (kind, ptx) = match variant.kind {
            VariantKind::Ptx { version: (major, minor) } => ("ptx", Some(format!("{major}.{minor}"))),
            VariantKind::Cubin => ("cubin", None),
        };
        let limits = &entry.limits;
        VariantEntry {
            kind,
            target: variant.target.to_string(),
            ptx,
            toolkit: variant.toolkit.as_deref(),
            resources: entry.resources.map(|resources| ResourcesEntry {
                registers: resources.registers,
                static_shared: resources.static_shared,
                reserved_shared: resources.reserved_shared,
                constants: resources.constants,
                local_frame: resources.local_frame,
                stack: resources.stack,
            }),
            limits: LimitsEntry {
                max_threads: limits.max_threads,
                required_threads: limits.required_threads,
                min_blocks: limits.min_blocks,
                cluster: limits.cluster,
                max_cluster: limits.max_cluster,
            },
            needs: entry.needs.words().collect(),
            frames: FramesEntry::of(entry.frames),
            code_bytes: entry.code_size,
        }
    }
}
