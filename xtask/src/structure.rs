//! Finds import cycles between files or folders, and crates that depend on a later crate in the workspace's list.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, Package};

use crate::imports::{Imports, read_imports};
use crate::run::Outcome;

/// The imports between files or between folders, each described by the lines that import.
type Graph = BTreeMap<PathBuf, BTreeMap<PathBuf, String>>;

/// Fails if files or folders of a crate import each other, or if a crate depends on a later one. The files of
/// integration tests may import each other, because their `main.rs` has both the modules and what these
/// share.
pub(crate) fn check_structure(metadata: &Metadata) -> Outcome {
    let packages = metadata.workspace_packages();
    let root = metadata.workspace_root.as_std_path();
    let mut problems = upward_dependencies(&packages, root, &fs::read_to_string(root.join("Cargo.toml"))?);
    let targets = packages.iter().flat_map(|package| &package.targets).filter(|target| !target.is_test());
    for crate_root in targets.map(|target| target.src_path.as_std_path()).collect::<BTreeSet<_>>() {
        let imports = read_imports(crate_root)?;
        let of_files = graph(&imports, root, |from, to| Some((from.to_owned(), to.to_owned())));
        for mut graph in [of_files, graph(&imports, root, folders)] {
            while let Some(circle) = shortest_circle(&graph) {
                problems.insert(take_circle(&mut graph, &circle));
            }
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let problems: Vec<_> = problems.into_iter().collect();
    Err(format!("imports lead one way\n{}", problems.join("\n")).into())
}

/// Describes the crates that depend on a later crate in the workspace's list, except for tests.
fn upward_dependencies(packages: &[&Package], root: &Path, manifest: &str) -> BTreeSet<String> {
    let position = |name: &str| {
        let package = packages.iter().find(|package| package.name.as_str() == name)?;
        let folder = package.manifest_path.parent()?.strip_prefix(root).ok()?;
        manifest.find(&format!("\"{folder}\""))
    };
    let mut problems = BTreeSet::new();
    for package in packages {
        for dependency in
            package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development)
        {
            if position(&package.name).zip(position(&dependency.name)).is_some_and(|(from, to)| from < to) {
                problems.insert(format!(
                    "`{}` depends on `{}`, which comes after it in Cargo.toml's `members`: move what both need to a crate before them",
                    package.name, dependency.name
                ));
            }
        }
    }
    problems
}

/// Returns the imports between the nodes to which `ends` assigns the importing and the imported file.
fn graph(imports: &Imports, root: &Path, ends: impl Fn(&Path, &Path) -> Option<(PathBuf, PathBuf)>) -> Graph {
    let mut graph = Graph::new();
    for (from, of_file) in imports {
        for (to, (line, path)) in of_file {
            let Some((start, end)) = ends(from, to) else { continue };
            let [from, to] = [from, to].map(|file| file.strip_prefix(root).unwrap_or(file).display());
            *graph.entry(start).or_default().entry(end).or_default() +=
                &format!("\n  {from}:{line} imports `{path}` of {to}");
        }
    }
    graph
}

/// Returns, for each of two files, the outermost folder without the other file, if both have one. `a.rs` belongs to
/// the folder `a`.
fn folders(from: &Path, to: &Path) -> Option<(PathBuf, PathBuf)> {
    let (from, to) = (from.with_extension(""), to.with_extension(""));
    let own = |file: &Path, other: &Path| {
        let folders = file.ancestors().take_while(|folder| !other.starts_with(folder));
        folders.last().filter(|folder| folder.is_dir()).map(Path::to_owned)
    };
    own(&from, &to).zip(own(&to, &from))
}

/// Returns the shortest import cycle.
fn shortest_circle(imports: &Graph) -> Option<Vec<PathBuf>> {
    imports.keys().filter_map(|file| circle_of(imports, file)).min_by_key(Vec::len)
}

/// Returns the shortest path of imports from a file or folder back to itself, by breadth-first search.
fn circle_of(imports: &Graph, file: &PathBuf) -> Option<Vec<PathBuf>> {
    let mut importers = BTreeMap::new();
    let mut next = VecDeque::from([file]);
    while let Some(from) = next.pop_front() {
        for to in imports.get(from).into_iter().flat_map(BTreeMap::keys) {
            if to == file {
                let mut circle = vec![from.clone()];
                while let Some(&importer) = importers.get(&circle[circle.len() - 1]) {
                    circle.push(PathBuf::clone(importer));
                }
                circle.reverse();
                return Some(circle);
            }
            if !importers.contains_key(to) {
                importers.insert(to, from);
                next.push_back(to);
            }
        }
    }
    None
}

/// Describes a cycle, and removes its imports, so that the next search finds another.
fn take_circle(imports: &mut Graph, circle: &[PathBuf]) -> String {
    let mut text =
        "a circle of imports: move what both sides need to a file or folder that they all import".to_owned();
    for (from, to) in circle.iter().zip(circle.iter().cycle().skip(1)) {
        text.extend(imports.get_mut(from).and_then(|of_one| of_one.remove(to)));
    }
    text
}

#[cfg(test)]
mod tests {
    use cargo_metadata::MetadataCommand;

    use super::*;

    /// Checks a workspace with these files, and returns the error, or an empty text.
    fn said(files: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let metadata = MetadataCommand::new().no_deps().current_dir(folder.path()).exec().unwrap();
        check_structure(&metadata).map_or_else(|error| error.to_string(), |()| String::new())
    }

    /// Checks a crate with these files, and returns the error, or an empty text.
    fn said_of_crate(files: &[(&str, &str)]) -> String {
        let manifest = ("Cargo.toml", "[package]\nname = \"a\"\nedition = \"2024\"\n[workspace]\n");
        said(&[&[manifest], files].concat())
    }

    #[test]
    fn two_files_in_a_circle_are_found() {
        let said = said_of_crate(&[
            ("src/lib.rs", "mod a;\nmod b;"),
            ("src/a.rs", "//! A.\nuse crate::b::B;\npub struct A;"),
            ("src/b.rs", "pub struct B;\nfn f() {\n    dbg!(super::a::A);\n}"),
        ]);
        assert!(said.contains("src/a.rs:2 imports `crate::b::B` of src/b.rs"), "{said}");
        assert!(said.contains("src/b.rs:3 imports `super::a::A` of src/a.rs"), "{said}");
    }

    #[test]
    fn three_files_in_a_circle_are_found_through_re_exports() {
        let said = said_of_crate(&[
            ("src/lib.rs", "mod a;\nmod b;\npub mod c;\npub use self::c::{d::C, other};"),
            ("src/a.rs", "use crate::{b, other};\npub const A: u8 = b::B;"),
            ("src/b.rs", "use crate::C as Renamed;\npub const B: u8 = 0;"),
            ("src/c.rs", "pub mod d;\npub fn other() {}"),
            ("src/c/d.rs", "pub struct C;\nconst D: u8 = crate::a::A;"),
        ]);
        assert_eq!(said.matches("imports `").count(), 3, "{said}");
        for line in [
            "a.rs:2 imports `b::B` of src/b.rs",
            "b.rs:1 imports `crate::C` of src/c/d.rs",
            "d.rs:2 imports `crate::a::A`",
        ] {
            assert!(said.contains(line), "{said}");
        }
    }

    #[test]
    fn files_that_re_export_what_the_other_needs_are_found() {
        let said = said_of_crate(&[
            ("src/lib.rs", "mod a;\nmod b;"),
            ("src/a.rs", "pub struct A;\nuse crate::b::Growth;"),
            ("src/b.rs", "mod growth;\nuse crate::a::A;\npub use growth::Growth;"),
            ("src/b/growth.rs", "pub struct Growth;"),
        ]);
        assert!(said.contains("src/a.rs:2 imports `crate::b::Growth` of src/b.rs"), "{said}");
        assert!(said.contains("src/b.rs:2 imports `crate::a::A` of src/a.rs"), "{said}");
    }

    #[test]
    fn folders_that_import_each_other_are_found() {
        let said = said_of_crate(&[
            ("src/lib.rs", "mod a;\nmod b;\nmod c;"),
            ("src/a.rs", "mod one;\nmod two;\npub struct A;"),
            ("src/a/one.rs", "use crate::b::B;"),
            ("src/a/two.rs", "pub struct Two;\nuse crate::c::C;\nuse super::A;"),
            ("src/b.rs", "mod low;\npub struct B;"),
            ("src/b/low.rs", "use crate::a::two::Two;"),
            ("src/c.rs", "pub struct C;"),
        ]);
        assert_eq!(said.matches("imports `").count(), 2, "{said}");
        assert!(said.contains("src/a/one.rs:1 imports `crate::b::B` of src/b.rs"), "{said}");
        assert!(said.contains("src/b/low.rs:1 imports `crate::a::two::Two` of src/a/two.rs"), "{said}");
    }

    #[test]
    fn a_parent_that_only_declares_and_tests_are_no_circle() {
        let said = said_of_crate(&[
            (
                "src/lib.rs",
                "mod a;\nmod b;\npub use a::f;\npub struct Shared;\nimpl Shared { fn b() { b::g() } }",
            ),
            ("src/b.rs", "pub fn g() {}"),
            ("src/a.rs", "use crate::{Shared, b};\npub fn f() { b::g() }\n#[cfg(test)]\nmod tests;"),
            ("src/a/tests.rs", "use super::f;\nuse crate::Shared;"),
        ]);
        assert_eq!(said, "");
        let used = said_of_crate(&[
            ("src/lib.rs", "mod a;\npub use a::f;\npub struct Shared;\nfn g() { f() }"),
            ("src/a.rs", "use crate::Shared;\npub fn f() {}"),
        ]);
        assert!(used.contains("src/lib.rs:2 imports `a::f` of src/a.rs"), "{used}");
    }

    #[test]
    fn a_crate_that_depends_on_a_later_one_is_found() {
        let crate_of = |name: &str, dependencies: &str| {
            format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n[{dependencies}")
        };
        let files = |dependencies: &str| {
            said(&[
                ("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"low\", \"high\"]"),
                ("low/Cargo.toml", &crate_of("low", dependencies)),
                ("low/src/lib.rs", ""),
                ("high/Cargo.toml", &crate_of("high", "lib]")),
                ("high/src/lib.rs", ""),
            ])
        };
        assert_eq!(files("dev-dependencies]\nhigh = { path = \"../high\" }"), "");
        let said = files("dependencies]\nhigh = { path = \"../high\" }");
        assert!(said.contains("`low` depends on `high`"), "{said}");
    }

    #[test]
    fn this_workspace_has_no_such_problem() {
        let metadata = MetadataCommand::new().no_deps().exec().unwrap();
        check_structure(&metadata).unwrap_or_else(|error| panic!("{error}"));
    }
}
