//! `cargo kernels diff`: compares the kernels of two builds, and holds the changes to limits.
//!
//! Both sides are documents as `show --all` writes them, so a binary and its JSON compare alike.

mod comparison;
mod figure;
mod json;
mod limits;
mod markdown;
mod report;
mod signature;
mod snapshot;
mod text;

use crate::cli::Diff;
use crate::failure::Failure;
use crate::output;
use comparison::Comparison;
use report::Report;
use snapshot::Snapshot;

pub(crate) fn run(options: &Diff) -> Result<(), Failure> {
    let (old, new) = (Snapshot::read(&options.old)?, Snapshot::read(&options.new)?);
    let comparison = Comparison::new(&old, &new);
    let limits = &options.limits;
    let refusals = limits.refusals(&comparison);
    let notes = comparison.notes().into_iter().chain(limits.notes(&comparison)).collect();
    let report = Report { comparison, refusals, notes };
    output::print(|out| {
        if options.json {
            output::json::write(&json::document(&report), out)
        } else if options.markdown {
            markdown::write(&report, out)
        } else {
            text::write(&report, out)
        }
    })?;
    match report.refusals.len() {
        0 => {
            let mut unread = old.unread;
            unread.merge(new.unread);
            unread.check()
        }
        count => Err(Failure::Exceeded { count }),
    }
}
