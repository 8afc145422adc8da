//! Asks cargo which versions of cudarc the package uses, and which dependencies select which CUDA version.

use std::env;
use std::path::Path;
use std::process::Command;

use cargo_metadata::{Metadata, MetadataCommand, Node};
use kernel_registry_command::cargo;
use kernel_registry_cuda::CudaVersion;

use super::facts::{Cudarc, Package, cuda_version, version_of_feature};
use crate::binaries::artifacts::package_folder;

pub(super) fn package(manifest: Option<&Path>) -> Package {
    let mut command = MetadataCommand::new();
    command.cargo_path(cargo());
    match manifest {
        Some(path) => drop(command.manifest_path(path)),
        None if !is_in_package() => return Package::None,
        None => {}
    }
    match command.exec() {
        Ok(metadata) => Package::Cudarc { crates: crates(&metadata), nvcc: nvcc() },
        Err(error) => Package::Unknown { why: first_line(&error.to_string()) },
    }
}

fn is_in_package() -> bool {
    let folder = env::current_dir();
    folder.is_ok_and(|folder| package_folder(folder.ancestors()).is_some())
}

/// Returns the first line of cargo's error, without the context before it.
fn first_line(error: &str) -> String {
    let said = error.rsplit("error: ").next().unwrap_or(error);
    said.lines().next().unwrap_or_default().to_owned()
}

/// Returns every version of cudarc among the dependencies.
fn crates(metadata: &Metadata) -> Vec<Cudarc> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let cudarc = |node: &Node| {
        let package = &metadata[&node.id];
        if package.name.as_str() != "cudarc" {
            return None;
        }
        let mut known: Vec<CudaVersion> =
            package.features.keys().filter_map(|name| version_of_feature(name)).collect();
        known.sort();
        Some(Cudarc {
            version: package.version.to_string(),
            features: node.features.iter().map(ToString::to_string).collect(),
            known,
            users: users(metadata, node),
        })
    };
    nodes.filter_map(cudarc).collect()
}

/// Returns the packages that depend on this version of cudarc, with the CUDA version that each asks for, if any.
fn users(metadata: &Metadata, cudarc: &Node) -> Vec<(String, Option<CudaVersion>)> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let users = nodes.filter(|node| node.dependencies.contains(&cudarc.id)).map(|node| {
        let package = &metadata[&node.id];
        let declared = package.dependencies.iter().filter(|dependency| dependency.name == "cudarc");
        let named =
            declared.flat_map(|dependency| &dependency.features).find_map(|name| version_of_feature(name));
        (package.name.to_string(), named.or_else(|| forwarded(package, node)))
    });
    users.collect()
}

/// Returns the CUDA version that a package asks for by an active feature of its own: `cuda12 = ["cudarc/cuda-12040"]`.
fn forwarded(package: &cargo_metadata::Package, node: &Node) -> Option<CudaVersion> {
    let active = node.features.iter().filter_map(|feature| package.features.get(feature.as_str()));
    let mut enabled = active
        .flatten()
        .filter_map(|what| what.strip_prefix("cudarc/").or_else(|| what.strip_prefix("cudarc?/")));
    enabled.find_map(version_of_feature)
}

/// Returns the version of the nvcc on the path, which cudarc's build script would use.
fn nvcc() -> Option<CudaVersion> {
    let output = Command::new("nvcc").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, release) = text.split_once("release ")?;
    cuda_version(release.split(',').next()?)
}
