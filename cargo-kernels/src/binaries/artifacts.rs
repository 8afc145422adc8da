//! Runs cargo on the package, and collects the artifacts and build script folders that it reports.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::{Artifact, CrateType, Message, Metadata, MetadataCommand, PackageId, Target};
use kernel_registry_command::cargo;

use crate::cli::{Build, Package};
use crate::failure::Failure;

/// The result of `cargo build`.
pub(crate) struct Built {
    /// Executables and shared libraries of the workspace. If there are none: its Rust libraries (rlib).
    pub(crate) binaries: Vec<Binary>,
    /// The Rust library of each package that was built.
    pub(crate) libraries: Vec<(PackageId, PathBuf)>,
    /// The graph of packages and dependencies. `None` if `cargo metadata` failed.
    pub(crate) graph: Option<Metadata>,
}

/// A file that cargo built.
pub(crate) struct Binary {
    pub(crate) path: PathBuf,
    pub(crate) package: PackageId,
    /// Whether its dependencies are linked into it: true for executables and shared libraries.
    pub(crate) is_linked: bool,
}

/// Builds the package.
pub(crate) fn build(options: &Build) -> Result<Built, Failure> {
    let members: HashSet<_> = members(&options.package)?.workspace_members.into_iter().collect();
    let (mut linked, mut own, mut libraries) = (Vec::new(), Vec::new(), Vec::new());
    let ok = run("build", arguments(options), |message| {
        let Message::CompilerArtifact(artifact) = message else { return };
        let is_member = members.contains(&artifact.package_id);
        let binary = |is_linked| {
            let package = artifact.package_id.clone();
            move |path| Binary { path, package: package.clone(), is_linked }
        };
        match files(&artifact) {
            Files::Binary(paths) if is_member => linked.extend(paths.into_iter().map(binary(true))),
            Files::Library(paths) => {
                libraries.extend(paths.iter().map(|path| (artifact.package_id.clone(), path.clone())));
                own.extend(paths.into_iter().filter(|_| is_member).map(binary(false)));
            }
            Files::Binary(_) | Files::None => {}
        }
    })?;
    if !ok {
        return Err(Failure::BuildFailed);
    }
    let binaries = if linked.is_empty() { own } else { linked };
    if binaries.is_empty() {
        Err(Failure::NothingBuilt)
    } else {
        Ok(Built { binaries, libraries, graph: graph(options) })
    }
}

/// Returns the artifacts of an earlier build: these binaries of packages in the current folder, and the libraries
/// in the folder `deps` at their side.
pub(crate) fn built_before(paths: impl Iterator<Item = PathBuf>) -> Result<Built, Failure> {
    let graph = MetadataCommand::new().cargo_path(cargo()).exec().map_err(Failure::of_cargo)?;
    let (mut binaries, mut libraries) = (Vec::new(), Vec::new());
    for path in paths {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = stem.strip_prefix("lib").filter(|_| path.extension().is_some()).unwrap_or(&stem);
        let same = |target: &Target| target.name.replace('-', "_") == name.replace('-', "_");
        let is_its = |package: &&&cargo_metadata::Package| {
            package.targets.iter().any(|target| (target.is_bin() || target.is_cdylib()) && same(target))
        };
        let members = graph.workspace_packages();
        let package =
            members.iter().find(is_its).ok_or_else(|| Failure::NotOfPackage { path: path.clone() })?;
        let there = fs::read_dir(path.with_file_name("deps")).into_iter().flatten().flatten();
        let there: Vec<_> = there.map(|entry| entry.path()).collect();
        for library in &graph.packages {
            let Some(target) = library.targets.iter().find(|target| target.is_lib()) else { continue };
            let prefix = format!("lib{}-", target.name.replace('-', "_"));
            let is_its = |file: &&PathBuf| {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(&prefix) && name.ends_with(".rlib")
            };
            libraries.extend(there.iter().filter(is_its).map(|file| (library.id.clone(), file.clone())));
        }
        if libraries.is_empty() {
            return Err(Failure::NotOfPackage { path });
        }
        binaries.push(Binary { path, package: package.id.clone(), is_linked: true });
    }
    Ok(Built { binaries, libraries, graph: Some(graph) })
}

/// Runs the build scripts of the package and its dependencies. Returns the output folder of each script, and whether
/// `cargo check` succeeded.
pub(crate) fn build_scripts(options: &Package) -> Result<(Vec<(PackageId, PathBuf)>, bool), Failure> {
    let mut folders = Vec::new();
    let ok = run("check", package_arguments(options), |message| {
        if let Message::BuildScriptExecuted(script) = message {
            folders.push((script.package_id, script.out_dir.into()));
        }
    })?;
    Ok((folders, ok))
}

/// Runs cargo, passes its messages to `each`, and returns whether it succeeded.
fn run(command: &str, arguments: Vec<OsString>, mut each: impl FnMut(Message)) -> Result<bool, Failure> {
    let mut cargo = Command::new(cargo());
    cargo.args([command, "--message-format=json-render-diagnostics"]).args(arguments);
    let mut child = cargo.stdout(Stdio::piped()).spawn().map_err(Failure::of_cargo)?;
    let output = child.stdout.take().map(BufReader::new);
    for message in output.into_iter().flat_map(Message::parse_stream) {
        each(message.map_err(Failure::of_cargo)?);
    }
    Ok(child.wait().map_err(Failure::of_cargo)?.success())
}

enum Files {
    Binary(Vec<PathBuf>),
    Library(Vec<PathBuf>),
    None,
}

fn files(artifact: &Artifact) -> Files {
    let with_extension = |wanted: &[&str]| {
        let paths = artifact.filenames.iter();
        let named =
            paths.filter(|path| path.extension().is_some_and(|extension| wanted.contains(&extension)));
        named.map(PathBuf::from).collect()
    };
    let types = &artifact.target.crate_types;
    match &artifact.executable {
        _ if artifact.target.is_custom_build() => Files::None,
        Some(executable) => Files::Binary(vec![executable.into()]),
        None if types.contains(&CrateType::CDyLib) => Files::Binary(with_extension(&["so", "dylib", "dll"])),
        None if types.contains(&CrateType::Lib) => Files::Library(with_extension(&["rlib"])),
        None => Files::None,
    }
}

/// Returns the packages of the workspace, without dependencies.
pub(crate) fn members(options: &Package) -> Result<Metadata, Failure> {
    metadata(options).no_deps().exec().map_err(Failure::of_cargo)
}

/// Returns the dependency graph. `None` if cargo fails: the graph only serves warnings.
fn graph(options: &Build) -> Option<Metadata> {
    let mut more = network(&options.package);
    // Cargo may not have downloaded the packages of other platforms.
    more.extend(["--filter-platform".to_owned(), options.target.clone().or_else(host)?]);
    more.extend(features(&options.package));
    metadata(&options.package).other_options(more).exec().ok()
}

fn metadata(options: &Package) -> MetadataCommand {
    let mut command = MetadataCommand::new();
    command.cargo_path(cargo());
    if let Some(path) = &options.manifest_path {
        command.manifest_path(path);
    }
    command
}

/// Returns cargo's default target triple.
fn host() -> Option<String> {
    let output = Command::new(cargo()).arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

fn arguments(options: &Build) -> Vec<OsString> {
    let mut arguments = package_arguments(&options.package);
    arguments.extend(option("--bin", options.bin.as_deref()));
    arguments.extend(option("--profile", options.profile.as_deref()));
    arguments.extend(option("--target", options.target.as_deref()));
    arguments.extend(options.release.then(|| "--release".into()));
    arguments
}

fn package_arguments(options: &Package) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = network(options).into_iter().map(OsString::from).collect();
    arguments.extend(option("--package", options.spec.as_deref()));
    arguments.extend(option("--manifest-path", options.manifest_path.as_deref()));
    arguments.extend(features(options).into_iter().map(OsString::from));
    arguments.extend(options.quiet.then(|| "--quiet".into()));
    arguments
}

fn features(options: &Package) -> Vec<String> {
    let named = options.features.iter().map(|features| format!("--features={features}"));
    let all = options.all_features.then(|| "--all-features".to_owned());
    let none = options.no_default_features.then(|| "--no-default-features".to_owned());
    named.chain(all).chain(none).collect()
}

fn network(options: &Package) -> Vec<String> {
    let flags = [("--locked", options.locked), ("--offline", options.offline)];
    flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned()).collect()
}

fn option(name: &str, value: Option<&(impl AsRef<OsStr> + ?Sized)>) -> impl Iterator<Item = OsString> {
    let pair = value.map(|value| [name.into(), value.as_ref().to_owned()]);
    pair.into_iter().flatten()
}

/// Returns the first of these folders that has a Cargo.toml.
pub(crate) fn package_folder<'a>(mut folders: impl Iterator<Item = &'a Path>) -> Option<&'a Path> {
    folders.find(|folder| folder.join("Cargo.toml").is_file())
}
