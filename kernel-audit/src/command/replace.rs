//! Replaces files that this command wrote before, each as a whole. A file that holds something else stays as it is: whoever writes
//! `--json ./program` by mistake keeps the program.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::command::program::trust::followed;
use crate::preload::BEGIN;
use crate::record::open_plain;

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

/// Follows the links at a path. Fails if a file is there that is neither empty nor begins as files of this format do.
pub(crate) fn replaceable(file: &Path, format: Format) -> io::Result<PathBuf> {
    let path = followed(file)?;
    if path.exists() {
        let (what, expected) = format.words();
        let (file, _) = open_plain(&path)?;
        let mut begin = Vec::new();
        file.take(expected.len() as u64).read_to_end(&mut begin)?;
        if !begin.is_empty() && begin != expected.as_bytes() {
            let why = format!("it holds something else than {what}: name another file");
            return Err(io::Error::other(why));
        }
    }
    Ok(path)
}

/// Creates a new file in the folder of `path`. The new file is deleted unless it replaces the one at `path`, whose permissions it has.
pub(crate) fn successor(path: &Path) -> io::Result<NamedTempFile> {
    let permissions = Permissions::from_mode(0o666);
    let new = Builder::new().permissions(permissions).tempfile_in(path.parent().unwrap_or(path))?;
    if let Ok(old) = path.metadata() {
        new.as_file().set_permissions(old.permissions())?;
    }
    Ok(new)
}

/// Writes a file in one piece: the new file replaces the old file once the new file is whole. If `file` is a link, the
/// new file replaces the file that the link leads to.
pub(crate) fn replace(file: &Path, format: Format, text: &str) -> io::Result<()> {
    /// The folder takes no new file, or the file is a mount of its own, as containers have them.
    const STAYS: [ErrorKind; 3] =
        [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem, ErrorKind::ResourceBusy];
    let path = replaceable(file, format)?;
    let replaced = || -> io::Result<()> {
        let mut new = successor(&path)?;
        new.write_all(text.as_bytes())?;
        new.persist(&path)?;
        Ok(())
    };
    match replaced() {
        Err(error) if STAYS.contains(&error.kind()) && path.exists() => fs::write(&path, text),
        done => done,
    }
}

#[cfg(test)]
mod tests {
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
