//! Replaces files that this command wrote before, each as a whole. A file that holds something else stays as it is: whoever writes
//! `--json ./program` by mistake keeps the program.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use kernel_registry_files::{Folder, NewFile};

use crate::preload::BEGIN;

/// The formats of the files that this command writes.
#[derive(Clone, Copy)]
pub(crate) enum Format {
    Preload,
    Json,
    Page,
    Timeline,
}

impl Format {
    /// Returns the format in words, and what each file of it begins with.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Format::Preload => ("a preload", BEGIN),
            Format::Json => ("a report as JSON", "{\n  \"schema\": "),
            Format::Page => ("a report as a page", "<!doctype html>\n"),
            Format::Timeline => ("a timeline", "{\"displayTimeUnit\":"),
        }
    }
}

/// Returns the folder of a file, and its name there, with links followed. Fails if a file is there that is neither empty nor begins as files of this
/// format do.
pub(crate) fn replaceable(file: &Path, format: Format) -> io::Result<(Folder, OsString)> {
    let (folder, name) = Folder::containing(file)?;
    let old = match folder.open_file(&name) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((folder, name)),
        old => old?,
    };
    let (what, expected) = format.words();
    let mut begin = Vec::new();
    old.take(expected.len() as u64).read_to_end(&mut begin)?;
    if !begin.is_empty() && begin != expected.as_bytes() {
        let why = format!("it holds something else than {what}: name another file");
        return Err(io::Error::other(why));
    }
    Ok((folder, name))
}

/// Creates a new file in a folder, with the permissions of the file that has this name. The new file is deleted unless it replaces that one.
pub(crate) fn successor<'a>(folder: &'a Folder, name: &OsString) -> io::Result<NewFile<'a>> {
    let mut new = folder.new_file()?;
    if let Ok(old) = folder.metadata(name) {
        new.file().set_permissions(old.permissions())?;
    }
    Ok(new)
}

/// Writes a file in one piece: the new file replaces the old file once the new file is whole. If `file` is a link, the
/// new file replaces the file that the link leads to.
pub(crate) fn replace(file: &Path, format: Format, text: &str) -> io::Result<()> {
    /// The folder takes no new file, or the file is a mount of its own, as containers have them.
    const STAYS: [ErrorKind; 3] =
        [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem, ErrorKind::ResourceBusy];
    let (folder, name) = replaceable(file, format)?;
    let replaced = || -> io::Result<()> {
        let mut new = successor(&folder, &name)?;
        new.file().write_all(text.as_bytes())?;
        new.replace(&name)
    };
    match replaced() {
        Err(error) if STAYS.contains(&error.kind()) && folder.metadata(&name).is_ok() => {
            folder.overwrite(&name, text.as_bytes())
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::command::process::Audit;
    use crate::command::report::{html, json, trace};
    use crate::preload::Preload;

    #[test]
    fn what_is_written_can_be_replaced() {
        let (folder, audit) = (tempfile::tempdir().unwrap(), Audit::default());
        let texts = [
            (Format::Preload, Preload::default().to_string()),
            (Format::Json, json::text(&audit)),
            (Format::Page, html::page(&audit)),
            (Format::Timeline, trace::text(&audit)),
        ];
        for (format, text) in texts {
            let file = folder.path().join(format.words().0);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            for _ in 0..2 {
                replace(&file, format, &text).unwrap();
                assert_eq!(fs::read_to_string(&file).unwrap(), text);
                assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            }
            for other in ["#!/bin/sh\n", "{", "<", "k"] {
                fs::write(&file, other).unwrap();
                let why = replace(&file, format, &text).unwrap_err().to_string();
                assert!(why.contains("it holds something else than a "), "{why}");
                assert_eq!(fs::read_to_string(&file).unwrap(), other);
            }
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "no other file is left");
    }
}
