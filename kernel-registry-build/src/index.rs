//! Writes the index for the macro, and chooses the names of images.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use kernel_registry_format::index::{self, Entry};

use crate::fingerprint;
use crate::{Result, files};

/// Adds entries to this folder's index. Each process starts a new index.
pub(crate) fn write<'a>(folder: &Path, entries: impl IntoIterator<Item = Entry<'a>>) -> Result<()> {
    // A build script may run several builds, each with its own files and options.
    static WRITTEN: Mutex<BTreeMap<PathBuf, BTreeMap<String, String>>> = Mutex::new(BTreeMap::new());
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = written.entry(folder.to_owned()).or_default();
    for entry in entries {
        lines.insert(entry.source.to_owned(), entry.to_string());
    }
    let text: String = lines.values().map(String::as_str).collect();
    files::replace(&folder.join(index::FILE), text.as_bytes())
}

/// Returns the name of a source's image: `cuda__blas1.cu.fatbin` for `cuda/blas1.cu`.
pub(crate) fn image_name(source: &str, extension: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let mut name: String = source.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    // Another source might map to the same name.
    let ambiguous = name != source || source.contains("__") || source.contains("_/") || source.contains("/_");
    name = name.replace('/', "__");
    if ambiguous {
        let hash = fingerprint::hash(source.as_bytes());
        name = format!("{name}.{}", &hash[..8]);
    }
    format!("{name}.{extension}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn images_have_names_of_their_own() {
        assert_eq!(image_name("cuda/blas1.cu", "fatbin"), "cuda__blas1.cu.fatbin");
        assert_eq!(image_name("cuda/a/b_c.cu", "ptx"), "cuda__a__b_c.cu.ptx");
        let others =
            ["cuda/a__b.cu", "cuda/a/b.cu", "cuda/a_/b.cu", "cuda/a/_b.cu", "cuda/a b.cu", "cuda/a$b.cu"];
        let mut names: Vec<String> = others.iter().map(|source| image_name(source, "ptx")).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), others.len());
    }

    #[test]
    fn an_index_grows_in_a_process_and_is_not_touched_without_need() {
        let folder = tempfile::tempdir().unwrap();
        let with =
            Entry { source: "b.cu", image: Some("b.cu.fatbin"), origin: "nvcc\n13", signatures: "k(int)" };
        let without = Entry { source: "a.cu", image: None, origin: "nvcc\n13", signatures: "" };
        let index = folder.path().join(index::FILE);
        write(folder.path(), [with]).unwrap();
        write(folder.path(), [without]).unwrap();
        assert_eq!(
            fs::read_to_string(&index).unwrap(),
            "a.cu\t-\tnvcc 13\nb.cu\tb.cu.fatbin\tnvcc 13\tk(int)\n"
        );
        let before = fs::metadata(&index).unwrap().modified().unwrap();
        write(folder.path(), [without]).unwrap();
        assert_eq!(fs::metadata(&index).unwrap().modified().unwrap(), before);
    }
}
