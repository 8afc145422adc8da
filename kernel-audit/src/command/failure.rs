//! The errors of the command, each with a message and an exit code.

use std::io;
use std::path::{Path, PathBuf};

use kernel_registry_command::{Failure as Shared, many};

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each says what its fields are")]
#[non_exhaustive]
pub enum Failure {
    #[error(transparent)]
    Shared(#[from] Shared),
    #[error("`{path}` is there already and is no empty file: give `--ready-file` another name")]
    NoMark { path: PathBuf },
    #[error(
        "there is no CUDA driver to watch ({why}); install NVIDIA's, or watch the program on the simulated one with \
         `--sim`, unless it uses CUDA's runtime API, as those of PyTorch and CuPy do: these need a GPU"
    )]
    NoDriver { why: String },
    #[error("this command was packed without the simulated driver: pack it with `--sim`")]
    PackedWithoutSim,
    #[error(
        "this process is audited already, by another `kernel-audit`, which watches its children too: run the \
         program itself"
    )]
    AuditedAlready,
    #[error(
        "{}: calls that were late after the program was ready, would have waited for a resident kernel, or did not \
         return",
        many(*.count, "finding")
    )]
    Findings { count: usize },
    #[error(
        "nothing was audited, and `{option}` asks for that (see why above): run a program that calls the driver, dynamically linked and with \
         the `LD_LIBRARY_PATH` that it is given"
    )]
    NothingAudited { option: &'static str },
    #[error("`{path}` is a file: `watch` takes the folder of the records, and `merge {path}` reports on one")]
    WatchesFile { path: PathBuf },
    #[error("`{path}` is merged into another file: name that by `--record FILE`")]
    MergedNowhere { path: PathBuf },
    #[error(
        "there is no folder `{folder}`, so nobody can make the file of `--ready-file`: make it first, or name another"
    )]
    NoFolderOfMark { folder: PathBuf },
    #[error(
        "`{path}` cannot be recorded: the preload names files beside it, one on a line, and this path has a line break or another control \
         character; name another file"
    )]
    NoLine { path: PathBuf },
    #[error("`{path}` cannot be preloaded")]
    NoPreload { path: PathBuf, source: io::Error },
    #[error("`{path}` names no PTX: record it again, with a program that loads some")]
    WithoutPtx { path: PathBuf },
    #[error("{}", nothing_to_merge(*.left_out))]
    NothingToMerge { left_out: usize },
    #[error("{} could not be read (see the warnings above), so findings may be missing", many(*.count, "record"))]
    LeftOut { count: usize },
    #[error("a thread of the audit could not be started in {} (see above), so findings may be missing", many(*.count, "case"))]
    LackThreads { count: usize },
    #[error("process {process} can't be looked at: {why}")]
    NotJoined { process: u32, why: String },
    #[error("`{path}` can't be read")]
    NoDump { path: PathBuf, source: kernel_registry_image::Error },
    #[error("the program ended with exit code {code}")]
    Failed { code: u8 },
    #[error("signal {signal} ended the program")]
    Killed { signal: i32 },
    #[error("signal {signal} ended the look; the process goes on")]
    Interrupted { signal: i32 },
    #[error("the program of the demonstration failed: {why}")]
    DemoProgram { why: String },
    #[error(
        "the demonstration did not go as expected: `{line}` ended with exit code {code}, and not with {expected}"
    )]
    Demo { line: String, code: i32, expected: i32 },
    #[error(
        "the library in front of the driver needs a folder that only you can write to: set `XDG_CACHE_HOME` to one ({refused})"
    )]
    NoFront { refused: String },
    #[error(
        "`{folder}` takes no records: name another folder by `TMPDIR`, or keep the records by `--records FOLDER`"
    )]
    NoTemporary { folder: PathBuf, source: io::Error },
}

impl Failure {
    /// Returns the exit code of the command. If the program failed, that is the program's exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Shared(failure) => failure.code(),
            Failure::WatchesFile { .. } | Failure::MergedNowhere { .. } | Failure::NoLine { .. } => 2,
            Failure::NoFolderOfMark { .. } => 3,
            Failure::NothingToMerge { .. } | Failure::NoPreload { .. } | Failure::NoDump { .. } => 6,
            Failure::WithoutPtx { .. } => 7,
            Failure::Findings { .. } => 12,
            Failure::Failed { code } => *code,
            // As shells do.
            Failure::Killed { signal } | Failure::Interrupted { signal } => {
                u8::try_from(128 + signal).unwrap_or(1)
            }
            _ => 1,
        }
    }

    /// Returns a function that turns an error of opening this path into a failure.
    pub(crate) fn of_io(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        let failure = Shared::of_io(path);
        move |error| failure(error).into()
    }

    /// Returns a function that turns an error of writing this path into a failure.
    pub(crate) fn not_written(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        let failure = Shared::not_written(path);
        move |error| failure(error).into()
    }
}

fn nothing_to_merge(left_out: usize) -> &'static str {
    match left_out {
        0 => {
            "there are no records: name files `*.rec`, or folders with such files, as `--records` keeps them"
        }
        _ => "no record could be read (see the warnings above)",
    }
}
