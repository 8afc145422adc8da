//! Writes reports to files, and checks before the program runs that the files can be written.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use kernel_registry_command::terminal;
use kernel_registry_files::Folder;

use super::cli::{PID, Reports};
use super::failure::Failure;
use super::preload::{self, Earlier};
use super::process::Audit;
use super::replace::{Format, replace, replaceable};
use super::report::{html, json, trace};
use super::trust::followed;

impl Reports {
    /// Fails if a report cannot be written. The check comes before a program runs, which can take hours.
    pub(crate) fn can_be_written(&self) -> Result<(), Failure> {
        // No process has the number 0.
        let json = self.json.as_deref().map(|path| with_number(path, 0));
        let files = [(&json, Format::Json), (&self.html, Format::Page), (&self.trace, Format::Timeline)];
        let files = files.into_iter().filter_map(|(path, format)| Some((path.as_deref()?, format)));
        for (path, format) in files.filter(|(path, _)| !is_output(path)) {
            can_be_written(path, format)?;
        }
        self.record.as_deref().map_or(Ok(()), preload::can_be_recorded)
    }

    /// Writes the reports that were asked for. The preload also has what `earlier` has.
    pub(crate) fn write(
        &self,
        audit: &Audit,
        earlier: Earlier,
        merges_preloads: bool,
    ) -> Result<(), Failure> {
        for why in &audit.left_out {
            terminal::say(format_args!("warning: {why}"));
        }
        match self.json.as_deref() {
            Some(path) if is_output(path) => terminal::print(|out| write!(out, "{}", json::text(audit)))?,
            Some(path) if with_number(path, 0) != path => write_of_each(path, audit)?,
            path => write_file(path, Format::Json, || json::text(audit))?,
        }
        match &self.record {
            Some(file) if audit.processes.is_empty() && !merges_preloads => {
                terminal::say(format_args!("`{}` is not written: no process left a record", file.display()));
            }
            Some(file) => preload::record(file, audit, earlier)?,
            None => {}
        }
        write_file(self.html.as_deref(), Format::Page, || html::page(audit))?;
        write_file(self.trace.as_deref(), Format::Timeline, || trace::text(audit))
    }
}

/// Returns a path with the number of a process in place of each [`PID`].
fn with_number(path: &Path, number: u32) -> PathBuf {
    match path.to_str() {
        Some(text) => text.replace(PID, &number.to_string()).into(),
        None => path.to_owned(),
    }
}

/// Writes the report on each process to a file of its own.
fn write_of_each(path: &Path, audit: &Audit) -> Result<(), Failure> {
    if audit.processes.is_empty() {
        terminal::say(format_args!("`{}` is not written: no process left a record", path.display()));
    }
    audit.processes.iter().try_for_each(|process| {
        write_file(Some(&with_number(path, process.number)), Format::Json, || {
            json::text(&audit.alone(process))
        })
    })
}

/// Returns whether the standard output is meant, in place of a file.
pub(crate) fn is_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Fails if a file cannot be written. Creates no file.
fn can_be_written(path: &Path, format: Format) -> Result<(), Failure> {
    let opens = || match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Folder::containing(path)?.0.new_file().map(drop),
        Err(error) => Err(error),
        // A pipe is not opened: that waits for its reader, and the reader would then see the end of the pipe.
        Ok(its) if its.file_type().is_fifo() => Ok(()),
        Ok(_) => {
            if is_replaced(path) {
                replaceable(path, format)?;
            }
            OpenOptions::new().append(true).open(path).map(drop)
        }
    };
    followed(path).and_then(|_| opens()).map_err(Failure::not_written(path))
}

fn write_file(path: Option<&Path>, format: Format, text: impl FnOnce() -> String) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let written = || match is_replaced(path) {
        true => replace(path, format, &text()),
        false => {
            followed(path)?;
            OpenOptions::new().append(true).open(path)?.write_all(text().as_bytes())
        }
    };
    written().map_err(Failure::not_written(path))
}

/// Returns whether a new file takes this place. Devices and pipes stay, and so do files that the program writes to as its output.
fn is_replaced(path: &Path) -> bool {
    const OUTPUTS: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];
    let is_output = OUTPUTS.iter().any(|output| path.starts_with(output));
    !is_output && fs::metadata(path).map_or(true, |its| its.is_file())
}
