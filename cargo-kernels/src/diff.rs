//! `cargo kernels diff`: compares the kernels of two builds, and holds the changes to limits.
//!
//! Both sides are read as the JSON of `show --all`, so a binary and its JSON compare alike.

mod comparison;
mod figure;
mod html;
mod json;
mod limits;
mod markdown;
mod signature;
mod snapshot;
mod text;

use std::fs;

use crate::binaries;
use crate::cli::Diff;
use crate::failure::Failure;
use comparison::Comparison;
use limits::Refusal;
use snapshot::Snapshot;

pub(crate) use figure::Figure;
pub(crate) use limits::{Growth, Limits};

/// What all outputs show.
struct Report<'a> {
    comparison: Comparison<'a>,
    refusals: Vec<Refusal<'a>>,
    /// What a reader of the figures should know, a sentence each.
    notes: Vec<String>,
}

pub(crate) fn run(options: &Diff) -> Result<(), Failure> {
    let (old, new) = (Snapshot::read(&options.old)?, Snapshot::read(&options.new)?);
    let comparison = Comparison::of(&old, &new);
    let limits = options.limits();
    let refusals = limits.refusals(&comparison);
    let notes = comparison.notes().into_iter().chain(limits.notes(&comparison)).collect();
    let report = Report { comparison, refusals, notes };
    if let Some(path) = &options.html {
        let not_written = |error| Failure::NotWritten { path: path.clone(), error };
        fs::write(path, html::page(&report)).map_err(not_written)?;
    }
    binaries::print(|out| {
        if options.json {
            json::write(&report, out)
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

/// `1 kernel`, `2 kernels`
fn many(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// A name in the cell of a table. Names of C++ templates can have thousands of characters; their ends tell them apart.
fn shortened(name: &str) -> String {
    const START: usize = 50;
    const END: usize = 30;
    let count = name.chars().count();
    if count <= START + END {
        return name.to_owned();
    }
    let start: String = name.chars().take(START - 1).collect();
    let end: String = name.chars().skip(count - END).collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle() {
        let short = "ü".repeat(80);
        assert_eq!(shortened(&short), short);
        let long = shortened(&format!("{}{}", "a".repeat(5000), "z".repeat(30)));
        assert_eq!(long, format!("{}…{}", "a".repeat(49), "z".repeat(30)));
    }
}
