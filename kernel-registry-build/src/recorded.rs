//! Records the builds of a build script in a file next to the index, so that `cargo kernels prebuild` can
//! repeat them.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use kernel_registry_format::index::FOLDER;

use crate::{Build, Error, Result, files};

/// The name of the file, in the folder of the index.
const FILE: &str = "builds";
/// The version of the format, raised when the file's meaning changes.
const VERSION: &str = "kernel-registry builds 1";

impl Build {
    /// Returns the builds of a build script, in their order, from its `OUT_DIR`: sources, architectures and
    /// compiler options, without environment variables. The list is empty if the build script does not use
    /// this crate.
    ///
    /// # Errors
    ///
    /// Fails if the build script's file can't be read, or if another version of this crate wrote it.
    pub fn recorded(out_dir: impl AsRef<Path>) -> Result<Vec<Build>> {
        let path = out_dir.as_ref().join(FOLDER).join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => parse(&text).ok_or(Error::OtherVersion { path }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Error::file("read", path)(error)),
        }
    }
}

/// Adds a build to this folder's file. Each process starts a new file.
pub(crate) fn write(folder: &Path, build: &Build) -> Result<()> {
    static WRITTEN: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    let text = written.entry(folder.to_owned()).or_insert_with(|| format!("{VERSION}\n"));
    text.push_str(&print(build));
    files::replace(&folder.join(FILE), text.as_bytes())
}

fn print(build: &Build) -> String {
    let mut text = "build\n".to_owned();
    let mut line = |key: &str, value: &str| {
        let value = value.replace('\\', "\\\\").replace('\n', "\\n");
        text.push_str(&format!("{key} {value}\n"));
    };
    let path = |path: &Path| path.to_string_lossy().into_owned();
    build.files.iter().for_each(|file| line("file", &path(file)));
    build.archs.iter().for_each(|arch| line("arch", arch));
    build.ptx.iter().for_each(|arch| line("ptx", arch));
    for (source, archs, ptx) in &build.special {
        line("for", &path(source));
        archs.iter().for_each(|arch| line("arch_for", arch));
        ptx.iter().for_each(|arch| line("ptx_for", arch));
    }
    let options = &build.options;
    options.std.iter().for_each(|std| line("std", std));
    options.includes.iter().for_each(|folder| line("include", &path(folder)));
    options.defines.iter().for_each(|define| line("define", define));
    options.flags.iter().for_each(|flag| line("flag", flag));
    text
}

fn parse(text: &str) -> Option<Vec<Build>> {
    let mut builds: Vec<Build> = Vec::new();
    let mut lines = text.lines();
    if lines.next()? != VERSION {
        return None;
    }
    for line in lines {
        if line == "build" {
            builds.push(Build::new().env_clear());
            continue;
        }
        let (key, value) = line.split_once(' ')?;
        let value = unescape(value);
        let build = builds.last_mut()?;
        match key {
            "file" => build.files.push(value.into()),
            "arch" => build.archs.push(value),
            "ptx" => build.ptx.push(value),
            "for" => build.special.push((value.into(), Vec::new(), Vec::new())),
            "arch_for" => build.special.last_mut()?.1.push(value),
            "ptx_for" => build.special.last_mut()?.2.push(value),
            "std" => build.options.std = Some(value),
            "include" => build.options.includes.push(value.into()),
            "define" => build.options.defines.push(value),
            "flag" => build.options.flags.push(value),
            _ => return None,
        }
    }
    Some(builds)
}

fn unescape(value: &str) -> String {
    let mut chars = value.chars();
    let mut text = String::new();
    while let Some(c) = chars.next() {
        text.push(match (c, c == '\\') {
            (_, true) => chars.next().map_or('\\', |c| if c == 'n' { '\n' } else { c }),
            (c, false) => c,
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let build = Build::new()
            .files(["cuda/a b.cu", "cuda/c.cu"])
            .arch("sm_80")
            .ptx("compute_75")
            .arch_for("cuda/c.cu", "sm_90")
            .ptx_for("cuda/c.cu", "compute_90")
            .std("c++20")
            .include("include")
            .define("TEXT", "\"a\\n\nb\tc \"")
            .define("FAST", None)
            .flag("--use_fast_math");
        let text = format!("{VERSION}\n{}{}", print(&build), print(&Build::new()));
        let [first, second] = &parse(&text).unwrap()[..] else { panic!("{text}") };
        assert_eq!(format!("{first:?}"), format!("{:?}", build.env_clear()));
        assert_eq!(format!("{second:?}"), format!("{:?}", Build::new().env_clear()));
        for damaged in ["", "file a.cu\n", "build\nsomething else\n"] {
            assert!(
                parse(&format!("{VERSION}\n{damaged}")).is_none_or(|builds| builds.is_empty()),
                "{damaged}"
            );
        }
        assert!(parse("kernel-registry builds 2\nbuild\n").is_none());
    }

    #[test]
    fn a_build_script_without_builds_has_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Build::recorded(folder.path()).unwrap().is_empty());
        let images = folder.path().join(FOLDER);
        fs::create_dir(&images).unwrap();
        write(&images, &Build::new().file("a.cu")).unwrap();
        write(&images, &Build::new().file("b.cu")).unwrap();
        let files: Vec<_> =
            Build::recorded(folder.path()).unwrap().into_iter().flat_map(|build| build.files).collect();
        assert_eq!(files, [Path::new("a.cu"), Path::new("b.cu")]);
        fs::write(images.join(FILE), "other").unwrap();
        let said = Build::recorded(folder.path()).unwrap_err().to_string();
        assert!(said.ends_with("another version of kernel-registry-build: use the same version"), "{said}");
    }
}
