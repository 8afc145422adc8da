//! Reports hangs of processes that other commands run.

use std::io::Write;
use std::path::PathBuf;
use std::{mem, thread};

use kernel_registry_command::{Failure as Shared, terminal};

use super::failure::Failure;
use super::how_run::HowRun;
use super::report::words::processes as processes_in_words;
use super::together::{self, Running};

/// Reports hangs of running processes, until all have ended.
/// `words` follow the file of this program on the command line.
pub(crate) fn watch(folders: &[PathBuf], words: &str) -> Result<(), Failure> {
    if let Some(path) = folders.iter().find(|path| !path.is_dir()).cloned() {
        return Err(if path.exists() {
            Failure::WatchesFile { path }
        } else {
            Shared::Missing { path }.into()
        });
    }
    let mut processes = Running::follow_others(folders.to_vec(), HowRun::new(words));
    let mut is_first = true;
    loop {
        if let Some(hangs) = processes.look() {
            terminal::print(|out| write!(out, "{hangs}"))?;
        }
        if mem::take(&mut is_first) && processes.ended_before() > 0 {
            terminal::say(format_args!(
                "{} had ended before, and {} not watched: `merge` reports on these",
                processes_in_words(processes.ended_before()),
                if processes.ended_before() == 1 { "is" } else { "are" }
            ));
        }
        if let Some(hangs) = processes.hangs_at_end() {
            return if hangs == 0 { Ok(()) } else { Err(Failure::Findings { count: hangs }) };
        }
        thread::sleep(together::STEP);
    }
}
