//! One side of the comparison: the kernels of a build, from its JSON. docs/show-json.md is the schema.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use kernel_registry_format::is_control;
use kernel_registry_image::Signature;
use serde::Deserialize;
use serde_json::Value;

use super::figure::{Amount, Figure};
use crate::failure::Failure;
use crate::mapped::Mapped;
use crate::show;
use crate::unread::{Unread, UnreadVariant};

/// The kernels of a build.
pub(super) struct Snapshot {
    /// The file's name as given.
    pub(super) file: String,
    pub(super) kernels: Vec<Kernel>,
    /// The length of all images together, as far as the JSON tells.
    pub(super) image_bytes: u64,
    pub(super) unread: Unread,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Kernel {
    /// Its Rust path. Kernels of an image alone have none.
    pub(super) path: Option<String>,
    pub(super) symbol: String,
    /// The declaration in Rust.
    #[serde(rename = "signature")]
    pub(super) rust: Option<String>,
    /// The declaration in C++.
    pub(super) cuda: Option<String>,
    /// Its name in C++, with template arguments and without parameters.
    #[serde(skip)]
    pub(super) cuda_name: Option<String>,
    /// Whether it shares that name with another kernel, which takes other parameters.
    #[serde(skip)]
    pub(super) is_overloaded: bool,
    pub(super) params: Vec<Param>,
    pub(super) variants: Vec<Variant>,
    /// The architectures of those variants of its image that cannot be read.
    #[serde(skip)]
    pub(super) unread: Rc<BTreeSet<String>>,
}

/// A parameter as a declaration or an image has it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Param {
    /// Its type in Rust.
    #[serde(rename = "type")]
    pub(super) ty: Option<String>,
    /// Where a kernel finds the length of a slice.
    pub(super) length: Option<String>,
    pub(super) size: u32,
    pub(super) element_size: Option<u32>,
    /// Its type in PTX.
    pub(super) ptx: Option<String>,
}

/// A kernel in one variant of its image.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "VariantEntry")]
pub(super) struct Variant {
    pub(super) kind: Kind,
    /// The architecture, such as `sm_90a`.
    pub(super) target: String,
    /// In the order of [`Figure::ALL`].
    pub(super) amounts: [Option<Amount>; Figure::ALL.len()],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Ptx,
    Cubin,
}

impl Kind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Kind::Ptx => "ptx",
            Kind::Cubin => "cubin",
        }
    }
}

impl Variant {
    /// `sm_90` or `sm_75 PTX`
    pub(super) fn name(&self) -> String {
        match self.kind {
            Kind::Cubin => self.target.clone(),
            Kind::Ptx => format!("{} PTX", self.target),
        }
    }
}

impl Kernel {
    /// Its path, or its name in C++, with parameters if it is overloaded, or its symbol.
    pub(super) fn name(&self) -> &str {
        let cuda = if self.is_overloaded { &self.cuda } else { &self.cuda_name };
        self.path.as_ref().or(cuda.as_ref()).unwrap_or(&self.symbol)
    }
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    images: Vec<Image>,
    kernels: Vec<KernelEntry>,
}

#[derive(Deserialize)]
struct KernelEntry {
    #[serde(flatten)]
    kernel: Kernel,
    #[serde(rename = "crate")]
    package: Option<String>,
    version: Option<String>,
    file: String,
    image: Option<ImageEntry>,
    image_bytes: Option<u64>,
}

/// An image, of a binary or alone.
#[derive(Deserialize)]
struct Image {
    #[serde(rename = "crate")]
    package: Option<String>,
    version: Option<String>,
    file: String,
    unread: Vec<UnreadVariant>,
}

/// What identifies an image: package, version and file.
type ImageKey = [String; 3];

#[derive(Deserialize)]
struct ImageEntry {
    file: String,
    bytes: u64,
}

#[derive(Deserialize)]
struct VariantEntry {
    kind: Kind,
    target: String,
    resources: Option<ResourcesEntry>,
    #[serde(default)]
    frames: FramesEntry,
    code_bytes: Option<u32>,
}

#[derive(Clone, Copy, Deserialize)]
struct ResourcesEntry {
    registers: u32,
    static_shared: u32,
    local_frame: u32,
    stack: Option<u32>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct FramesEntry {
    recursive: Option<u32>,
}

impl Snapshot {
    /// Reads a binary, an image, or the JSON of either.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = Mapped::open(path).map_err(|failure| in_words(failure, path))?;
        let is_json = bytes.trim_ascii_start().starts_with(b"{");
        let document = match is_json {
            true => document_of(&bytes, path)?,
            false => show::document(path).map_err(|failure| in_words(failure, path))?,
        };
        Snapshot::from_json(document, path)
    }

    fn from_json(mut document: Value, path: &Path) -> Result<Self, Failure> {
        let other = |error| Failure::OtherJson { path: path.to_owned(), error };
        make_printable(&mut document);
        let Document { images: read, kernels } = serde_json::from_value(document).map_err(other)?;
        if kernels.is_empty() {
            return Err(Failure::WithoutKernels { path: path.to_owned() });
        }
        let images: BTreeMap<_, u64> = kernels.iter().filter_map(KernelEntry::image).collect();
        let mut unread = Unread::default();
        let mut targets = BTreeMap::<ImageKey, Rc<BTreeSet<String>>>::new();
        for image in read {
            unread.add(&image.file, &image.unread);
            let of_image = image.unread.into_iter().map(|unread| unread.target).collect();
            targets.insert(key(image.package, image.version, image.file), Rc::new(of_image));
        }
        let kernel = |entry: KernelEntry| {
            let unread = entry.image().and_then(|(image, _)| targets.get(&image)).cloned();
            let cuda_name = Signature::of(&entry.kernel.symbol).map(|signature| signature.name);
            Kernel { cuda_name, unread: unread.unwrap_or_default(), ..entry.kernel }
        };
        Ok(Snapshot {
            file: printable(&path.display().to_string()),
            image_bytes: images.values().fold(0, |sum, bytes| sum.saturating_add(*bytes)),
            kernels: without_copies(with_overloads(kernels.into_iter().map(kernel).collect())),
            unread,
        })
    }
}

/// The kernels, with those marked that are overloads of each other.
fn with_overloads(mut kernels: Vec<Kernel>) -> Vec<Kernel> {
    let mut symbols: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Kernel { cuda_name, symbol, .. } in &kernels {
        if let Some(name) = cuda_name {
            symbols.entry(name.clone()).or_default().insert(symbol.clone());
        }
    }
    for kernel in &mut kernels {
        let symbols = kernel.cuda_name.as_ref().and_then(|name| symbols.get(name));
        kernel.is_overloaded = symbols.is_some_and(|symbols| symbols.len() > 1);
    }
    kernels
}

/// The kernels without those that are the same in several binaries of a package.
fn without_copies(mut kernels: Vec<Kernel>) -> Vec<Kernel> {
    kernels.sort_by(|a, b| (&a.path, &a.symbol).cmp(&(&b.path, &b.symbol)));
    kernels.dedup();
    kernels
}

fn document_of(bytes: &[u8], path: &Path) -> Result<Value, Failure> {
    let other = |error| Failure::OtherJson { path: path.to_owned(), error };
    let document: Value = serde_json::from_slice(bytes).map_err(other)?;
    match document["schema"].as_u64() {
        Some(schema) if schema != u64::from(show::json::SCHEMA) => {
            Err(Failure::OtherSchema { path: path.to_owned(), schema, known: show::json::SCHEMA })
        }
        Some(_) => Ok(document),
        None => Err(Failure::NothingToCompare { path: path.to_owned() }),
    }
}

/// Replaces the error of a file that `diff` cannot compare by one that names the kinds of files that it can.
fn in_words(failure: Failure, path: &Path) -> Failure {
    match failure {
        Failure::NotABinary { .. } => Failure::NothingToCompare { path: path.to_owned() },
        failure => failure,
    }
}

impl KernelEntry {
    /// What identifies its image, and the image's length.
    fn image(&self) -> Option<(ImageKey, u64)> {
        match (&self.image, self.image_bytes) {
            (Some(image), _) => {
                Some((key(self.package.clone(), self.version.clone(), image.file.clone()), image.bytes))
            }
            (None, Some(bytes)) => Some((key(None, None, self.file.clone()), bytes)),
            (None, None) => None,
        }
    }
}

fn key(package: Option<String>, version: Option<String>, file: String) -> ImageKey {
    [package.unwrap_or_default(), version.unwrap_or_default(), file]
}

impl From<VariantEntry> for Variant {
    fn from(entry: VariantEntry) -> Self {
        let of = |amount: fn(ResourcesEntry) -> u32| entry.resources.map(amount).map(Amount::exactly);
        let stack = entry.resources.and_then(|resources| resources.stack);
        let amount = |figure| match figure {
            Figure::Registers => of(|resources| resources.registers),
            Figure::Frame => of(|resources| resources.local_frame),
            Figure::Stack => entry.frames.recursive.map(Amount::at_least).or(stack.map(Amount::exactly)),
            Figure::Shared => of(|resources| resources.static_shared),
            Figure::Code => entry.code_bytes.map(Amount::exactly),
        };
        Variant { kind: entry.kind, target: entry.target, amounts: Figure::ALL.map(amount) }
    }
}

/// The text without characters that would break a line, or mean something to a terminal.
fn printable(text: &str) -> String {
    text.replace(is_control, "\u{fffd}")
}

/// Makes all texts of a document printable.
fn make_printable(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable(text),
        Value::Array(values) => values.iter_mut().for_each(make_printable),
        Value::Object(members) => members.values_mut().for_each(make_printable),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kernels_and_images_are_counted_once() {
        let kernel = |symbol: &str, file: &str| {
            json!({
                "path": symbol, "symbol": symbol, "crate": "a", "version": "1.0.0", "file": "src/lib.rs", "params": [],
                "image": { "file": file, "bytes": 100 }, "variants": [],
            })
        };
        let [f, g, h] =
            [("f", "x.ptx"), ("g", "x.ptx"), ("h", "y.ptx")].map(|(symbol, file)| kernel(symbol, file));
        // The last one is in two binaries.
        let document = json!({ "kernels": [f, g, h, h] });
        let snapshot = Snapshot::from_json(document, Path::new("x.json")).unwrap();
        assert_eq!((snapshot.image_bytes, snapshot.kernels.len()), (200, 3));
    }

    #[test]
    fn a_stack_is_known_a_least_or_unknown() {
        let stack = |variant: Value| {
            let entry: VariantEntry = serde_json::from_value(variant).unwrap();
            Variant::from(entry).amounts[2]
        };
        let resources = json!({ "registers": 8, "static_shared": 0, "local_frame": 16, "stack": 24 });
        assert_eq!(
            stack(json!({ "kind": "cubin", "target": "sm_90", "resources": resources })),
            Some(Amount::exactly(24))
        );
        let recursive = json!({ "registers": 8, "static_shared": 0, "local_frame": 16, "stack": null });
        let frames = json!({ "recursive": 8240, "launched": null });
        assert_eq!(
            stack(json!({ "kind": "cubin", "target": "sm_90", "resources": recursive, "frames": frames })),
            Some(Amount::at_least(8240))
        );
        assert_eq!(stack(json!({ "kind": "ptx", "target": "sm_90", "resources": null })), None);
    }

    #[test]
    fn only_overloads_are_named_with_their_parameters() {
        let kernel = |symbol: &str, cuda: Option<&str>| json!({ "symbol": symbol, "cuda": cuda, "file": "x.ptx", "params": [], "variants": [] });
        let kernels = [
            kernel("_Z1ff", Some("f(float)")),
            kernel("_Z1fi", Some("f(int)")),
            kernel("_Z1gi", Some("g(int)")),
            kernel("plain", None),
        ];
        let document = json!({ "kernels": kernels });
        let snapshot = Snapshot::from_json(document, Path::new("x.json")).unwrap();
        let names: Vec<_> = snapshot.kernels.iter().map(Kernel::name).collect();
        assert_eq!(names, ["f(float)", "f(int)", "g", "plain"]);
    }

    #[test]
    fn names_are_on_one_line() {
        assert_eq!(printable("a\n\u{1b}[31mb"), "a\u{fffd}\u{fffd}[31mb");
    }
}
