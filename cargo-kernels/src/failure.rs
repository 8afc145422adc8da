//! The errors of the command, each with a message and an exit code.

use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use kernel_registry_format::{Malformed, VERSION};
use kernel_registry_image::{Error, FindError};

use crate::plural::many;

/// What the help of commands says of [`Failure::code`].
pub(crate) const EXIT_CODES: &str = "\
Exit codes: 0 done, 2 wrong usage, 3 no such file, 4 permission denied, 5 not a binary or image, 6 truncated or damaged,
7 no kernels, or none of this name, 8 records newer than this tool, 9 the build failed, 10 images disagree with
declarations or sources, also for `--check`, 11 the doctor found problems, 13 `diff` found changes beyond the limits, 14 `fit` found a kernel that does
not fit, 15 part of an image could not be read, 1 anything else";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("there is no file `{path}`")]
    Missing { path: PathBuf },
    #[error("no permission to read `{path}`")]
    Denied { path: PathBuf },
    #[error("`{path}` cannot be read: {error}")]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("`{path}` is not a binary: expected an executable, shared library, archive or object file")]
    NotABinary { path: PathBuf },
    #[error(
        "`{path}` is an image and has no declarations: `cargo kernels show --all {path}` shows its kernels"
    )]
    AnImage { path: PathBuf },
    #[error("`{path}` is a binary that is truncated or damaged: {error}")]
    Truncated { path: PathBuf, error: object::Error },
    #[error("the kernels of `{path}` cannot be read: {malformed}")]
    Damaged { path: PathBuf, malformed: Malformed },
    #[error(
        "the kernels of `{path}` cannot be read: the name {name:?} in a record has control characters, which \
         kernel-registry does not write"
    )]
    ControlCharacter { path: PathBuf, name: String },
    #[error("`{path}` holds no records of kernels: kernel-registry is not linked into it")]
    NoRecords { path: PathBuf },
    #[error(
        "`{path}` holds no records of kernels, only kernels that nvcc linked: `cargo kernels list` and `show` read these"
    )]
    OnlyLinked { path: PathBuf },
    #[error("`{path}`: {why}")]
    NotDeviceLinked { path: PathBuf, why: &'static str },
    #[error(
        "`{path}` holds {library} but no kernels: rustc does not link a dependency that the code never names; \
         `kernel_registry::link_kernels!` names one"
    )]
    NoKernels { path: PathBuf, library: String },
    #[error("{}", none_of_package(.package, .there))]
    NoneOfPackage { package: String, there: Vec<String> },
    #[error("{}", none_named(.name, .near))]
    NoneNamed { name: String, near: Vec<String> },
    #[error(
        "`{path}` holds kernels that are not listed, in records of version {version}, and this tool reads up to {}: \
         `cargo install cargo-kernels` brings a newer one",
        VERSION
    )]
    Newer { path: PathBuf, version: u16 },
    #[error("`{path}`: {error}")]
    Image { path: PathBuf, error: Error },
    #[error("declarations and images disagree: {} above", many(*.count, "finding"))]
    Differences { count: usize },
    #[error("{} above, {}with its remedy", many(*.count, "problem"), if *.count == 1 { "" } else { "each " })]
    Problems { count: usize },
    #[error("{error}")]
    NotInImage { error: FindError },
    #[error("`{path}` holds no kernels to declare")]
    NothingToDeclare { path: PathBuf },
    #[error("`{path}` is not Rust, so what was added to it cannot be kept: mend or remove it ({error})")]
    NotRust { path: PathBuf, error: syn::Error },
    #[error("`{path}` holds no kernels")]
    WithoutKernels { path: PathBuf },
    #[error(
        "`{path}` cannot be compared: it is neither a binary, nor an image (PTX, cubin or fatbin), nor the JSON of \
         `cargo kernels show --all --json`"
    )]
    NothingToCompare { path: PathBuf },
    #[error(
        "`{path}` is {}: {error}",
        if .error.is_data() { "not the JSON of `cargo kernels show --all --json`" } else { "JSON that is truncated or damaged" }
    )]
    OtherJson { path: PathBuf, error: serde_json::Error },
    #[error(
        "`{path}` has schema {schema}, and this tool reads schema {known}: write it again with this version, or `cargo \
         install cargo-kernels` brings a newer one"
    )]
    OtherSchema { path: PathBuf, schema: u64, known: u32 },
    #[error(
        "{} of {} could not be read (see above), so kernels may be missing",
        many(*.variants, "variant"), many(*.images, "image")
    )]
    Unread { variants: usize, images: usize },
    #[error("{} beyond the limits, listed above", many(*.count, "change"))]
    Exceeded { count: usize },
    #[error("{} above, with what would help", many(*.count, "refusal"))]
    DoesNotFit { count: usize },
    #[error("`{kernel}` cannot run on sm_{gpu}: {why}")]
    CannotRun { kernel: String, gpu: u32, why: String },
    #[error(
        "`{kernel}` has no machine code for {}, but {there}: PTX does not tell registers, so compile to machine code, \
         as with `nvcc -arch=sm_90`, or choose a GPU of the image with `--gpu`",
        .gpu.map_or("any known GPU".to_owned(), |gpu| format!("sm_{gpu}"))
    )]
    NoMachineCode { kernel: String, gpu: Option<u32>, there: String },
    #[error("several kernels are called `{name}`: choose one of {}", .there.join(", "))]
    Several { name: String, there: Vec<String> },
    #[error(
        "nothing fixes the block of `{kernel}`: give its threads by `--block 256`, or behind its name in `--beside`, as \
         in `{kernel}@256`"
    )]
    NoBlock { kernel: String },
    #[error("no product with sm_{gpu} is known here: say how many multiprocessors it has, as in `--sms 160`")]
    NoMultiprocessors { gpu: u32 },
    #[error(
        "`{path}` is in no package, where declarations could find it: put it into a folder with a Cargo.toml, or say \
         with `--image` what they call it"
    )]
    NoPackage { path: PathBuf },
    #[error("`{path}` is a folder: say where its modules go, as in `--output src/kernels`")]
    NoOutput { path: PathBuf },
    #[error("`--image` and `--source` are about one file, and `{path}` is a folder: leave them out")]
    OfOneFile { path: PathBuf },
    #[error("`{path}` would be the same module as another file or folder beside it: rename it")]
    SameModule { path: PathBuf },
    #[error(
        "`{path}` could not be compiled to see its kernels: {why}; flags of your build go behind `--`, as in `-- \
         -std=c++20`"
    )]
    NotCompiled { path: PathBuf, why: String },
    #[error(
        "nvcc could not expand the macros of `{path}` (see its error above): give it the flags of your build behind \
         `--`, as in `-- -I include`"
    )]
    NotPreprocessed { path: PathBuf },
    #[error("`{path}` cannot be written: {error}")]
    NotWritten { path: PathBuf, error: io::Error },
    #[error("`{path}` is out of date, {} above: run `{remedy}`", many(*.count, "difference"))]
    Outdated { path: PathBuf, count: usize, remedy: String },
    #[error("{error}{}", if is_drift(.error) { " by `cargo kernels prebuild`" } else { "" })]
    Prebuild { error: kernel_registry_build::Error },
    #[error(
        "no build script here compiles CUDA sources: call `kernel_registry_build::compile()` in build.rs, or name the \
         package by `-p`"
    )]
    NothingToPrebuild,
    #[error("there is no package `{spec}` in this workspace")]
    NoMember { spec: String },
    #[error("`{name}` cannot be the name of a package: {why}; choose another name")]
    PackageName { name: String, why: &'static str },
    #[error("`{path}` exists already: choose another name, or remove it")]
    Exists { path: PathBuf },
    #[error("`{path}` is there already and is no empty file: give `--ready-file` another name")]
    NoMark { path: PathBuf },
    #[error(
        "`{path}` is no checkout of kernel-registry, because it has no folder `kernel-registry` with a Cargo.toml: name \
         the folder that `git clone` made, or leave out `--path`"
    )]
    NotACheckout { path: PathBuf },
    #[error("the package did not build")]
    BuildFailed,
    #[error("the package has no binary or library to read")]
    NothingBuilt,
    #[error("cargo could not describe the package: {error}")]
    Cargo { error: String },
    #[error(
        "{crate_name} did not build (see cargo's error above): it needs Rust 1.89 or newer, a linker, and once \
         {crate_name} {version} with its dependencies, from the network or from what cargo has downloaded before"
    )]
    NotBuilt { crate_name: &'static str, version: &'static str },
    #[error(
        "there is no CUDA driver to watch ({why}); install NVIDIA's, or watch the program on the simulated one with \
         `--sim`"
    )]
    NoDriver { why: String },
    #[error(
        "this command was packed without the simulated driver: run `cargo kernels audit --sim` on a machine with Rust"
    )]
    PackedWithoutSim,
    #[error(
        "`{0}` is not an option; see `--help`. Options come before the program, and a program of that name is `./{0}`",
        .option.display()
    )]
    NoOption { option: OsString },
    #[error(
        "this process is audited already, by another `cargo kernels audit`, which watches its children too: run the \
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
    #[error(
        "`{path}` is a file: `--watch` takes the folder of the records, and `--merge {path}` reports on one"
    )]
    WatchesFile { path: PathBuf },
    #[error("`{path}` is merged into another file: name that by `--record FILE`")]
    MergedNowhere { path: PathBuf },
    #[error(
        "there is no folder `{folder}`, so nobody can make the file of `--ready-file`: make it first, or name another"
    )]
    NoFolderOfMark { folder: PathBuf },
    #[error("`{path}` cannot be preloaded: {why}")]
    NoPreload { path: PathBuf, why: String },
    #[error("{}", nothing_to_merge(*.left_out))]
    NothingToMerge { left_out: usize },
    #[error("{} could not be read (see the warnings above), so findings may be missing", many(*.count, "record"))]
    LeftOut { count: usize },
    #[error("a thread of the audit could not be started in {} (see above), so findings may be missing", many(*.count, "case"))]
    LackThreads { count: usize },
    #[error("the program ended with exit code {code}")]
    Failed { code: u8 },
    #[error(
        "the simulated driver `{path}` cannot be used: {why}; delete the file, so that it is built again"
    )]
    NotLoaded { path: PathBuf, why: String },
    #[error(
        "{what} cannot be in `{path}`: `{separator}` ends the name of a folder in `LD_LIBRARY_PATH`; set `{variable}` \
         to a folder without it"
    )]
    Separator { what: &'static str, path: PathBuf, separator: char, variable: &'static str },
    #[error(
        "the library in front of the driver needs a folder that only you can write to: set `XDG_CACHE_HOME` to one ({refused})"
    )]
    NoFront { refused: String },
    #[error("`{}` cannot be run: {error}", .program.display())]
    NotRun { program: OsString, error: io::Error },
    #[error("the output could not be written: {error}")]
    Output { error: io::Error },
}

impl Failure {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::NoOutput { .. } | Failure::OfOneFile { .. } | Failure::NoOption { .. } => 2,
            Failure::NoBlock { .. } | Failure::NoMultiprocessors { .. } => 2,
            Failure::WatchesFile { .. } | Failure::MergedNowhere { .. } => 2,
            Failure::Missing { .. } | Failure::NoFolderOfMark { .. } => 3,
            Failure::Denied { .. } => 4,
            Failure::NotABinary { .. } | Failure::AnImage { .. } | Failure::NothingToCompare { .. } => 5,
            Failure::Image { error: Error::NotAnImage | Error::OtherElf { .. }, .. } => 5,
            Failure::OtherJson { error, .. } if error.is_data() => 5,
            Failure::OtherJson { .. } | Failure::ControlCharacter { .. } | Failure::NothingToMerge { .. } => {
                6
            }
            Failure::NoPreload { .. } => 6,
            Failure::Truncated { .. } | Failure::Damaged { .. } | Failure::Image { .. } => 6,
            Failure::NoRecords { .. } | Failure::NoKernels { .. } | Failure::WithoutKernels { .. } => 7,
            Failure::OnlyLinked { .. } | Failure::NotDeviceLinked { .. } => 7,
            Failure::NoneOfPackage { .. } | Failure::NoneNamed { .. } | Failure::NotInImage { .. } => 7,
            Failure::NothingToDeclare { .. } | Failure::NoMachineCode { .. } | Failure::Several { .. } => 7,
            Failure::Newer { .. } | Failure::OtherSchema { .. } => 8,
            Failure::Prebuild { error } if is_drift(error) => 10,
            Failure::BuildFailed | Failure::NotBuilt { .. } | Failure::Prebuild { .. } => 9,
            Failure::NotCompiled { .. } | Failure::NotPreprocessed { .. } => 9,
            Failure::Differences { .. } | Failure::Outdated { .. } => 10,
            Failure::Problems { .. } => 11,
            Failure::Findings { .. } => 12,
            Failure::Exceeded { .. } => 13,
            Failure::DoesNotFit { .. } | Failure::CannotRun { .. } => 14,
            Failure::Unread { .. } => 15,
            Failure::Failed { code } => *code,
            // As in shells and `env`, so that the program's own codes stay distinguishable.
            Failure::NotRun { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            Failure::NotRun { .. } => 126,
            _ => 1,
        }
    }

    /// Makes an error of opening this path a failure.
    pub(crate) fn of_io(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |error| match (error.kind(), path.to_owned()) {
            (io::ErrorKind::NotFound, path) => Failure::Missing { path },
            (io::ErrorKind::PermissionDenied, path) => Failure::Denied { path },
            (_, path) => Failure::Unreadable { path, error },
        }
    }

    /// Makes an error of writing this path a failure.
    pub(crate) fn not_written(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |error| Failure::NotWritten { path: path.to_owned(), error }
    }

    /// Makes an error of running cargo a failure.
    pub(crate) fn of_cargo(error: impl Display) -> Self {
        Failure::Cargo { error: error.to_string() }
    }
}

fn none_of_package(package: &str, there: &[String]) -> String {
    match there {
        [] => format!("there are no kernels of `{package}` or of any other package"),
        there => format!("no kernels of `{package}`: the packages with kernels are {}", there.join(", ")),
    }
}

fn none_named(name: &str, near: &[String]) -> String {
    let near: Vec<_> = near.iter().map(|name| format!("`{name}`")).collect();
    match near.as_slice() {
        [] => format!("no kernel `{name}`: `cargo kernels list` shows all kernels"),
        near => format!("no kernel `{name}`: did you mean {}?", near.join(" or ")),
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

/// Whether committed images are not those of the sources.
fn is_drift(error: &kernel_registry_build::Error) -> bool {
    matches!(error, kernel_registry_build::Error::Drift { .. })
}
