//! Declares the command line of the audit: a program to run, or another mode.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use kernel_registry_cuda::{InvalidTarget, Target};

const ABOUT: &str = "\
The program and its children find a library as libcuda.so.1 that stands before the driver. A command that pip did not install builds
that library at its first use, in the target directory of the package here, or in ~/.cache. A program says that it is ready by calling
`kernel_registry_audit_ready()`, which that library exports; in Python `kernel_audit.ready()` does, if pip installed this command, or
else `ctypes.CDLL(\"libcuda.so.1\")` has it. A program called `merge`, `watch`, `bake`, `show`, `pack`, `demo`
or `dump` is run by `run`.

With `--preload` the program runs even if it can't be watched: whatever the audit can't do is a warning.

Exit codes: those of the program; a signal that ends the program ends this command, too. 127 if there is no such program, 126 if
it cannot be run, 2 wrong usage, 9 the library could not be built, 3 no such file or folder, 1 anything else. Of `merge`: 3 no
such file, 6 no record could be read, or a preload is damaged, 1 some record could not be read. With `--fail-on-findings`, if the
program succeeded: 12 if calls were late after the program was ready, or did not return in time; 1 if such findings may be missing,
because a record could not be read, or no call was seen and an option asks about calls";

/// The seconds after which a call is explained that has not returned.
pub(crate) const DEFAULT_HANG_AFTER: f64 = 5.0;

/// Stands in the name of a file for the number of a process: each process gets a file.
pub(crate) const PID: &str = "{pid}";

/// The name of a preload in its folder.
pub(crate) const PRELOAD: &str = "late.preload";

/// The command line of the audit.
#[derive(Args)]
#[command(after_help = ABOUT, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
pub struct Audit {
    #[command(subcommand)]
    pub(crate) mode: Option<Mode>,

    #[command(flatten)]
    pub(crate) run: Run,
}

#[derive(Subcommand)]
pub(crate) enum Mode {
    /// Run a program, as without this word
    #[command(after_help = ABOUT)]
    Run(Run),
    /// Report on the records of earlier runs, and compare the processes
    Merge(Merge),
    /// Say what hangs across the processes that write their records now, until all have ended
    Watch(Watch),
    /// Compile the PTX that a preload names, for GPUs that need not be there
    Bake(Bake),
    /// Say what a preload has, for which GPUs, and whether the files that it names are still as recorded
    Show(Show),
    /// Copy this command and the library to a folder, for machines without Rust
    Pack(Pack),
    /// Show on a program that hangs what this command does: a few seconds, and no GPU
    Demo(Demo),
    /// Say what the GPUs of a process do now: which kernels run, and where in their code
    Dump(Dump),
}

/// Runs a program.
#[derive(Args)]
pub(crate) struct Run {
    /// Watch the program on the simulated driver, without a GPU. Programs that use CUDA's runtime API, such as those of
    /// PyTorch and CuPy, need a GPU
    #[arg(long)]
    pub(crate) sim: bool,

    /// What happens to calls that are late after the program is ready: they are reported, answered with
    /// CUDA_ERROR_NOT_PERMITTED, or end the program
    #[arg(long, value_name = "WHAT", value_parser = ["report", "refuse", "abort"], default_value = "report")]
    pub(crate) after_ready: String,

    /// Take the program as ready after this time, if it does not say so itself
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) ready_after: Option<f64>,

    /// Take processes as ready once this file exists. A process that starts later is ready after as long as the program took to
    /// make the file
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,

    /// Say where the time goes for so long from ready on, or from each mark of the program on, and look each millisecond
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) first: Option<f64>,

    /// Explain a call that has not returned for this time
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds, default_value_t = DEFAULT_HANG_AFTER)]
    pub(crate) hang_after: f64,

    /// What happens then, or, if the call may only wait for work that takes long, after ten times as long
    #[arg(long, value_name = "WHAT", value_parser = ["report", "abort"], default_value = "report")]
    pub(crate) on_hang: String,

    /// List other calls that take this long
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 10)]
    pub(crate) slow: u64,

    /// Give each process's record room for so many events, of 104 bytes each
    #[arg(long, value_name = "NUMBER", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub(crate) events: u32,

    /// Load what this file, or late.preload in this folder, names as soon as the program has a context. If it cannot be read, that is a
    /// warning
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().map(file_in_folder))]
    pub(crate) preload: Option<PathBuf>,

    /// When: with the context, or when the program calls `kernel_registry_audit_preload()`
    #[arg(long, value_name = "WHEN", value_parser = ["context", "call"], default_value = "context", requires = "preload")]
    pub(crate) preload_at: String,

    /// Leave NVRTC alone: for programs that don't start otherwise, such as those with a ThreadSanitizer
    #[arg(long)]
    pub(crate) no_nvrtc: bool,

    /// Print neither the report nor late loads as they happen; hangs and warnings are still printed
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Keep the records of the processes in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) records: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) reports: Reports,

    /// Build without the network
    #[arg(long)]
    pub(crate) offline: bool,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The files to write.
#[derive(Args)]
pub(crate) struct Reports {
    /// Write the report as JSON to this file, or to the standard output with `-`; with `{pid}` in the file's name a file for
    /// each process
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(file_or_files))]
    pub(crate) json: Option<PathBuf>,

    /// Write the report as a page to this file: a summary, a timeline, and tables
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write the timeline to this file, in the Trace Event format of Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Write what was late to this file, or to late.preload in this folder, for `--preload`; with what is preloaded or merged
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(file))]
    pub(crate) record: Option<PathBuf>,

    /// Exit with 12 if there are findings, and with 1 if findings may be missing: for tests
    #[arg(long)]
    pub(crate) fail_on_findings: bool,
}

/// Reports on records.
#[derive(Args)]
pub(crate) struct Merge {
    /// Records, or folders with records; with `--record` also files whose names end in .preload, or their folders
    #[arg(required = true, value_name = "RECORD")]
    pub(crate) records: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) reports: Reports,
}

/// Compiles PTX ahead of time.
#[derive(Args)]
pub(crate) struct Bake {
    /// The preload, or its folder. The machine code goes to a file beside it, FILE.baked, which `--preload FILE` uses
    #[arg(value_name = "FILE", value_parser = PathBufValueParser::new().map(file_in_folder))]
    pub(crate) preload: PathBuf,

    /// Compile for this architecture, such as sm_90; several times for several
    #[arg(long, required = true, value_name = "ARCH", value_parser = architecture)]
    pub(crate) arch: Vec<Target>,
}

/// Shows a preload.
#[derive(Args)]
pub(crate) struct Show {
    /// The preload, or its folder
    #[arg(value_name = "FILE", value_parser = PathBufValueParser::new().map(file_in_folder))]
    pub(crate) preload: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print options of `docker build` that label an image of the folder: which GPUs it's for, and its size
    #[arg(long, conflicts_with = "json")]
    pub(crate) labels: bool,
}

/// Watches processes of other commands.
#[derive(Args)]
pub(crate) struct Watch {
    /// The folders to which the processes write their records
    #[arg(required = true, value_name = "FOLDER")]
    pub(crate) folders: Vec<PathBuf>,
}

/// Copies the command.
#[derive(Args)]
pub(crate) struct Pack {
    /// The folder
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,

    /// Pack the simulated driver, too
    #[arg(long)]
    pub(crate) sim: bool,

    /// Build without the network
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Looks at the GPUs of a process.
#[derive(Args)]
pub(crate) struct Dump {
    /// The process, which need not be prepared. cuda-gdb joins it, halts it and its GPUs for a second, or ten with PyTorch, and leaves it running
    #[arg(value_name = "PID", required_unless_present = "core")]
    pub(crate) process: Option<u32>,

    /// Read a core dump of GPUs, which cuda-gdb or the driver has written
    #[arg(long, value_name = "FILE", conflicts_with = "process")]
    pub(crate) core: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Demonstrates the command.
#[derive(Args)]
pub(crate) struct Demo {
    /// Run the program of the demonstration itself. It needs a driver, and hangs for 30 seconds
    #[arg(long)]
    pub(crate) program: bool,

    /// Build without the network
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Returns the path of a file that can have a folder of images beside it. Refuses `-`, the standard output.
fn file(path: PathBuf) -> Result<PathBuf, &'static str> {
    if path.as_os_str() == "-" {
        Err("name a file: copies of images go to a folder beside it")
    } else {
        Ok(file_in_folder(path))
    }
}

/// Returns the preload in a folder. Other paths are those of preloads themselves.
fn file_in_folder(path: PathBuf) -> PathBuf {
    let is_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.is_dir();
    if is_folder { path.join(PRELOAD) } else { path }
}

/// Returns the path of a file, or of a file for each process. Refuses [`PID`] where it can't make several files.
fn file_or_files(path: PathBuf) -> Result<PathBuf, &'static str> {
    let has_number = |path: &Path| path.to_string_lossy().contains(PID);
    if path.parent().is_some_and(has_number) {
        Err("write `{pid}` in the name of the file: a folder for each process isn't made")
    } else if has_number(&path) && path.to_string_lossy().starts_with('-') {
        Err("`-` is the standard output, which takes one report: name a file, such as report-{pid}.json")
    } else {
        Ok(path)
    }
}

/// Parses an architecture, such as `sm_90`.
fn architecture(name: &str) -> Result<Target, String> {
    name.parse().map_err(|error: InvalidTarget| error.to_string())
}

/// Parses a time in seconds.
fn seconds(value: &str) -> Result<f64, &'static str> {
    let seconds = value.parse().ok().filter(|seconds| Duration::try_from_secs_f64(*seconds).is_ok());
    seconds.ok_or("write it as 2.5")
}

/// Parses a time in seconds that is longer than 0.
fn positive_seconds(value: &str) -> Result<f64, &'static str> {
    let time = seconds(value)?;
    if Duration::from_secs_f64(time) > Duration::ZERO { Ok(time) } else { Err("it must be more than 0") }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        _audit: Audit,
    }

    #[test]
    fn a_file_for_each_process_has_the_number_in_its_own_name() {
        for one in ["-", "report.json", "a/report-{pid}.json", "report-{pid}-{pid}"] {
            assert_eq!(file_or_files(one.into()), Ok(one.into()));
        }
        assert!(file_or_files("-{pid}".into()).is_err_and(|why| why.contains("the standard output")));
        assert!(file_or_files("{pid}/report.json".into()).is_err_and(|why| why.contains("a folder")));
    }

    /// People who install the command with pip do not know what cargo is.
    #[test]
    fn the_help_of_no_mode_names_cargo() {
        fn help(command: &mut Command) -> String {
            let own = command.render_long_help().to_string();
            command.get_subcommands_mut().fold(own, |text, mode| text + &help(mode))
        }
        let text = help(&mut Options::command());
        assert!(text.contains("--hang-after") && text.contains("--arch"), "{text}");
        assert!(!text.contains("cargo"), "{text}");
    }
}
