//! One side of the comparison: the kernels of a build, from its document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use kernel_registry_command::{Failure as Shared, Mapped};
use kernel_registry_format::is_control;
use kernel_registry_image::Signature;
use serde_json::Value;

use crate::document::unread::Unread;
use crate::document::{self, Declaration, Document, ImageKernel, SCHEMA, Variant};
use crate::failure::Failure;
use crate::kernels;

/// The kernels of a build.
pub(super) struct Snapshot {
    /// The file's name as given.
    pub(super) file: String,
    pub(super) kernels: Vec<Kernel>,
    /// The length of all images together, as far as the document tells.
    pub(super) image_bytes: u64,
    pub(super) unread: Unread,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kernel {
    /// The kernel's Rust path. `None` for a kernel that only an image has.
    pub(super) path: Option<String>,
    pub(super) symbol: String,
    /// The declaration in Rust.
    pub(super) rust: Option<String>,
    /// The declaration in C++.
    pub(super) cuda: Option<String>,
    /// The kernel's name in C++, with template arguments and without parameters.
    pub(super) cuda_name: Option<String>,
    /// Whether another kernel has the same C++ name, with other parameters.
    pub(super) is_overloaded: bool,
    pub(super) params: Vec<Param>,
    pub(super) variants: Vec<Variant>,
    /// The architectures of those variants of its image that cannot be read.
    pub(super) unread: Rc<BTreeSet<String>>,
}

/// A parameter as a declaration or an image has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Param {
    /// The type in Rust.
    pub(super) ty: Option<String>,
    /// Where a kernel finds the length of a slice.
    pub(super) length: Option<String>,
    pub(super) size: u32,
    pub(super) element_size: Option<u32>,
    /// The type in PTX.
    pub(super) ptx: Option<String>,
}

impl Kernel {
    /// Returns the kernel's path, or else its C++ name (with parameters if the kernel is overloaded), or else its symbol.
    pub(super) fn name(&self) -> &str {
        let cuda = if self.is_overloaded { &self.cuda } else { &self.cuda_name };
        self.path.as_ref().or(cuda.as_ref()).unwrap_or(&self.symbol)
    }
}

/// The key of an image: package, version and file.
type ImageKey = [String; 3];

impl Snapshot {
    /// Reads a binary, an image, or the JSON of either.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = Mapped::open(path).map_err(|failure| in_words(failure.into(), path))?;
        let is_json = bytes.trim_ascii_start().starts_with(b"{");
        let document = match is_json {
            true => read_json(&bytes, path)?,
            false => kernels::describe_file(path).map_err(|failure| in_words(failure, path))?,
        };
        Snapshot::from_document(document, path)
    }

    fn from_document(document: Document, path: &Path) -> Result<Self, Failure> {
        if document.kernels.is_empty() {
            return Err(Failure::WithoutKernels { path: path.to_owned() });
        }
        let unread = document.unread();
        let mut targets = BTreeMap::<ImageKey, Rc<BTreeSet<String>>>::new();
        for image in document.images {
            let of_image = image.unread.into_iter().map(|unread| unread.target).collect();
            targets.insert(key(image.package, image.version, image.file), Rc::new(of_image));
        }
        let mut images = BTreeMap::new();
        let kernel = |described: document::Kernel| {
            let image = image(&described);
            let unread = image.as_ref().and_then(|(image, _)| targets.get(image)).cloned();
            images.extend(image);
            Kernel { unread: unread.unwrap_or_default(), ..Kernel::from(described) }
        };
        let kernels = document.kernels.into_iter().map(kernel).collect();
        Ok(Snapshot {
            file: printable(&path.display().to_string()),
            kernels: without_copies(with_overloads(kernels)),
            image_bytes: images.into_values().fold(0, u64::saturating_add),
            unread,
        })
    }
}

/// Returns the key of a kernel's image, and the image's length.
fn image(kernel: &document::Kernel) -> Option<(ImageKey, u64)> {
    match kernel {
        document::Kernel::Declared(kernel) => {
            let Declaration { place, image, .. } = &kernel.declaration;
            let image = image.as_ref()?;
            Some((key(place.package.clone(), place.version.clone(), image.file.clone()), image.bytes))
        }
        document::Kernel::Undeclared(kernel) => {
            Some((key(None, None, kernel.file.clone()), kernel.image_bytes?))
        }
    }
}

fn key(package: Option<String>, version: Option<String>, file: String) -> ImageKey {
    [package.unwrap_or_default(), version.unwrap_or_default(), file]
}

/// Returns the kernels, after marking those that are overloads of each other.
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

/// Returns the kernels without duplicates: several binaries of a package can have the same kernel.
fn without_copies(mut kernels: Vec<Kernel>) -> Vec<Kernel> {
    kernels.sort_by(|a, b| (&a.path, &a.symbol).cmp(&(&b.path, &b.symbol)));
    kernels.dedup();
    kernels
}

fn read_json(bytes: &[u8], path: &Path) -> Result<Document, Failure> {
    let other = |error| Failure::OtherJson { path: path.to_owned(), error };
    let mut document: Value = serde_json::from_slice(bytes).map_err(other)?;
    match document["schema"].as_u64() {
        Some(schema) if schema != u64::from(SCHEMA) => {
            Err(Failure::OtherSchema { path: path.to_owned(), schema, known: SCHEMA })
        }
        Some(_) => {
            make_printable(&mut document);
            serde_json::from_value(document).map_err(other)
        }
        None => Err(Failure::NothingToCompare { path: path.to_owned() }),
    }
}

/// Replaces the error of a file that `diff` cannot compare by one that names the kinds of files that it can.
fn in_words(failure: Failure, path: &Path) -> Failure {
    match failure {
        Failure::Shared(Shared::NotABinary { .. }) => Failure::NothingToCompare { path: path.to_owned() },
        failure => failure,
    }
}

impl From<document::Kernel> for Kernel {
    fn from(kernel: document::Kernel) -> Self {
        let cuda_name = |symbol: &str| Signature::parse(symbol).map(|signature| signature.name);
        match kernel {
            document::Kernel::Declared(kernel) => {
                let Declaration { place, symbol, signature, params, .. } = kernel.declaration;
                Kernel {
                    path: Some(place.path),
                    cuda_name: cuda_name(&symbol),
                    symbol,
                    rust: Some(signature).filter(|signature| !signature.is_empty()),
                    cuda: kernel.cuda,
                    params: params.into_iter().map(Param::from).collect(),
                    variants: kernel.variants,
                    ..Kernel::default()
                }
            }
            document::Kernel::Undeclared(ImageKernel { symbol, cuda, params, variants, .. }) => {
                let param = |param: document::ImageParam| Param {
                    size: param.size,
                    ptx: param.ptx,
                    ..Param::default()
                };
                Kernel {
                    cuda_name: cuda_name(&symbol),
                    symbol,
                    cuda,
                    params: params.into_iter().map(param).collect(),
                    variants,
                    ..Kernel::default()
                }
            }
        }
    }
}

impl From<document::Param> for Param {
    fn from(param: document::Param) -> Self {
        let document::Param { ty, length, size, element_size, .. } = param;
        Param { ty: Some(ty), length, size, element_size, ptx: None }
    }
}

/// Replaces characters that would break a line, or that a terminal would obey.
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
        // The last kernel is in two binaries.
        let document = json!({ "kernels": [f, g, h, h] });
        let document = serde_json::from_value(document).unwrap();
        let snapshot = Snapshot::from_document(document, Path::new("x.json")).unwrap();
        assert_eq!((snapshot.image_bytes, snapshot.kernels.len()), (200, 3));
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
        let document = serde_json::from_value(document).unwrap();
        let snapshot = Snapshot::from_document(document, Path::new("x.json")).unwrap();
        let names: Vec<_> = snapshot.kernels.iter().map(Kernel::name).collect();
        assert_eq!(names, ["f(float)", "f(int)", "g", "plain"]);
    }

    #[test]
    fn names_are_on_one_line() {
        assert_eq!(printable("a\n\u{1b}[31mb"), "a\u{fffd}\u{fffd}[31mb");
    }
}
