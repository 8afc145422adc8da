//! Which headers a source includes, read from its text: NVRTC does not tell.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::source::tidy;

/// What a source and its headers include, whatever conditions they put around that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Includes {
    /// The source and the headers that were found, in the order of their discovery.
    pub(crate) files: Vec<PathBuf>,
    /// `<names>` that were not found.
    pub(crate) foreign: BTreeSet<String>,
}

impl Includes {
    /// Follows the source's includes, through its own folder and these.
    pub(crate) fn of(source: &Path, folders: &[PathBuf]) -> Self {
        let mut includes = Includes { files: vec![tidy(source)], foreign: BTreeSet::new() };
        let mut next = 0;
        while let Some(file) = includes.files.get(next).cloned() {
            next += 1;
            // What cannot be read cannot be included, and the compiler will say so.
            let text = fs::read(&file).unwrap_or_default();
            for (name, quoted) in names(&String::from_utf8_lossy(&text)) {
                includes.add(&file, name, quoted, folders);
            }
        }
        includes
    }

    fn add(&mut self, by: &Path, name: &str, quoted: bool, folders: &[PathBuf]) {
        let beside = by.parent().filter(|_| quoted);
        let candidates = beside.into_iter().chain(folders.iter().map(PathBuf::as_path));
        match candidates.map(|folder| tidy(&folder.join(name))).find(|path| path.is_file()) {
            Some(path) if !self.files.contains(&path) => self.files.push(path),
            Some(_) => {}
            None if quoted => {}
            None => drop(self.foreign.insert(name.to_owned())),
        }
    }
}

/// The names in `#include "name"` and `#include <name>`, and whether they are quoted.
fn names(text: &str) -> impl Iterator<Item = (&str, bool)> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let (end, quoted) = match rest.chars().next()? {
            '"' => ('"', true),
            '<' => ('>', false),
            _ => return None,
        };
        rest[1..].split_once(end).map(|(name, _)| (name, quoted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        };
        write(
            "cuda/a.cu",
            "#include \"b.cuh\"\r\n  # include <lib.h>\n#include <cassert>\n#include \"gone.h\"\n",
        );
        write("cuda/b.cuh", "#include \"../shared/c.cuh\"\n#include \"b.cuh\"\n// #include <commented>\n");
        write("shared/c.cuh", "#include MACRO\n#include\n#include <\n");
        write("include/lib.h", "");
        let includes = Includes::of(&at("cuda/a.cu"), &[at("include")]);
        assert_eq!(includes.files, ["cuda/a.cu", "cuda/b.cuh", "include/lib.h", "shared/c.cuh"].map(at));
        assert_eq!(includes.foreign, BTreeSet::from(["cassert".to_owned()]));
    }
}
