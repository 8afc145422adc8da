//! The command `kernel-audit`, which is also `cargo kernels audit`. It runs any program with a library in front of the
//! driver, and reports what loaded late, what took long and what did not return.
//!
//! `cli` parses the command line; `program`, `merge`, `watching`, `bake`, `show`, `pack`, `demo` and `dump` each run one mode of the command. Processes
//! write records: `process` reads the records, `symbols` names functions in them, `together` finds hangs that several
//! processes share. `report` writes the report, and `preload` writes a file of what was late; `replace` replaces only
//! files that this command wrote.

mod bake;
mod cli;
mod demo;
mod dump;
mod failure;
mod file_system;
mod files;
mod how_run;
mod libraries;
mod merge;
mod pack;
mod preload;
mod process;
mod program;
mod replace;
mod report;
mod show;
mod symbols;
mod together;
mod trust;
mod watching;

pub use cli::Audit;
pub use failure::Failure;

use cli::Mode;

/// Runs the command. `words` follow the file of this program on the command line: none, or ` kernels audit`.
pub fn run(options: &Audit, words: &str) -> Result<(), Failure> {
    match &options.mode {
        None => program::run(&options.run, words),
        Some(Mode::Run(run)) => program::run(run, words),
        Some(Mode::Merge(merge)) => merge::merge(merge, words),
        Some(Mode::Bake(options)) => bake::bake(options),
        Some(Mode::Show(options)) => show::show(options),
        Some(Mode::Watch(watch)) => watching::watch(&watch.folders, words),
        Some(Mode::Pack(pack)) => pack::pack(pack, words),
        Some(Mode::Demo(options)) => demo::demo(options, words),
        Some(Mode::Dump(options)) => dump::dump(options),
    }
}
