//! The errors of the command, each with a message and an exit code.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use kernel_registry_command::{Failure as Shared, many};
use kernel_registry_format::{Malformed, VERSION};
use kernel_registry_image::{Error, FindError};

/// The part of each command's help about [`Failure::code`].
pub(crate) const EXIT_CODES: &str = "\
Exit codes: 0 done, 2 wrong usage, 3 no such file, 4 permission denied, 5 not a binary or image, 6 truncated or damaged,
7 no kernels, or none of this name, 8 records newer than this tool, 9 the build failed, 10 images disagree with
declarations or sources, also for `--check`, 11 the doctor found problems, 13 `diff` found changes beyond the limits, 14 `fit` found a kernel that does
not fit, 15 part of an image could not be read, 1 anything else";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Shared(#[from] Shared),
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Audit(#[from] kernel_audit::command::Failure),
    #[error(
        "`{path}` is an image and has no declarations: `cargo kernels show --all {path}` shows its kernels"
    )]
    AnImage { path: PathBuf },
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
    #[error("`{path}` is out of date, {} above: run `{remedy}`", many(*.count, "difference"))]
    Outdated { path: PathBuf, count: usize, remedy: String },
    #[error("{error}{}", if is_drift(.error) { " by `cargo kernels prebuild`" } else { "" })]
    Prebuild { error: kernel_registry_build::Error },
    #[error(
        "no build script here compiles CUDA sources: call `kernel_registry_build::compile()` in build.rs, or name the \
         package by `-p`"
    )]
    NothingToPrebuild,
    #[error("`{path}` has no PTX that a driver would compile")]
    WithoutPtx { path: PathBuf },
    #[error("no GPU is here whose architecture could be asked: name one, as in `--arch sm_90`")]
    NoArch,
    #[error("there is no package `{spec}` in this workspace")]
    NoMember { spec: String },
    #[error("`{name}` cannot be the name of a package: {why}; choose another name")]
    PackageName { name: String, why: &'static str },
    #[error("`{path}` exists already: choose another name, or remove it")]
    Exists { path: PathBuf },
    #[error(
        "`{path}` is no checkout of kernel-registry, because it has no folder `kernel-registry` with a Cargo.toml: name \
         the folder that `git clone` made, or leave out `--path`"
    )]
    NotACheckout { path: PathBuf },
    #[cfg(not(target_os = "linux"))]
    #[error(
        "`cargo kernels {command}` puts a library in front of the CUDA driver, which it can on Linux only: run it there, or in \
         a container of Linux"
    )]
    OnLinux { command: &'static str },
    #[error(
        "`cargo metadata` fails, so nothing tells which crates the package depends on: run it to see why"
    )]
    NoGraph,
    #[error(
        "nothing tells which crates `{path}` depends on: run this in the folder of its package, on the file where cargo built it, or \
         without a path"
    )]
    NotOfPackage { path: PathBuf },
    #[error(
        "{}, which the driver has named above",
        many(*.races, "race")
    )]
    Races { races: usize },
    #[error(
        "{report}\n{} shows it. KERNEL_REGISTRY_SCHEDULE={} repeats it in the same command.",
        picture.display(),
        schedule.display()
    )]
    Order { report: String, schedule: PathBuf, picture: PathBuf },
    #[error("{report}\nIts schedule can't be written to `{path}`: {error}")]
    OrderNotWritten { report: String, path: PathBuf, error: io::Error },
    #[error("`{path}` is no whole schedule: its end is missing")]
    CutSchedule { path: PathBuf },
    #[error("{reason}\nIt fails in the order of `{}`.", schedule.display())]
    SameOrder { reason: String, schedule: PathBuf },
    #[error("`{path}` is no schedule: {error}")]
    NoSchedule { path: PathBuf, error: kernel_registry_schedule::ParseError },
    #[error(
        "nothing was watched: neither the program nor a child of it has initialised the driver of \
         `cargo kernels sim`, by `cuInit` and with the `LD_LIBRARY_PATH` that it was given"
    )]
    NothingWatched,
    #[error("the package did not build")]
    BuildFailed,
    #[error("the package has no binary or library to read")]
    NothingBuilt,
}

impl Failure {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Shared(failure) => failure.code(),
            #[cfg(target_os = "linux")]
            Failure::Audit(failure) => failure.code(),
            Failure::NoOutput { .. } | Failure::OfOneFile { .. } | Failure::NoArch => 2,
            Failure::NoBlock { .. } | Failure::NoMultiprocessors { .. } => 2,
            Failure::AnImage { .. } | Failure::NothingToCompare { .. } => 5,
            Failure::Image { error: Error::NotAnImage | Error::OtherElf { .. }, .. } => 5,
            Failure::OtherJson { error, .. } if error.is_data() => 5,
            Failure::OtherJson { .. } | Failure::ControlCharacter { .. } => 6,
            Failure::Damaged { .. } | Failure::Image { .. } => 6,
            Failure::NoRecords { .. } | Failure::NoKernels { .. } | Failure::WithoutKernels { .. } => 7,
            Failure::WithoutPtx { .. } => 7,
            Failure::OnlyLinked { .. } | Failure::NotDeviceLinked { .. } => 7,
            Failure::NoneOfPackage { .. } | Failure::NoneNamed { .. } | Failure::NotInImage { .. } => 7,
            Failure::NothingToDeclare { .. } | Failure::NoMachineCode { .. } | Failure::Several { .. } => 7,
            Failure::Newer { .. } | Failure::OtherSchema { .. } => 8,
            Failure::Prebuild { error } if is_drift(error) => 10,
            Failure::BuildFailed | Failure::Prebuild { .. } => 9,
            Failure::NotCompiled { .. } | Failure::NotPreprocessed { .. } => 9,
            Failure::Differences { .. } | Failure::Outdated { .. } => 10,
            Failure::Problems { .. } => 11,
            Failure::Exceeded { .. } => 13,
            Failure::DoesNotFit { .. } | Failure::CannotRun { .. } => 14,
            Failure::Unread { .. } => 15,
            Failure::Races { .. } => 16,
            Failure::Order { .. } | Failure::OrderNotWritten { .. } | Failure::SameOrder { .. } => 17,
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

    /// Turns an error of running cargo into a failure.
    pub(crate) fn of_cargo(error: impl Display) -> Self {
        Shared::of_cargo(error).into()
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

/// Returns whether committed images differ from what the sources compile to.
fn is_drift(error: &kernel_registry_build::Error) -> bool {
    matches!(error, kernel_registry_build::Error::Drift { .. })
}
