//! Builds the package with cargo and collects the files that cargo reports.

use std::collections::HashSet;
use std::env;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use cargo_metadata::{Artifact, CrateType, Message, MetadataCommand, PackageId};

use crate::cli::Build;
use crate::failure::Failure;

/// Builds the package. Returns its executables and shared libraries, or if there are none its static libraries.
pub(crate) fn build(options: &Build) -> Result<Vec<PathBuf>, Failure> {
    let members = members(options)?;
    let mut command = Command::new(cargo());
    command.args(["build", "--message-format=json-render-diagnostics"]).args(arguments(options));
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::Cargo { error: error.to_string() })?;
    let output = child.stdout.take().map(BufReader::new);

    let mut binaries = Vec::new();
    let mut libraries = Vec::new();
    for message in output.into_iter().flat_map(Message::parse_stream) {
        let message = message.map_err(|error| Failure::Cargo { error: error.to_string() })?;
        let Message::CompilerArtifact(artifact) = message else { continue };
        if !members.contains(&artifact.package_id) {
            continue;
        }
        match files(&artifact) {
            Files::Binary(paths) => binaries.extend(paths),
            Files::Library(paths) => libraries.extend(paths),
            Files::None => {}
        }
    }
    let status = child.wait().map_err(|error| Failure::Cargo { error: error.to_string() })?;
    if !status.success() {
        return Err(Failure::BuildFailed);
    }
    let built = if binaries.is_empty() { libraries } else { binaries };
    if built.is_empty() { Err(Failure::NothingBuilt) } else { Ok(built) }
}

enum Files {
    Binary(Vec<PathBuf>),
    Library(Vec<PathBuf>),
    None,
}

fn files(artifact: &Artifact) -> Files {
    if artifact.target.is_custom_build() {
        return Files::None;
    }
    if let Some(executable) = &artifact.executable {
        return Files::Binary(vec![executable.into()]);
    }
    let with_extension = |wanted: &[&str]| -> Vec<PathBuf> {
        let named = |path: &&cargo_metadata::camino::Utf8PathBuf| {
            path.extension().is_some_and(|extension| wanted.contains(&extension))
        };
        artifact.filenames.iter().filter(named).map(PathBuf::from).collect()
    };
    if artifact.target.crate_types.contains(&CrateType::CDyLib) {
        return Files::Binary(with_extension(&["so", "dylib", "dll"]));
    }
    if artifact.target.crate_types.contains(&CrateType::Lib) {
        return Files::Library(with_extension(&["rlib"]));
    }
    Files::None
}

/// The packages of the workspace; artifacts of other packages are ignored.
fn members(options: &Build) -> Result<HashSet<PackageId>, Failure> {
    let mut command = MetadataCommand::new();
    command.cargo_path(cargo()).no_deps();
    if let Some(path) = &options.manifest_path {
        command.manifest_path(path);
    }
    let metadata = command.exec().map_err(|error| Failure::Cargo { error: error.to_string() })?;
    Ok(metadata.workspace_members.into_iter().collect())
}

fn arguments(options: &Build) -> Vec<std::ffi::OsString> {
    let mut arguments = Vec::new();
    let mut option = |name: &str, value: Option<&std::ffi::OsStr>| {
        if let Some(value) = value {
            arguments.push(name.into());
            arguments.push(value.to_owned());
        }
    };
    option("--bin", options.bin.as_deref().map(AsRef::as_ref));
    option("--profile", options.profile.as_deref().map(AsRef::as_ref));
    option("--package", options.spec.as_deref().map(AsRef::as_ref));
    option("--target", options.target.as_deref().map(AsRef::as_ref));
    option("--manifest-path", options.manifest_path.as_deref().map(AsRef::as_ref));
    for features in &options.features {
        option("--features", Some(features.as_ref()));
    }
    let flags = [
        ("--release", options.release),
        ("--all-features", options.all_features),
        ("--no-default-features", options.no_default_features),
    ];
    arguments.extend(flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.into()));
    arguments
}

/// The cargo that runs this command, or the one on the path.
pub(crate) fn cargo() -> PathBuf {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into()).into()
}
