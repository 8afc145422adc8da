//! The errors of the command, each with a message and an exit code.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

use kernel_registry_format::{Malformed, VERSION};
use kernel_registry_image::{Error, FindError};

/// What the help of commands says of [`Failure::code`].
pub(crate) const EXIT_CODES: &str = "\
Exit codes: 0 done, 2 wrong usage, 3 no such file, 4 permission denied, 5 not a binary or image, 6 truncated or damaged,
7 no kernels, or none of this name, 8 records newer than this tool, 9 the build failed, 10 images disagree with
declarations or sources, also for `--check`, 11 the doctor found problems, 13 `diff` found changes beyond the limits, 14 `fit` found a kernel that does
not fit, 15 part of an image could not be read, 1 anything else";

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Missing { path: PathBuf },
    Denied { path: PathBuf },
    Unreadable { path: PathBuf, error: io::Error },
    NotABinary { path: PathBuf },
    AnImage { path: PathBuf },
    Truncated { path: PathBuf, error: object::Error },
    Damaged { path: PathBuf, malformed: Malformed },
    ControlCharacter { path: PathBuf, name: String },
    NoRecords { path: PathBuf },
    NoKernels { path: PathBuf, library: String },
    NoneOfPackage { package: String, there: Vec<String> },
    NoneNamed { name: String, near: Vec<String> },
    Newer { path: PathBuf, version: u16 },
    Image { path: PathBuf, error: Error },
    Differences { count: usize },
    Problems { count: usize },
    NotInImage { error: FindError },
    NothingToDeclare { path: PathBuf },
    NotRust { path: PathBuf, error: syn::Error },
    WithoutKernels { path: PathBuf },
    NothingToCompare { path: PathBuf },
    OtherJson { path: PathBuf, error: serde_json::Error },
    OtherSchema { path: PathBuf, schema: u64, known: u32 },
    Unread { variants: usize, images: usize },
    Exceeded { count: usize },
    DoesNotFit { count: usize },
    CannotRun { kernel: String, gpu: u32, why: String },
    NoMachineCode { kernel: String, gpu: Option<u32>, there: String },
    Several { name: String, there: Vec<String> },
    NoBlock { kernel: String },
    NoMultiprocessors { gpu: u32 },
    NoPackage { path: PathBuf },
    NoOutput { path: PathBuf },
    OfOneFile { path: PathBuf },
    SameModule { path: PathBuf },
    NotCompiled { source: PathBuf, why: String },
    NotPreprocessed { source: PathBuf },
    NotWritten { path: PathBuf, error: io::Error },
    Outdated { path: PathBuf, count: usize, remedy: String },
    Prebuild { error: kernel_registry_build::Error },
    NothingToPrebuild,
    NoMember { spec: String },
    PackageName { name: String, why: &'static str },
    Exists { path: PathBuf },
    NotACheckout { path: PathBuf },
    BuildFailed,
    NothingBuilt,
    Cargo { error: String },
    NotBuilt { crate_name: &'static str, version: &'static str },
    NoDriver { why: String },
    PackedWithoutSim,
    NoOption { option: OsString },
    AuditedAlready,
    Findings { count: usize },
    NothingToMerge { left_out: usize },
    LeftOut { count: usize },
    Failed { code: u8 },
    NotLoaded { path: PathBuf, why: String },
    Separator { what: &'static str, path: PathBuf, separator: char, variable: &'static str },
    NotRun { program: OsString, error: io::Error },
    Output { error: io::Error },
}

impl Failure {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Missing { .. } => 3,
            Failure::Denied { .. } => 4,
            Failure::NotABinary { .. } | Failure::AnImage { .. } => 5,
            Failure::Image { error: Error::NotAnImage | Error::OtherElf { .. }, .. } => 5,
            Failure::NothingToCompare { .. } => 5,
            Failure::OtherJson { error, .. } if error.is_data() => 5,
            Failure::OtherJson { .. } => 6,
            Failure::Truncated { .. } | Failure::Damaged { .. } | Failure::Image { .. } => 6,
            Failure::ControlCharacter { .. } => 6,
            Failure::NothingToMerge { .. } => 6,
            Failure::NoRecords { .. }
            | Failure::NoKernels { .. }
            | Failure::NoneOfPackage { .. }
            | Failure::NoneNamed { .. }
            | Failure::NotInImage { .. }
            | Failure::WithoutKernels { .. }
            | Failure::NothingToDeclare { .. } => 7,
            Failure::NoOutput { .. } | Failure::OfOneFile { .. } | Failure::NoOption { .. } => 2,
            Failure::Newer { .. } | Failure::OtherSchema { .. } => 8,
            Failure::Prebuild { error: kernel_registry_build::Error::Drift { .. } } => 10,
            Failure::BuildFailed
            | Failure::Prebuild { .. }
            | Failure::NotCompiled { .. }
            | Failure::NotPreprocessed { .. }
            | Failure::NotBuilt { .. } => 9,
            Failure::Differences { .. } | Failure::Outdated { .. } => 10,
            Failure::Problems { .. } => 11,
            Failure::Findings { .. } => 12,
            Failure::Exceeded { .. } => 13,
            Failure::DoesNotFit { .. } | Failure::CannotRun { .. } => 14,
            Failure::Unread { .. } => 15,
            Failure::NoMachineCode { .. } | Failure::Several { .. } => 7,
            Failure::NoBlock { .. } | Failure::NoMultiprocessors { .. } => 2,
            Failure::Failed { code } => *code,
            // As in shells and `env`, so that the program's own codes stay distinguishable.
            Failure::NotRun { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            Failure::NotRun { .. } => 126,
            Failure::Unreadable { .. }
            | Failure::NoPackage { .. }
            | Failure::SameModule { .. }
            | Failure::NotWritten { .. }
            | Failure::NotRust { .. }
            | Failure::NothingToPrebuild
            | Failure::NoMember { .. }
            | Failure::PackageName { .. }
            | Failure::Exists { .. }
            | Failure::NotACheckout { .. }
            | Failure::NothingBuilt
            | Failure::Cargo { .. }
            | Failure::NotLoaded { .. }
            | Failure::NoDriver { .. }
            | Failure::PackedWithoutSim
            | Failure::AuditedAlready
            | Failure::LeftOut { .. }
            | Failure::Separator { .. }
            | Failure::Output { .. } => 1,
        }
    }

    /// The error of opening this path.
    pub(crate) fn of_io(path: PathBuf, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Failure::Missing { path },
            io::ErrorKind::PermissionDenied => Failure::Denied { path },
            _ => Failure::Unreadable { path, error },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Missing { path } => write!(f, "there is no file `{}`", path.display()),
            Failure::Denied { path } => write!(f, "no permission to read `{}`", path.display()),
            Failure::Unreadable { path, error } => write!(f, "`{}` cannot be read: {error}", path.display()),
            Failure::NotABinary { path } => write!(
                f,
                "`{}` is not a binary: expected an executable, shared library, archive or object file",
                path.display()
            ),
            Failure::AnImage { path } => write!(
                f,
                "`{0}` is an image and has no declarations: `cargo kernels show --all {0}` shows its kernels",
                path.display()
            ),
            Failure::Truncated { path, error } => {
                write!(f, "`{}` is a binary that is truncated or damaged: {error}", path.display())
            }
            Failure::Damaged { path, malformed } => {
                write!(f, "the kernels of `{}` cannot be read: {malformed}", path.display())
            }
            Failure::ControlCharacter { path, name } => write!(
                f,
                "the kernels of `{}` cannot be read: the name {name:?} in a record has control characters, which \
                 kernel-registry does not write",
                path.display()
            ),
            Failure::NoRecords { path } => write!(
                f,
                "`{}` holds no records of kernels: kernel-registry is not linked into it",
                path.display()
            ),
            Failure::NoKernels { path, library } => write!(
                f,
                "`{}` holds {library} but no kernels: rustc does not link a dependency that the code never names; \
                 `kernel_registry::link_kernels!` names one",
                path.display()
            ),
            Failure::NoneOfPackage { package, there } if there.is_empty() => {
                write!(f, "there are no kernels of `{package}` or of any other package")
            }
            Failure::NoneOfPackage { package, there } => {
                write!(f, "no kernels of `{package}`: the packages with kernels are {}", there.join(", "))
            }
            Failure::Newer { path, version } => write!(
                f,
                "`{}` holds kernels that are not listed, in records of version {version}, and this tool reads up to \
                 {VERSION}: `cargo install cargo-kernels` brings a newer one",
                path.display()
            ),
            Failure::NoneNamed { name, near } if near.is_empty() => {
                write!(f, "no kernel `{name}`: `cargo kernels list` shows all kernels")
            }
            Failure::NoneNamed { name, near } => {
                let near: Vec<_> = near.iter().map(|name| format!("`{name}`")).collect();
                write!(f, "no kernel `{name}`: did you mean {}?", near.join(" or "))
            }
            Failure::Image { path, error } => write!(f, "`{}`: {error}", path.display()),
            Failure::Differences { count } => {
                let s = if *count == 1 { "" } else { "s" };
                write!(f, "declarations and images disagree: {count} finding{s} above")
            }
            Failure::Problems { count } => {
                let (s, each) = if *count == 1 { ("", "") } else { ("s", "each ") };
                write!(f, "{count} problem{s} above, {each}with its remedy")
            }
            Failure::Unread { variants, images } => {
                let (s, each) = (if *variants == 1 { "" } else { "s" }, if *images == 1 { "" } else { "s" });
                write!(
                    f,
                    "{variants} variant{s} of {images} image{each} could not be read (see above), so kernels may be missing"
                )
            }
            Failure::NotInImage { error } => write!(f, "{error}"),
            Failure::NothingToDeclare { path } => {
                write!(f, "`{}` holds no kernels to declare", path.display())
            }
            Failure::NotRust { path, error } => write!(
                f,
                "`{}` is not Rust, so what was added to it cannot be kept: mend or remove it ({error})",
                path.display()
            ),
            Failure::WithoutKernels { path } => write!(f, "`{}` holds no kernels", path.display()),
            Failure::NothingToCompare { path } => write!(
                f,
                "`{}` cannot be compared: it is neither a binary, nor an image (PTX, cubin or fatbin), nor the JSON of \
                 `cargo kernels show --all --json`",
                path.display()
            ),
            Failure::OtherJson { path, error } if error.is_data() => write!(
                f,
                "`{}` is not the JSON of `cargo kernels show --all --json`: {error}",
                path.display()
            ),
            Failure::OtherJson { path, error } => {
                write!(f, "`{}` is JSON that is truncated or damaged: {error}", path.display())
            }
            Failure::OtherSchema { path, schema, known } => write!(
                f,
                "`{}` has schema {schema}, and this tool reads schema {known}: write it again with this version, or `cargo install \
                 cargo-kernels` brings a newer one",
                path.display()
            ),
            Failure::Exceeded { count } => {
                let s = if *count == 1 { "" } else { "s" };
                write!(f, "{count} change{s} beyond the limits, listed above")
            }
            Failure::DoesNotFit { count } => {
                let s = if *count == 1 { "" } else { "s" };
                write!(f, "{count} refusal{s} above, with what would help")
            }
            Failure::CannotRun { kernel, gpu, why } => write!(f, "`{kernel}` cannot run on sm_{gpu}: {why}"),
            Failure::NoMachineCode { kernel, gpu, there } => {
                let gpu = gpu.map_or("any known GPU".to_owned(), |gpu| format!("sm_{gpu}"));
                write!(
                    f,
                    "`{kernel}` has no machine code for {gpu}, but {there}: PTX does not tell registers, so compile to machine \
                     code, as with `nvcc -arch=sm_90`, or choose a GPU of the image with `--gpu`"
                )
            }
            Failure::Several { name, there } => {
                write!(f, "several kernels are called `{name}`: choose one of {}", there.join(", "))
            }
            Failure::NoBlock { kernel } => write!(
                f,
                "nothing fixes the block of `{kernel}`: give its threads by `--block 256`, or behind its name in `--beside`, as in \
                 `{kernel}@256`"
            ),
            Failure::NoMultiprocessors { gpu } => write!(
                f,
                "no product with sm_{gpu} is known here: say how many multiprocessors it has, as in `--sms 160`"
            ),
            Failure::NoPackage { path } => write!(
                f,
                "`{}` is in no package, where declarations could find it: put it into a folder with a Cargo.toml, or \
                 say with `--image` what they call it",
                path.display()
            ),
            Failure::NoOutput { path } => write!(
                f,
                "`{}` is a folder: say where its modules go, as in `--output src/kernels`",
                path.display()
            ),
            Failure::OfOneFile { path } => write!(
                f,
                "`--image` and `--source` are about one file, and `{}` is a folder: leave them out",
                path.display()
            ),
            Failure::SameModule { path } => write!(
                f,
                "`{}` would be the same module as another file or folder beside it: rename it",
                path.display()
            ),
            Failure::NotCompiled { source, why } => write!(
                f,
                "`{}` could not be compiled to see its kernels: {why}; flags of your build go behind `--`, as in \
                 `-- -std=c++20`",
                source.display()
            ),
            Failure::NotPreprocessed { source } => write!(
                f,
                "nvcc could not expand the macros of `{}` (see its error above): give it the flags of your build behind \
                 `--`, as in `-- -I include`",
                source.display()
            ),
            Failure::NotWritten { path, error } => {
                write!(f, "`{}` cannot be written: {error}", path.display())
            }
            Failure::Outdated { path, count, remedy } => {
                let s = if *count == 1 { "" } else { "s" };
                write!(f, "`{}` is out of date, {count} difference{s} above: run `{remedy}`", path.display())
            }
            Failure::Prebuild { error: error @ kernel_registry_build::Error::Drift { .. } } => {
                write!(f, "{error} by `cargo kernels prebuild`")
            }
            Failure::Prebuild { error } => write!(f, "{error}"),
            Failure::NothingToPrebuild => write!(
                f,
                "no build script here compiles CUDA sources: call `kernel_registry_build::compile()` in build.rs, or name \
                 the package by `-p`"
            ),
            Failure::NoMember { spec } => write!(f, "there is no package `{spec}` in this workspace"),
            Failure::PackageName { name, why } => {
                write!(f, "`{name}` cannot be the name of a package: {why}; choose another name")
            }
            Failure::Exists { path } => {
                write!(f, "`{}` exists already: choose another name, or remove it", path.display())
            }
            Failure::NotACheckout { path } => write!(
                f,
                "`{}` is no checkout of kernel-registry, because it has no folder `kernel-registry` with a Cargo.toml: name \
                 the folder that `git clone` made, or leave out `--path`",
                path.display()
            ),
            Failure::BuildFailed => write!(f, "the package did not build"),
            Failure::NothingBuilt => write!(f, "the package has no binary or library to read"),
            Failure::Cargo { error } => write!(f, "cargo could not be run: {error}"),
            Failure::NotBuilt { crate_name, version } => write!(
                f,
                "{crate_name} did not build (see cargo's error above): it needs Rust 1.89 or newer, a linker, and once \
                 {crate_name} {version} with its dependencies, from the network or from what cargo has downloaded before"
            ),
            Failure::NoDriver { why } => write!(
                f,
                "there is no CUDA driver to watch ({why}); install NVIDIA's, or watch the program on the simulated one with `--sim`"
            ),
            Failure::NoOption { option } => write!(
                f,
                "`{0}` is not an option; see `--help`. Options come before the program, and a program of that name is `./{0}`",
                option.display()
            ),
            Failure::PackedWithoutSim => f.write_str(
                "this command was packed without the simulated driver: run `cargo kernels audit --sim` on a machine with Rust",
            ),
            Failure::AuditedAlready => f.write_str(
                "this process is audited already, by another `cargo kernels audit`, which watches its children too: run the program itself",
            ),
            Failure::Findings { count } => {
                let s = if *count == 1 { "" } else { "s" };
                write!(
                    f,
                    "{count} finding{s}: calls that were late after the program was ready, would have waited for a kernel that stayed, or did not return"
                )
            }
            Failure::NothingToMerge { left_out: 0 } => {
                write!(
                    f,
                    "there are no records: name files `*.rec`, or folders with such files, as `--records` keeps them"
                )
            }
            Failure::NothingToMerge { .. } => {
                write!(f, "no record could be read (see the warnings above)")
            }
            Failure::LeftOut { count } => {
                let s = if *count == 1 { "" } else { "s" };
                write!(f, "{count} record{s} could not be read (see the warnings above), so findings may be missing")
            }
            Failure::Failed { code } => write!(f, "the program ended with exit code {code}"),
            Failure::NotLoaded { path, why } => write!(
                f,
                "the simulated driver `{}` cannot be used: {why}; delete the file, so that it is built again",
                path.display()
            ),
            Failure::Separator { what, path, separator, variable } => write!(
                f,
                "{what} cannot be in `{}`: `{separator}` ends the name of a folder in `LD_LIBRARY_PATH`; \
                 set `{variable}` to a folder without it",
                path.display()
            ),
            Failure::NotRun { program, error } => write!(f, "`{}` cannot be run: {error}", program.display()),
            Failure::Output { error } => write!(f, "the output could not be written: {error}"),
        }
    }
}

impl std::error::Error for Failure {}
