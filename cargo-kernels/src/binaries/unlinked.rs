//! Finds dependencies whose kernels aren't in the program, because rustc drops crates that the code never names.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;

use cargo_metadata::{DependencyKind, Metadata, PackageId};
use kernel_registry_command::Mapped;
use kernel_registry_command::many;
use kernel_registry_format::KernelRecord;

use super::artifacts::{Binary, Built};
use crate::binary::Contents;

/// A crate with kernels that a binary lacks.
pub(crate) struct Unlinked {
    /// The name of the binary.
    binary: String,
    /// Name and version of the package.
    package: String,
    kernels: usize,
    /// The dependency path from the binary: each crate's name, and the package that has to name it in code.
    way: Vec<(String, String)>,
}

/// Finds the crates with kernels that the built binaries lack. `with_kernels` has the contents of binaries with
/// kernels.
pub(crate) fn find(built: &Built, with_kernels: &[Contents<'_>]) -> Vec<Unlinked> {
    let Some(graph) = &built.graph else { return Vec::new() };
    let mut libraries = Libraries { built, known: HashMap::new() };
    let mut unlinked = Vec::new();
    for binary in built.binaries.iter().filter(|binary| binary.is_linked) {
        let contents = with_kernels.iter().find(|contents| contents.path == binary.path);
        let linked: BTreeSet<_> =
            contents.iter().flat_map(|contents| &contents.kernels).map(identity).collect();
        for used in used(graph, binary, built) {
            let declared = libraries.kernels(graph, used.package);
            if !declared.is_empty() && linked.is_disjoint(declared) {
                let package = &graph[used.package];
                unlinked.push(Unlinked {
                    binary: binary.path.file_stem().unwrap_or_default().display().to_string(),
                    package: format!("{} {}", package.name, package.version),
                    kernels: declared.len(),
                    way: used.way.into_iter().map(|(name, by)| (name, graph[by].name.to_string())).collect(),
                });
            }
        }
    }
    unlinked
}

/// The identity of a kernel: package, version and path.
type Identity = (String, String, String);

fn identity(kernel: &KernelRecord<'_>) -> Identity {
    (kernel.package.to_owned(), kernel.version.to_owned(), kernel.path.to_owned())
}

/// A direct or indirect dependency of a binary.
struct Used<'a> {
    package: &'a PackageId,
    /// The shortest dependency path: each crate's name, and the package that uses this name.
    way: Vec<(String, &'a PackageId)>,
}

/// Returns the dependencies of a binary. The library of its own package is one: the binary has to name that, too.
fn used<'a>(graph: &'a Metadata, binary: &'a Binary, built: &Built) -> Vec<Used<'a>> {
    let nodes: HashMap<_, _> =
        graph.resolve.iter().flat_map(|resolve| &resolve.nodes).map(|node| (&node.id, node)).collect();
    let mut all = Vec::new();
    let own = graph.packages.iter().find(|package| package.id == binary.package);
    let library = own.and_then(|own| own.targets.iter().find(|target| target.is_lib()));
    if let Some(library) = library.filter(|_| built.libraries.iter().any(|(id, _)| *id == binary.package)) {
        let name = library.name.replace('-', "_");
        all.push(Used { package: &binary.package, way: vec![(name, &binary.package)] });
    }
    let mut seen = HashSet::from([&binary.package]);
    let mut next = VecDeque::from([(&binary.package, Vec::new())]);
    while let Some((by, before)) = next.pop_front() {
        for dependency in nodes.get(by).into_iter().flat_map(|node| &node.deps) {
            let is_normal = dependency.dep_kinds.iter().any(|info| info.kind == DependencyKind::Normal);
            if is_normal && seen.insert(&dependency.pkg) {
                let mut way = before.clone();
                way.push((dependency.name.clone(), by));
                next.push_back((&dependency.pkg, way.clone()));
                all.push(Used { package: &dependency.pkg, way });
            }
        }
    }
    all
}

/// The kernels of libraries. Each library is read once.
struct Libraries<'a> {
    built: &'a Built,
    known: HashMap<PackageId, BTreeSet<Identity>>,
}

impl Libraries<'_> {
    fn kernels(&mut self, graph: &Metadata, package: &PackageId) -> &BTreeSet<Identity> {
        let libraries = &self.built.libraries;
        self.known.entry(package.clone()).or_insert_with(|| {
            // Only dependents of kernel-registry declare kernels.
            if !graph[package].dependencies.iter().any(|dependency| dependency.name == "kernel-registry") {
                return BTreeSet::new();
            }
            let files = libraries.iter().filter(|(id, _)| id == package).map(|(_, path)| path);
            let kernels = files.filter_map(|path| {
                let mapped = Mapped::open(path).ok()?;
                Some(Contents::read(path, &mapped).ok()?.kernels.iter().map(identity).collect::<Vec<_>>())
            });
            // A library found by its file name may be another version's.
            let package = &graph[package];
            let is_its = |(name, version, _): &Identity| {
                *name == *package.name && *version == package.version.to_string()
            };
            kernels.flatten().filter(is_its).collect()
        })
    }
}

impl fmt::Display for Unlinked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unlinked { binary, package, kernels, way } = self;
        let none = if *kernels == 1 { "lacks it" } else { "has none of them" };
        let line =
            |(name, by): &(String, String)| format!("`kernel_registry::link_kernels!({name});` in `{by}`");
        write!(
            f,
            "`{package}` declares {}, and `{binary}` {none}, because rustc links no crate that the \
             code never names: write {}",
            many(*kernels, "kernel"),
            way.iter().map(line).collect::<Vec<_>>().join(" and ")
        )
    }
}
