//! Finds and reads the image of a declaration, which is the file with the kernel's code.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;
use std::{env, fs, io};

use kernel_registry_format::index;
use kernel_registry_image::Error;
use kernel_registry_image::source::CSignature;

use super::arguments::{Arguments, Code};
use super::declaration::Name;
use crate::errors::Errors;

/// The prefix of declared paths that are relative to the build script's output folder.
const OUT_DIR: &str = "$OUT_DIR/";

/// The file that a declaration names, and its content.
pub(crate) struct Image {
    /// The path as declared.
    pub(crate) file: String,
    /// `None` if there was no CUDA compiler and the build continues without an image, or if nvcc links the
    /// kernel.
    pub(crate) content: Option<Content>,
    /// Whether nvcc links the kernel, so that its code is only in the program.
    pub(crate) is_linked: bool,
}

pub(crate) struct Content {
    /// The absolute path, for `include_bytes!`, which also makes cargo notice when the image changes.
    pub(crate) path: String,
    pub(crate) len: u64,
    pub(crate) facts: Rc<kernel_registry_image::Image>,
}

impl Image {
    pub(crate) fn load(args: &Arguments, name: &Name, errors: &mut Errors) -> Option<Image> {
        let Some(code) = &args.code else {
            let function = &name.function;
            errors.at(
                function,
                format!(
                    "where is the code of `{function}`? say `file = \"cuda/x.cu\"` or `image = \"x.ptx\"`, or `linked` if nvcc links it"
                ),
            );
            return None;
        };
        let (path, find): (_, fn(&str) -> _) = match code {
            Code::File(argument) => (argument.value.as_ref()?, read_source_image),
            Code::Image(argument) => (argument.value.as_ref()?, compiled),
            Code::Linked => {
                let file = "code that nvcc links".to_owned();
                return Some(Image { file, content: None, is_linked: true });
            }
        };
        find(&path.value()).map_err(|message| errors.at(path, message)).ok()
    }
}

/// Reads the image of `image = ..`. `declared` is relative to the folder of Cargo.toml.
fn compiled(declared: &str) -> Result<Image, String> {
    let path = locate(declared)?;
    if path.extension().is_some_and(|extension| extension == "cu") {
        return Err(format!(
            "`{declared}` is CUDA source: write `file = {declared:?}`; `image` takes what a compiler made of it"
        ));
    }
    read(declared, path, Vec::new(), "", "")
}

/// Reads the image of `file = ..`, using the index that kernel-registry-build has written.
fn read_source_image(declared: &str) -> Result<Image, String> {
    let source = locate(declared)?;
    fs::metadata(&source).map_err(|error| unreadable(declared, &source, &error))?;
    let out = env::var_os("OUT_DIR").ok_or_else(|| without_build_script(declared))?;
    let folder = Path::new(&out).join(index::FOLDER);
    let text = fs::read_to_string(folder.join(index::FILE)).map_err(|_| not_compiled(declared))?;
    let is_announced = folder.join(index::ANNOUNCED).exists();
    if is_announced && env::var_os(index::VARIABLE).is_none() {
        return Err(not_compiled(declared));
    }
    let found = index::find(&text, declared);
    let entry = found
        .map_err(|error| format!("{error}: use the same version"))?
        .ok_or_else(|| unlisted(declared, &text))?;
    match entry.image {
        Some(image) => {
            let signatures = entry.each_signature().filter_map(CSignature::parse).collect();
            read(declared, folder.join(image), signatures, entry.structs(), entry.param_names())
        }
        // The build script has printed why there is no image.
        None => Ok(Image { file: declared.to_owned(), content: None, is_linked: false }),
    }
}

/// Returns the error for a package without a build script.
fn without_build_script(declared: &str) -> String {
    format!(
        "`{declared}` has not been compiled: this package has no build script; create `build.rs` next to Cargo.toml with \
         `fn main() {{ kernel_registry_build::compile(); }}`, and add `kernel-registry-build` to `[build-dependencies]`, \
         from where `kernel-registry` comes; or name what something else made of it with `image = \"..\"`"
    )
}

/// Returns the error for a build script that compiles nothing, although an earlier build may have.
fn not_compiled(declared: &str) -> String {
    format!(
        "`{declared}` has not been compiled: call `kernel_registry_build::compile()` in the build script, \
         or name what something else made of it with `image = \"..\"`"
    )
}

/// Returns the error for a source that the build script doesn't compile, although it compiles others.
fn unlisted(declared: &str, index: &str) -> String {
    let compiled: Vec<&str> = index::entries(index).flatten().map(|entry| entry.source).collect();
    let more = if compiled.len() > LISTED { ", .." } else { "" };
    let listed = compiled[..compiled.len().min(LISTED)].join(", ");
    format!(
        "`{declared}` is not among the sources that the build script compiles ({listed}{more}): add \
         `.file({declared:?})` to its list, or if it has none, move the file into `cuda/`"
    )
}

/// The most sources to name in an error.
const LISTED: usize = 4;

/// Reads an image. The other arguments come from the index: the signatures of its `extern "C"` kernels, the
/// structs in its source, and the names of its kernels' parameters.
fn read(
    declared: &str,
    path: PathBuf,
    signatures: Vec<CSignature>,
    structs: &str,
    names: &str,
) -> Result<Image, String> {
    let metadata = fs::metadata(&path).map_err(|error| unreadable(declared, &path, &error))?;
    let Some(name) = path.to_str().map(str::to_owned) else {
        return Err("the folder of this package has a name that is not UTF-8".to_owned());
    };
    let (len, modified) = (metadata.len(), metadata.modified().ok());
    let (structs, names) = (structs.to_owned(), names.to_owned());
    let version = Version { path, len, modified, signatures, structs, names };
    let facts = version.facts(declared)?;
    let content = Content { path: name, len: version.len, facts };
    Ok(Image { file: declared.to_owned(), content: Some(content), is_linked: false })
}

/// The key of the cache of images: one version of an image file.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Version {
    path: PathBuf,
    len: u64,
    modified: Option<SystemTime>,
    /// The signatures of the image's `extern "C"` kernels.
    signatures: Vec<CSignature>,
    /// The structs that the source defines.
    structs: String,
    /// The names of the parameters of the source's kernels.
    names: String,
}

impl Version {
    /// Reads the image. Cached, because many kernels share an image.
    fn facts(&self, declared: &str) -> Result<Rc<kernel_registry_image::Image>, String> {
        thread_local! {
            static KNOWN: RefCell<HashMap<Version, Rc<kernel_registry_image::Image>>> = RefCell::default();
        }
        if let Some(known) = KNOWN.with_borrow(|known| known.get(self).cloned()) {
            return Ok(known);
        }
        let bytes = fs::read(&self.path).map_err(|error| unreadable(declared, &self.path, &error))?;
        let mut facts = kernel_registry_image::read(&bytes).map_err(|error| match error {
            Error::NotAnImage => format!("`{declared}` is neither PTX, nor a cubin, nor a fatbin"),
            error @ (Error::Malformed { .. } | Error::Truncated { .. }) => format!(
                "`{declared}` cannot be read: {error}; compile it again, and if its CUDA toolkit is newer than this \
                 kernel-registry, update that"
            ),
            error => format!("`{declared}` cannot be read: {error}"),
        })?;
        facts.add_c_signatures(&self.signatures);
        facts.add_structs(&self.structs);
        facts.add_param_names(&self.names);
        let facts = Rc::new(facts);
        KNOWN.with_borrow_mut(|known| known.insert(self.clone(), facts.clone()));
        Ok(facts)
    }
}

fn locate(declared: &str) -> Result<PathBuf, String> {
    if declared.is_empty() {
        return Err("the path is empty".to_owned());
    }
    if let Some(generated) = declared.strip_prefix(OUT_DIR) {
        let out = env::var_os("OUT_DIR").ok_or("there is no `$OUT_DIR`: this package has no build script")?;
        return Ok(Path::new(&out).join(generated));
    }
    if Path::new(declared).is_absolute() {
        return Err(format!(
            "`{declared}` exists on this machine only: give the path relative to the folder of Cargo.toml, \
             or `{OUT_DIR}..` for what a build script makes"
        ));
    }
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .ok_or("`CARGO_MANIFEST_DIR` is not set, so that the image cannot be found: build with cargo")?;
    Ok(Path::new(&package).join(declared))
}

fn unreadable(declared: &str, path: &Path, error: &io::Error) -> String {
    let folder = path.parent().unwrap_or(path);
    if error.kind() != io::ErrorKind::NotFound {
        return format!("`{declared}` cannot be read: {error}");
    }
    let mut there: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| Path::new(name).extension() == path.extension())
        .collect();
    there.sort();
    let hint = match there.as_slice() {
        [] => String::new(),
        names => format!("; there is {}", names.join(", ")),
    };
    format!("no file `{declared}`: paths start at the folder of Cargo.toml{hint}")
}
