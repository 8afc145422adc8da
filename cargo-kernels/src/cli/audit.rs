//! The command line of `audit`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};

const AUDIT: &str = "\
The program and its children find a library as libcuda.so.1 that stands before the driver. The first use builds it with
cargo, in the target directory of the package here, or in ~/.cache. A program says that it is ready by calling
`kernel_registry_audit_ready()`, which that library exports; in Python `ctypes.CDLL(\"libcuda.so.1\")` has it.

Exit codes: those of the program; 12 if it succeeded and there are findings: calls that were late after the program was
ready, or that did not return in time; 127 if there is no such program, 126 if it cannot be run, 2 wrong usage, 9 the library
could not be built, 3 no such file or folder, 1 anything else, also where findings may be missing: a record could not be
read, or no call was seen and an option asks about calls. Of `--merge`: 12 if there are findings, 3 no such file, 6 no record
could be read, or a preload is damaged, 1 if findings may be missing";

#[derive(Args)]
#[command(after_help = AUDIT)]
pub(crate) struct Audit {
    /// Watch the program on the simulated driver, without a GPU
    #[arg(long)]
    pub(crate) sim: bool,

    /// What happens to calls that are late after the program is ready: they are reported, answered with
    /// CUDA_ERROR_NOT_PERMITTED, or end the program
    #[arg(long, value_name = "WHAT", value_parser = ["report", "refuse", "abort"], default_value = "report")]
    pub(crate) after_ready: String,

    /// Take the program as ready after this time, if it does not say so itself
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) ready_after: Option<f64>,

    /// Take the program and its children as ready once this file exists
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,

    /// Explain a call that has not returned for this time
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds, default_value_t = 5.0)]
    pub(crate) hang_after: f64,

    /// What happens then
    #[arg(long, value_name = "WHAT", value_parser = ["report", "abort"], default_value = "report")]
    pub(crate) on_hang: String,

    /// List other calls that take this long
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 10)]
    pub(crate) slow: u64,

    /// Give each process's record room for so many events, of 96 bytes each
    #[arg(long, value_name = "NUMBER", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub(crate) events: u32,

    /// Write the report as JSON to this file, or to the standard output with `-`
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the report as a page to this file: a summary, a timeline, and tables
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write the timeline to this file, in the Trace Event format of Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Write what was late to this file, for `--preload`; with what `--preload` or `--merge` name
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(file))]
    pub(crate) record: Option<PathBuf>,

    /// Load what this file names as soon as the program has a context. If it cannot be read, that is a warning
    #[arg(long, value_name = "FILE")]
    pub(crate) preload: Option<PathBuf>,

    /// When: with the context, or when the program calls `kernel_registry_audit_preload()`
    #[arg(long, value_name = "WHEN", value_parser = ["context", "call"], default_value = "context", requires = "preload")]
    pub(crate) preload_at: String,

    /// Run no program: report on these records, or on those in these folders, and compare the processes. With `--record`, files
    /// whose names end in .preload are merged, too
    #[arg(
        long,
        value_name = "RECORD",
        num_args = 1..,
        conflicts_with_all = ["sim", "after_ready", "ready_after", "hang_after", "on_hang", "slow", "records", "events", "ready_file", "preload"]
    )]
    pub(crate) merge: Vec<PathBuf>,

    /// Run no program: say what hangs across the processes that write their records to these folders now, until all have ended
    #[arg(
        long,
        value_name = "FOLDER",
        num_args = 1..,
        conflicts_with_all = ["sim", "after_ready", "ready_after", "hang_after", "on_hang", "slow", "records", "events", "ready_file", "json", "html", "trace", "record", "preload", "merge"]
    )]
    pub(crate) watch: Vec<PathBuf>,

    /// Keep the records of the processes in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) records: Option<PathBuf>,

    /// Build without the network
    #[arg(long)]
    pub(crate) offline: bool,

    /// Run nothing, but copy this command and the library to a folder, for machines without Rust; with `--sim` the simulated driver, too
    #[arg(
        long,
        value_name = "FOLDER",
        conflicts_with_all = ["after_ready", "ready_after", "hang_after", "on_hang", "slow", "records", "events", "ready_file", "json", "html", "trace", "record", "preload", "merge", "watch", "command"]
    )]
    pub(crate) pack: Option<PathBuf>,

    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present_any = ["pack", "merge", "watch"],
        conflicts_with_all = ["merge", "watch"],
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<OsString>,
}

/// A file that has a folder of images beside it.
fn file(path: PathBuf) -> Result<PathBuf, &'static str> {
    if path.as_os_str() == "-" {
        Err("name a file: copies of images go to a folder beside it")
    } else {
        Ok(path)
    }
}

/// A time in seconds.
fn seconds(value: &str) -> Result<f64, &'static str> {
    let seconds = value.parse().ok().filter(|seconds| Duration::try_from_secs_f64(*seconds).is_ok());
    seconds.ok_or("write it as 2.5")
}

/// A time in which a call can return.
fn positive_seconds(value: &str) -> Result<f64, &'static str> {
    let time = seconds(value)?;
    if Duration::from_secs_f64(time) > Duration::ZERO { Ok(time) } else { Err("it must be more than 0") }
}
