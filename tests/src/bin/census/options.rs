//! The command line of the census.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::recording::{Manner, Mode};
use crate::row::{Row, Subject};

/// Tries which operations of the CUDA driver wait for a resident kernel
#[derive(Debug, Parser)]
#[command(
    name = "census",
    after_help = "Exit codes: 0 as expected, 1 a result differs, or a warmed launch or a guarded call waits, 2 not possible"
)]
pub(crate) struct Options {
    /// Write the results to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Compare the results, but not the times, with this recording
    #[arg(long, value_name = "FILE")]
    pub(crate) expect: Option<PathBuf>,

    /// Warm every kernel first with kernel-registry, and try only rows that launch kernels; fail if a
    /// preventable wait remains
    #[arg(long)]
    pub(crate) warmed: bool,

    /// Watch the calls, in a section of the audit around the resident kernel, and try only the groups `host`
    /// and `capture`; fail if a call waits, or one is refused that would not
    #[arg(long, conflicts_with = "warmed")]
    pub(crate) guarded: bool,

    /// Try this row only, or the rows of this group; can be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// The driver's loading mode
    #[arg(long, value_enum, default_value_t = Modes::Both)]
    pub(crate) mode: Modes,

    /// Try this many rows at once. On a GPU their processes take turns, and each needs up to 15 GiB
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_jobs)]
    pub(crate) jobs: usize,

    /// List the rows, and what warming does for each, without trying them
    #[arg(long)]
    pub(crate) list: bool,

    /// Print the driver's functions, and which rows of this recording call them, without trying anything
    #[arg(long, value_name = "FILE")]
    pub(crate) functions: Option<PathBuf>,

    /// Try this row in this process
    #[arg(long, hide = true, value_name = "NAME")]
    pub(crate) child: Option<String>,

    /// After so many seconds resident work gives up
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = 1)]
    pub(crate) limit: u64,

    /// Share memory with the process that started this one
    #[arg(long, hide = true)]
    pub(crate) share: bool,
}

fn parse_jobs(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|jobs| (1..=64).contains(jobs)).ok_or("a number from 1 to 64".into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Modes {
    Lazy,
    Eager,
    Both,
}

impl Modes {
    pub(crate) fn modes(self) -> &'static [Mode] {
        match self {
            Modes::Lazy => &[Mode::Lazy],
            Modes::Eager => &[Mode::Eager],
            Modes::Both => &[Mode::Lazy, Mode::Eager],
        }
    }
}

impl Options {
    pub(crate) fn manner(&self) -> Manner {
        match self {
            Options { guarded: true, .. } => Manner::Guarded,
            Options { warmed: true, .. } => Manner::Warmed,
            _ => Manner::Cold,
        }
    }

    /// Returns the selected rows, in order.
    pub(crate) fn choose<'r>(&self, rows: &'r [Row]) -> Result<Vec<&'r Row>, String> {
        let is = |row: &Row, name: &str| row.name == name || row.name.split('/').next() == Some(name);
        let unknown = self.only.iter().find(|name| !rows.iter().any(|row| is(row, name)));
        if let Some(name) = unknown {
            return Err(format!("no row or group `{name}`; `--list` shows them"));
        }
        let wanted = |row: &&Row| self.only.is_empty() || self.only.iter().any(|name| is(row, name));
        // Warming only affects launches. A section only affects calls, so rows that don't launch anything are
        // enough.
        let possible = |row: &&Row| match self.manner() {
            Manner::Cold => true,
            Manner::Warmed => row.subject != Subject::HostCall,
            Manner::Guarded => is(row, "host") || is(row, "capture"),
        };
        let chosen: Vec<_> = rows.iter().filter(wanted).filter(possible).collect();
        match self.manner() {
            Manner::Warmed if chosen.is_empty() => {
                Err("warming does not affect calls of the host; leave out `--warmed`".into())
            }
            Manner::Guarded if chosen.is_empty() => {
                Err("only rows of `host` and `capture` are guarded; leave out `--guarded`".into())
            }
            _ => Ok(chosen),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

    fn choose(args: &[&str]) -> Result<Vec<String>, String> {
        let options =
            Options::try_parse_from([&["census"], args].concat()).map_err(|error| error.to_string())?;
        let rows = rows::list_rows();
        Ok(options.choose(&rows)?.into_iter().map(|row| row.name.clone()).collect())
    }

    #[test]
    fn without_options_all_rows_are_chosen() {
        assert_eq!(choose(&[]).unwrap().len(), rows::list_rows().len());
        let options = Options::try_parse_from(["census"]).unwrap();
        assert_eq!(options.mode.modes(), [Mode::Lazy, Mode::Eager]);
    }

    #[test]
    fn rows_and_groups_are_chosen() {
        assert_eq!(choose(&["--only", "frame/2k"]).unwrap(), ["frame/2k"]);
        let group = choose(&["--only", "frame", "--only", "host/nothing"]).unwrap();
        assert!(
            group.len() > 5 && group.iter().all(|name| name.starts_with("frame/") || name == "host/nothing")
        );
    }

    #[test]
    fn an_unknown_row_or_mode_is_an_error() {
        assert!(choose(&["--only", "frame/3k"]).unwrap_err().contains("`frame/3k`"));
        assert!(choose(&["--mode", "sometimes"]).is_err());
        assert!(choose(&["--jobs", "0"]).unwrap_err().contains("from 1 to 64"));
    }

    #[test]
    fn only_rows_that_launch_nothing_are_guarded() {
        let guarded = choose(&["--guarded"]).unwrap();
        assert!(guarded.contains(&"host/cuMemFree_1M".into()) && !guarded.contains(&"frame/2k".into()));
        assert!(choose(&["--guarded", "--only", "frame"]).unwrap_err().contains("leave out"));
        assert!(choose(&["--guarded", "--warmed"]).is_err());
    }

    #[test]
    fn rows_that_launch_nothing_are_not_warmed() {
        let warmed = choose(&["--warmed"]).unwrap();
        assert!(warmed.contains(&"module/only".into()) && !warmed.contains(&"host/nothing".into()));
        assert!(choose(&["--warmed", "--only", "host"]).unwrap_err().contains("leave out"));
    }
}
