//! Defines the errors of a build. Each has one sentence, with the remedy last.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the sources were not compiled.
#[non_exhaustive]
pub enum Error {
    /// A variable that cargo sets for build scripts isn't set.
    NoVariable {
        /// The name of the variable.
        name: &'static str,
    },
    /// There is nothing to compile.
    NoSources {
        /// The folder that was searched.
        folder: PathBuf,
    },
    /// A source that was named doesn't exist.
    MissingSource {
        /// The path of the source, as it was given.
        source: PathBuf,
        /// The package.
        package: PathBuf,
    },
    /// A source is outside of the package.
    Outside {
        /// The path of the source, as it was given.
        source: PathBuf,
        /// The package.
        package: PathBuf,
    },
    /// A source has a name that cannot be written into the index.
    Name {
        /// The path of the source.
        source: PathBuf,
    },
    /// A `// kernel-registry:` line of a source can't be parsed.
    Directive {
        /// The source, relative to the package.
        source: String,
        /// The line, from 1.
        line: usize,
        /// The word that isn't understood.
        word: String,
    },
    /// A text is not the name of an architecture.
    NotAnArch {
        /// The invalid name.
        arch: String,
        /// An example of a valid name.
        like: &'static str,
    },
    /// The compiler does not know an architecture.
    UnknownArch {
        /// The compiler, with its version.
        compiler: String,
        /// The compiler's message.
        said: String,
        /// How to list the architectures that the compiler knows, or what else to do.
        remedy: String,
    },
    /// `KERNEL_REGISTRY_COMPILER` has an unknown value.
    UnknownChoice {
        /// The value.
        value: String,
    },
    /// The compiler that a variable names doesn't exist.
    NoCompiler {
        /// The name of the compiler.
        asked: &'static str,
        /// The paths that were searched.
        looked: Vec<PathBuf>,
        /// Whether a Python environment is active.
        python: bool,
    },
    /// Some sources have no image, and this is a release build.
    NoImages {
        /// Each source, with the reason.
        sources: Vec<(String, String)>,
        /// Whether there is an NVRTC, which only lacks headers that these sources include.
        has_nvrtc: bool,
    },
    /// A compiler cannot be started or loaded.
    Unusable {
        /// The compiler.
        compiler: PathBuf,
        /// The error of the operating system.
        why: String,
    },
    /// nvcc finds no C++ compiler to preprocess with.
    NoHostCompiler {
        /// nvcc, with its version.
        compiler: String,
        /// The compiler's message.
        said: String,
    },
    /// The compiler found errors in a source.
    Rejected {
        /// The source, relative to the package.
        source: String,
        /// The compiler, with its version.
        compiler: String,
        /// All messages of the compiler.
        text: String,
    },
    /// The compiler ended without a result.
    Crashed {
        /// The source, relative to the package.
        source: String,
        /// The compiler, with its version.
        compiler: String,
        /// How it ended: a signal, or an exit code.
        how: String,
        /// The command line.
        command: String,
        /// The output of the command.
        text: String,
    },
    /// A source needs a header that NVRTC doesn't have, and there is no other compiler.
    NeedsHeader {
        /// The source, relative to the package.
        source: String,
        /// The header.
        header: String,
        /// The Python wheel with the header and its version, if it's one of the toolkit's.
        wheel: Option<String>,
    },
    /// There is no NVRTC to make prebuilt images with.
    NoNvrtc,
    /// NVRTC is too new to make prebuilt images.
    TooNew {
        /// NVRTC, with its version.
        compiler: String,
    },
    /// The prebuilt images differ from what the sources compile to.
    Drift {
        /// Each source or file, with its difference.
        sources: Vec<(String, String)>,
    },
    /// Another version of this crate wrote a file of a build script.
    OtherVersion {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    File {
        /// The attempted operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A static library could not be rewritten.
    Archive {
        /// The library.
        archive: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// More than one of the above.
    Several(Vec<Error>),
}

impl Error {
    pub(crate) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |error| Error::File { doing, path, error }
    }

    /// Combines different errors into one. Returns `None` if there are none.
    pub(crate) fn several(mut errors: Vec<Error>) -> Option<Error> {
        let mut said = HashSet::new();
        errors.retain(|error| said.insert(error.to_string()));
        if errors.len() > 1 { Some(Error::Several(errors)) } else { errors.pop() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoVariable { name } => {
                write!(f, "`{name}` is not set, which cargo sets for build scripts: call this from build.rs")
            }
            Error::NoSources { folder } => write!(
                f,
                "there are no CUDA sources in `{}`: put `.cu` files there, or name them with `Build::file`",
                folder.display()
            ),
            Error::MissingSource { source, package } => write!(
                f,
                "there is no file `{}` in `{}`: paths of sources are relative to Cargo.toml",
                source.display(),
                package.display()
            ),
            Error::Outside { source, package } => write!(
                f,
                "the source `{}` is outside of the package `{}` and would be missing when that is published: \
                 move it into the package",
                source.display(),
                package.display()
            ),
            Error::Name { source } => write!(
                f,
                "the name of the source {source:?} is not UTF-8, or has a line break or tab in it: rename it"
            ),
            Error::Directive { source, line, word } => write!(
                f,
                "{source}:{line}: `{word}` is not understood: \
                 write `// kernel-registry: arch=sm_90 ptx=compute_90`"
            ),
            Error::NotAnArch { arch, like } => {
                write!(f, "`{arch}` is not the name of an architecture: write it like `{like}`")
            }
            Error::UnknownArch { compiler, said, remedy } => {
                write!(f, "{compiler} does not know an architecture that was asked for ({said}): {remedy}")
            }
            Error::UnknownChoice { value } => write!(
                f,
                "`KERNEL_REGISTRY_COMPILER` is `{value}`: set it to `nvcc`, `nvrtc`, `prebuilt` or `none`, or not at all"
            ),
            Error::NoCompiler { asked, looked, python } => {
                let python = if *python { "" } else { NO_PYTHON };
                let looked: Vec<_> = looked.iter().map(|place| format!("`{}`", place.display())).collect();
                let looked = if looked.is_empty() { "any place".to_owned() } else { looked.join(", ") };
                write!(
                    f,
                    "`KERNEL_REGISTRY_COMPILER` asks for {asked}, which was not found in {looked}{python}: \
                     install it and set `CUDA_HOME` to where it is"
                )
            }
            Error::NoImages { sources, has_nvrtc } => {
                write!(f, "{}: {}", missing(sources), remedy(*has_nvrtc))
            }
            Error::Unusable { compiler, why } => write!(
                f,
                "`{}` cannot be used: {why}; mend its installation, or choose another compiler by \
                 `KERNEL_REGISTRY_COMPILER` or `CUDA_HOME`",
                compiler.display()
            ),
            Error::NoHostCompiler { compiler, said } => write!(
                f,
                "{compiler} has no C++ compiler of the host to preprocess with ({said}): install g++, name one by \
                 `NVCC_CCBIN`, or set `KERNEL_REGISTRY_COMPILER=nvrtc`"
            ),
            Error::Rejected { source, compiler, text } => {
                writeln!(f, "{}\n", text.trim_end())?;
                write!(f, "{compiler} found errors in {source}")
            }
            Error::Crashed { source, compiler, how, command, text } => {
                if !text.trim().is_empty() {
                    writeln!(f, "{}\n", text.trim_end())?;
                }
                write!(
                    f,
                    "{compiler} crashed on {source} ({how}); to see it again, run in the package's folder: {command}"
                )
            }
            Error::NeedsHeader { source, header, wheel: Some(wheel) } => write!(
                f,
                "{source} includes `{header}`, which NVRTC does not have: run `pip install \"{wheel}\"`, or compile with nvcc"
            ),
            Error::NeedsHeader { source, header, wheel: None } => {
                write!(f, "{source} includes `{header}`, which NVRTC does not have: {WITHOUT_HEADER}")
            }
            Error::NoNvrtc => {
                write!(f, "prebuilt images are made with NVRTC, and there is none: {NVRTC_12_0}")
            }
            Error::TooNew { compiler } => write!(
                f,
                "{compiler} makes images that need a newer driver than CUDA 12.0's, and prebuilt ones are for all: \
                 {NVRTC_12_0}"
            ),
            Error::Drift { sources } => {
                write!(f, "prebuilt images do not match their sources: {}; make them again", list(sources))
            }
            Error::OtherVersion { path } => write!(
                f,
                "`{}` was written by another version of kernel-registry-build: use the same version",
                path.display()
            ),
            Error::File { doing, path, error } => write!(f, "cannot {doing} `{}`: {error}", path.display()),
            Error::Archive { archive, why } => write!(f, "`{}`: {why}", archive.display()),
            Error::Several(errors) => f.write_str(&paragraphs(errors)),
        }
    }
}

impl std::error::Error for Error {}

// `main` and `unwrap` print errors with `Debug`, and people read that too.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The remedy if prebuilt images can't be made: the wheels of the compiler, and of headers such as
/// `cuda_fp16.h`.
const NVRTC_12_0: &str = "install NVRTC 12.0 by `pip install --no-deps --target nvrtc-12.0 \
     nvidia-cuda-nvrtc-cu12==12.0.140 nvidia-cuda-runtime-cu12==12.0.146`, and run \
     `cargo kernels prebuild --nvrtc nvrtc-12.0`";

/// The hint if no virtual environment is active, because one might have a compiler.
pub(crate) const NO_PYTHON: &str = ", nor an active virtual environment (`VIRTUAL_ENV`) that could have one";

/// The remedy for a header that no wheel has, because it's a header of the host.
pub(crate) const WITHOUT_HEADER: &str = "put `#ifndef __CUDACC_RTC__` around it, as kernels need no header for `printf` or `assert`, or compile with nvcc";

/// Returns the remedy for a missing image. Doesn't suggest to install NVRTC if it's already there.
pub(crate) fn remedy(has_nvrtc: bool) -> &'static str {
    const WITH_NVRTC: &str = "change the sources so, or install nvcc and set `CUDA_HOME` to its toolkit, commit prebuilt \
         images made by `cargo kernels prebuild`, or set `KERNEL_REGISTRY_COMPILER=none` to build without images";
    if has_nvrtc { WITH_NVRTC } else { REMEDY }
}

/// The remedy if there is neither a compiler nor a prebuilt image. It names NVRTC 12.0, because all drivers
/// since CUDA 12.0 accept its PTX.
const REMEDY: &str = "install a CUDA toolkit no newer than your oldest driver and set `CUDA_HOME` to it (into a \
     virtual environment, `pip install nvidia-cuda-nvrtc-cu12==12.0.140` is enough for most sources), commit prebuilt \
     images made by `cargo kernels prebuild`, or set `KERNEL_REGISTRY_COMPILER=none` to build without images";

/// Returns the warning that sources have no image. `sources` has a reason for each.
pub(crate) fn missing(sources: &[(String, String)]) -> String {
    format!("no image for {}", list(sources))
}

/// Returns the warning that a prebuilt image was used although it may be stale.
pub(crate) fn doubtful(source: &str, why: &str) -> String {
    format!(
        "{source}: its prebuilt image is used and may be stale: {why}; compare it by \
         `cargo kernels prebuild --check`, or install a compiler"
    )
}

/// Returns `a, b (reason), c (reason)`: consecutive sources share a reason.
fn list(sources: &[(String, String)]) -> String {
    let same_reason = sources.chunk_by(|(_, reason), (_, next)| reason == next).map(|sources| {
        let names: Vec<&str> = sources.iter().map(|(source, _)| source.as_str()).collect();
        format!("{} ({})", names.join(", "), sources[0].1)
    });
    same_reason.collect::<Vec<_>>().join(", ")
}

/// Returns the compiler's messages for each source, then one sentence for all.
fn paragraphs(errors: &[Error]) -> String {
    let (mut said, mut others) = (Vec::new(), Vec::new());
    let (mut rejected, mut by) = (Vec::new(), "");
    for error in errors {
        if let Error::Rejected { source, compiler, text } = error {
            said.push(text.trim_end().to_owned());
            rejected.push(source.as_str());
            by = compiler;
        } else {
            others.push(error.to_string());
        }
    }
    said.extend(others);
    if !rejected.is_empty() {
        said.push(format!("{by} found errors in {}", rejected.join(", ")));
    }
    said.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a sample of each variant, with words of its text that say what to do. A variant without a sample doesn't compile. The
    /// words are empty if the text is that of a compiler or of the system.
    macro_rules! samples {
        ($($variant:ident $({ $($fields:tt)* })? $(($($wrapped:tt)*))? => $words:expr,)+) => {{
            #[allow(unreachable_patterns, reason = "a variant can have several samples")]
            let variant = |error: &Error| match error {
                $(Error::$variant { .. } => stringify!($variant),)+
            };
            [$({
                let sample = Error::$variant $({ $($fields)* })? $(($($wrapped)*))?;
                assert_eq!(variant(&sample), stringify!($variant));
                (sample.to_string(), $words)
            }),+]
        }};
    }

    #[test]
    fn errors_say_what_to_do() {
        let text = str::to_owned;
        let (source, compiler, said) = (|| text("a.cu"), || text("nvcc 13.0"), || text("what it said"));
        let (path, package) = (|| PathBuf::from("a.cu"), PathBuf::new);
        let reasons = || vec![(source(), text("why"))];
        for (text, words) in samples! {
            NoVariable { name: "OUT_DIR" } => "call this from build.rs",
            NoSources { folder: path() } => "put `.cu` files there",
            MissingSource { source: path(), package: package() } => "paths of sources are relative to Cargo.toml",
            Outside { source: path(), package: package() } => "move it into the package",
            Name { source: path() } => "rename it",
            Directive { source: source(), line: 1, word: text("x") } => "write `// kernel-registry: ",
            NotAnArch { arch: text("x"), like: "sm_90" } => "write it like `sm_90`",
            UnknownArch { compiler: compiler(), said: said(), remedy: text("ask it") } => "ask it",
            UnknownChoice { value: text("x") } => "set it to `nvcc`",
            NoCompiler { asked: "nvcc", looked: Vec::new(), python: true } => "set `CUDA_HOME`",
            NoImages { sources: reasons(), has_nvrtc: false } => "install a CUDA toolkit",
            NoImages { sources: reasons(), has_nvrtc: true } => "or install nvcc",
            Unusable { compiler: path(), why: text("why") } => "mend its installation",
            NoHostCompiler { compiler: compiler(), said: said() } => "install g++",
            Rejected { source: source(), compiler: compiler(), text: said() } => "",
            Crashed {
                source: source(), compiler: compiler(), how: text("why"), command: text("nvcc a.cu"), text: said()
            } => "to see it again, run in the package's folder: nvcc a.cu",
            NeedsHeader { source: source(), header: text("a.h"), wheel: None } => "or compile with nvcc",
            NeedsHeader { source: source(), header: text("a.h"), wheel: Some(text("b")) } => "`pip install \"b\"`",
            NoNvrtc => "install NVRTC 12.0",
            TooNew { compiler: compiler() } => "install NVRTC 12.0",
            Drift { sources: reasons() } => "make them again",
            OtherVersion { path: path() } => "use the same version",
            File { doing: "read", path: path(), error: io::ErrorKind::NotFound.into() } => "",
            Archive { archive: path(), why: text("rename it") } => "rename it",
            Several(vec![Error::NoNvrtc, Error::Drift { sources: reasons() }]) => "make them again",
        } {
            let at = text.find(words);
            assert!(if words.is_empty() { !text.is_empty() } else { at > Some(0) }, "`{words}`: {text}");
        }
    }
}
