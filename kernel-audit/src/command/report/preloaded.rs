//! What became of the preload that a process was given.

use std::fmt;

use kernel_registry_command::many;

use crate::command::process::Process;
use crate::command::report::words::{Time, described_image, image_of_kernel, paragraph, subject};
use crate::record::Subject;

/// Writes what was preloaded in a process, and what was not.
pub(super) fn write(f: &mut fmt::Formatter<'_>, process: &Process) -> fmt::Result {
    const LISTED: usize = 5;
    let all = &process.report.preloaded;
    let (done, failed): (Vec<_>, Vec<_>) = all.iter().partition(|event| event.result == 0);
    if !done.is_empty() {
        let took: u64 = done.iter().map(|event| event.took).sum();
        let none_late = process.report.ready.is_some() && process.findings().next().is_none();
        let late = if none_late { "; nothing was loaded late" } else { "" };
        writeln!(f, "  {} x preloaded, {} in all{late}", done.len(), Time(took))?;
    }
    let unused: Vec<_> = done.iter().filter(|event| !event.is_used).collect();
    for event in unused.iter().take(LISTED) {
        let image = event.subject.image().map_or_else(String::new, described_image);
        paragraph(f, &format!("  preloaded, never used: {image}"))?;
    }
    if !unused.is_empty() {
        let images = many(unused.len(), "image");
        paragraph(
            f,
            &format!(
                "  {images} never used: record without `--preload` to leave out what no run needs any more"
            ),
        )?;
    }
    for event in failed.iter().take(LISTED) {
        let what = match &event.subject {
            Subject::Image(image) => described_image(image),
            _ => subject(event),
        };
        let image = image_of_kernel(event).map_or(String::new(), |image| format!(", {image}"));
        paragraph(f, &format!("! not preloaded: {what}{image}: {}.", event.reason))?;
    }
    match failed.len().checked_sub(LISTED) {
        None | Some(0) => Ok(()),
        Some(rest) => writeln!(f, "! and {rest} more; `--json` has all"),
    }
}
