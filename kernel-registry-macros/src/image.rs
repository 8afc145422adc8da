//! Finds the file that holds a kernel's code, and says in words why it cannot be that one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs, io};

use crate::model::Image;

/// In front of a path: the folder in which the package's build script leaves its files.
const OUT_DIR: &str = "$OUT_DIR/";

/// Looks up a compiled image: `declared` is relative to the folder of Cargo.toml.
pub(crate) fn compiled(declared: &str) -> Result<Image, String> {
    let path = locate(declared)?;
    if path.extension().is_some_and(|extension| extension == "cu") {
        return Err(format!("`{declared}` is CUDA source: `image` takes what a compiler made of it"));
    }
    let metadata = fs::metadata(&path).map_err(|error| unreadable(declared, &path, &error))?;
    let Some(name) = path.to_str().map(str::to_owned) else {
        return Err("the folder of this package has a name that is not UTF-8".to_owned());
    };
    let version = Version { path, len: metadata.len(), modified: metadata.modified().ok() };
    if !version.is_image().map_err(|error| unreadable(declared, &version.path, &error))? {
        return Err(format!("`{declared}` is neither PTX, nor a cubin, nor a fatbin"));
    }
    Ok(Image { file: declared.to_owned(), path: name, len: version.len })
}

/// One state of a file.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Version {
    path: PathBuf,
    len: u64,
    modified: Option<SystemTime>,
}

impl Version {
    /// Whether it is an image. Many kernels have the same, which is then read only once.
    fn is_image(&self) -> io::Result<bool> {
        thread_local! {
            static KNOWN: RefCell<HashMap<Version, bool>> = RefCell::default();
        }
        if let Some(known) = KNOWN.with_borrow(|known| known.get(self).copied()) {
            return Ok(known);
        }
        let is_image = is_image(&fs::read(&self.path)?);
        KNOWN.with_borrow_mut(|known| known.insert(self.clone(), is_image));
        Ok(is_image)
    }
}

/// Looks up what the build step made of a source file.
pub(crate) fn of_source(declared: &str) -> Result<Image, String> {
    let path = locate(declared)?;
    fs::metadata(&path).map_err(|error| unreadable(declared, &path, &error))?;
    Err(format!(
        "`{declared}` has not been compiled: this version does not compile CUDA yet; \
         compile it, and name the result with `image = \"..\"`"
    ))
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

/// PTX is text that states its version; cubins are ELF; a fatbin has its own magic number.
fn is_image(bytes: &[u8]) -> bool {
    const ELF: &[u8] = b"\x7fELF";
    const FATBIN: &[u8] = &0xba55_ed50_u32.to_le_bytes();
    let is_ptx = || std::str::from_utf8(bytes).is_ok_and(|text| text.contains(".version"));
    bytes.starts_with(ELF) || bytes.starts_with(FATBIN) || is_ptx()
}
