//! Writes reports to files, and checks before the program runs that the files can be written.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use kernel_registry_command::terminal;

use super::cli::Reports;
use super::failure::Failure;
use super::preload;
use super::process::Audit;
use super::program::trust::followed;
use super::report::{html, json, trace};
use crate::preload::Preload;

impl Reports {
    /// Fails if a report cannot be written. The check comes before a program runs, which can take hours.
    pub(crate) fn can_be_written(&self) -> Result<(), Failure> {
        let files = [&self.json, &self.html, &self.trace].into_iter().flatten();
        for path in files.filter(|path| !is_output(path)) {
            can_be_written(path)?;
        }
        self.record.as_deref().map_or(Ok(()), preload::can_be_recorded)
    }

    /// Writes the reports that were asked for. The preload also has what `earlier` has.
    pub(crate) fn write(
        &self,
        audit: &Audit,
        earlier: Preload,
        merges_preloads: bool,
    ) -> Result<(), Failure> {
        for why in &audit.left_out {
            terminal::say(format_args!("warning: {why}"));
        }
        match self.json.as_deref() {
            Some(path) if is_output(path) => terminal::print(|out| write!(out, "{}", json::text(audit)))?,
            path => write_file(path, || json::text(audit))?,
        }
        match &self.record {
            Some(file) if audit.processes.is_empty() && !merges_preloads => {
                terminal::say(format_args!("`{}` is not written: no process left a record", file.display()));
            }
            Some(file) => preload::record(file, audit, earlier)?,
            None => {}
        }
        write_file(self.html.as_deref(), || html::page(audit))?;
        write_file(self.trace.as_deref(), || trace::text(audit))
    }
}

/// Returns whether the standard output is meant, in place of a file.
pub(crate) fn is_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Fails if a file cannot be written. Creates no file.
fn can_be_written(path: &Path) -> Result<(), Failure> {
    let opens = || match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            tempfile::tempfile_in(std::path::absolute(path)?.parent().unwrap_or(path)).map(drop)
        }
        Err(error) => Err(error),
        // A pipe is not opened: that waits for its reader, and the reader would then see the end of the pipe.
        Ok(its) if its.file_type().is_fifo() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
    };
    followed(path).and_then(|_| opens()).map_err(Failure::not_written(path))
}

fn write_file(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    followed(path).and_then(|_| fs::write(path, text())).map_err(Failure::not_written(path))
}
