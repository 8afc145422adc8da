//! Runs a build: chooses a compiler, makes the images, writes the index, and tells cargo what to watch.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kernel_registry_format::Printable;
use kernel_registry_format::index::{ANNOUNCED, Entry, FOLDER, VARIABLE};

use crate::choice::{self, Chosen};
use crate::compile_source::{Compiler, SourceImage};
use crate::environment::{Environment, LEADING, PYTHON, WATCHED};
use crate::error::{WITHOUT_HEADER, doubtful, missing, remedy};
use crate::index;
use crate::job::Job;
use crate::source::{self, Source};
use crate::{Build, Error, Image, Report, Result, files, nvcc, parallel, prebuilt, recorded, source_types};

/// Messages for cargo, printed at the end.
#[derive(Default)]
struct Notes {
    /// Files and folders to watch.
    watched: BTreeSet<PathBuf>,
    /// Variables to watch in addition to the ones that are always watched.
    variables: Vec<&'static str>,
    warnings: Vec<String>,
}

impl Build {
    /// Compiles, and tells cargo what to watch. On failure, ends the build script with the compiler's
    /// messages.
    pub fn compile(self) {
        let Err(error) = self.try_compile() else { return };
        let text = Printable(&error.to_string()).to_string();
        eprintln!("{text}");
        // `cargo::error` lines make the build fail by themselves. An exit code other than 0 would make cargo
        // also show everything that the script printed.
        let is_told = takes_errors(&self) && say_error(&mut io::stdout().lock(), &text).is_ok();
        std::process::exit(if is_told { 0 } else { 1 });
    }

    /// Compiles and tells cargo what to watch, for build scripts that continue after a failure.
    ///
    /// # Errors
    ///
    /// Fails if the compiler does, or if a release build has no image for a source: see
    /// [`Error`](crate::Error).
    pub fn try_compile(&self) -> Result<Report> {
        run(self)
    }
}

fn run(build: &Build) -> Result<Report> {
    let environment = &build.environment;
    let package = source::package(build)?;
    let out = match &build.out_dir {
        Some(folder) => folder.clone(),
        None => environment.folder("OUT_DIR")?,
    };
    let mut notes = Notes::default();
    let built = compile(build, &package, &out.join(FOLDER), &mut notes);
    // Cargo treats a missing file as always changed.
    notes.watched.retain(|path| path.exists());
    // Cargo is told after a failure too: a build script that continues must run again after a change.
    if !build.quiet {
        tell_cargo(&mut io::stdout().lock(), &package, &notes)
            .map_err(Error::file("write", "standard output"))?;
    }
    let mut report = built?;
    report.warnings = notes.warnings;
    report.watched = notes.watched.into_iter().collect();
    Ok(report)
}

fn compile(build: &Build, package: &Path, folder: &Path, notes: &mut Notes) -> Result<Report> {
    notes.watched.insert(package.join("build.rs"));
    let (sources, folders) = source::find_sources(build, package)?;
    notes.watched.extend(folders);
    notes.watched.extend(sources.iter().map(|source| package.join(&source.path)));
    fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    recorded::write(folder, build)?;

    let environment = &build.environment;
    let chosen = choice::choose(environment)?;
    let outcomes = match &chosen {
        Chosen::Compiler(compiler) => {
            notes.watched.extend(compiler.file().map(Path::to_owned));
            notes.variables.extend(environment_variables_of(compiler, environment));
            let options = &build.options;
            if let Compiler::Nvcc(_) = compiler {
                nvcc::write_headers(folder)?;
            }
            let made = parallel::each(environment, &sources, |source| {
                compiler.compile_source(&Job { package, source, options, environment }, folder)
            });
            made.into_iter()
                .zip(&sources)
                .map(|(made, source)| match made {
                    Err(Error::NeedsHeader { header, wheel, .. }) => {
                        let remedy = match wheel {
                            Some(wheel) => format!("`pip install \"{wheel}\"` has it"),
                            None => WITHOUT_HEADER.to_owned(),
                        };
                        let reason = format!("it includes `{header}`, which NVRTC does not have ({remedy})");
                        use_committed_image(build, package, folder, source, &reason, notes)
                    }
                    made => made,
                })
                .collect()
        }
        Chosen::Prebuilt(reason) => sources
            .iter()
            .map(|source| use_committed_image(build, package, folder, source, reason, notes))
            .collect(),
        Chosen::Nothing(reason) => sources.iter().map(|_| Ok(SourceImage::none(reason.clone()))).collect(),
    };
    let outcomes = collect_images(outcomes)?;
    let report = report(folder, sources, outcomes, notes);
    let without: Vec<(String, String)> = report
        .images
        .iter()
        .filter(|image| image.file.is_none())
        .map(|image| (image.source.clone(), image.origin.clone()))
        .collect();
    // `KERNEL_REGISTRY_COMPILER=none` asks for no images, so that's no reason to warn.
    if !without.is_empty() && !matches!(chosen, Chosen::Nothing(_)) {
        // A change of these variables may lead to a compiler.
        notes.variables.extend(LEADING);
        let has_nvrtc = matches!(chosen, Chosen::Compiler(_));
        if environment.is_release() {
            return Err(Error::NoImages { sources: without, has_nvrtc });
        }
        let remedy = remedy(has_nvrtc);
        notes.warnings.push(format!("{}; a release build would fail: {remedy}", missing(&without)));
    }
    let signatures: Vec<String> =
        report.images.iter().map(|image| source_types::read(package, image, &build.options)).collect();
    let entries =
        report.images.iter().zip(&signatures).map(|(Image { source, file, origin }, signatures)| Entry {
            source,
            image: file.as_ref().and_then(|file| file.file_name()?.to_str()),
            origin,
            signatures,
        });
    update_marker(folder, build)?;
    index::write(folder, entries)?;
    Ok(report)
}

/// Creates or removes the marker that cargo was given [`VARIABLE`]; without the variable, the index counts as
/// stale.
fn update_marker(folder: &Path, build: &Build) -> Result<()> {
    let path = folder.join(ANNOUNCED);
    if !build.quiet {
        return files::replace(&path, b"");
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", &path)(error)),
        _ => Ok(()),
    }
}

/// Returns the variables of the Python environment that contains the compiler, because another environment
/// may have another compiler.
fn environment_variables_of(
    compiler: &Compiler,
    environment: &Environment,
) -> impl Iterator<Item = &'static str> {
    let file = compiler.file().map(Path::to_owned);
    // The compiler's path is resolved too.
    let root = |name: &&str| environment.path(name).and_then(|root| fs::canonicalize(root).ok());
    PYTHON.iter().copied().filter(move |name| {
        root(name).is_some_and(|root| file.as_ref().is_some_and(|file| file.starts_with(root)))
    })
}

/// Uses the committed image of a source that can't be compiled on this machine.
fn use_committed_image(
    build: &Build,
    package: &Path,
    folder: &Path,
    source: &Source,
    reason: &str,
    notes: &mut Notes,
) -> Result<SourceImage> {
    let found = prebuilt::find(package, source, &build.options)?;
    notes.watched.extend(found.watched);
    match found.image {
        Ok(bytes) => {
            let image = index::image_name(&source.path, prebuilt::EXTENSION);
            notes.warnings.extend(found.doubts.iter().map(|why| doubtful(&source.path, why)));
            files::replace(&folder.join(&image), &bytes)?;
            let origin = prebuilt::ORIGIN.to_owned();
            Ok(SourceImage { image: Some(image), origin, ..SourceImage::default() })
        }
        Err(why) => Ok(SourceImage::none(format!("{reason}, and {why}"))),
    }
}

fn collect_images(outcomes: Vec<Result<SourceImage>>) -> Result<Vec<SourceImage>> {
    let (mut good, mut errors) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(outcome) => good.push(outcome),
            Err(error) => errors.push(error),
        }
    }
    Error::several(errors).map_or(Ok(good), Err)
}

fn report(folder: &Path, sources: Vec<Source>, outcomes: Vec<SourceImage>, notes: &mut Notes) -> Report {
    let mut report = Report { folder: folder.to_owned(), ..Report::default() };
    for (source, made) in sources.into_iter().zip(outcomes) {
        report.compiled += usize::from(made.compiled);
        notes.watched.extend(made.files);
        notes.warnings.extend(made.warnings);
        let file = made.image.map(|image| folder.join(image));
        report.images.push(Image { source: source.path, file, origin: made.origin });
    }
    report
}

/// Returns whether cargo runs this process and accepts `cargo::error` lines. It rejects them for a package
/// whose Rust version is older than 1.84.
fn takes_errors(build: &Build) -> bool {
    let rust = build.environment.get("CARGO_PKG_RUST_VERSION").unwrap_or_default();
    let rust = rust.to_string_lossy();
    let mut numbers = rust.split('.').map(|number| number.parse().unwrap_or(0_u32));
    let is_new = rust.is_empty() || (numbers.next(), numbers.next()) >= (Some(1), Some(84));
    !build.quiet && is_new && build.environment.get("CARGO").is_some()
}

fn say_error(cargo: &mut impl Write, text: &str) -> io::Result<()> {
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        writeln!(cargo, "cargo::error={line}")?;
    }
    cargo.flush()
}

/// Tells cargo what to watch, and prints the warnings.
fn tell_cargo(cargo: &mut impl Write, package: &Path, notes: &Notes) -> io::Result<()> {
    writeln!(cargo, "cargo:rustc-env={VARIABLE}=1")?;
    for name in WATCHED.iter().chain(&notes.variables) {
        writeln!(cargo, "cargo:rerun-if-env-changed={name}")?;
    }
    for path in &notes.watched {
        let path = path.strip_prefix(package).unwrap_or(path);
        writeln!(cargo, "cargo:rerun-if-changed={}", path.display())?;
    }
    for line in &notes.warnings {
        writeln!(cargo, "cargo:warning={}", Printable(line))?;
    }
    cargo.flush()
}
