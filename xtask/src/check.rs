//! `cargo xtask check`: checks the format, lints, looks for import cycles, and tests the crates that changed.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use cargo_metadata::camino::Utf8PathBuf;
use cargo_metadata::{Metadata, Package, Target};

use crate::run::{Outcome, cargo, run, workspace};
use crate::{once, prose, structure};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Test what changed since the common ancestor of HEAD and COMMIT [default: uncommitted changes]
    #[arg(long, value_name = "COMMIT")]
    since: Option<String>,
}

pub(crate) fn check(options: &Options) -> Outcome {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    structure::check_structure(&metadata)?;
    prose::check_audit(&workspace())?;
    once::check_hooks(&workspace())?;
    let lint = ["clippy", "--quiet", "--workspace", "--all-targets", "--locked"];
    run(cargo().args(lint).args(["--", "-D", "warnings"]))?;
    let tests = tests(&metadata, &changed(options)?);
    if tests.is_empty() {
        println!("no crate changed: no tests");
    }
    for (package, targets) in &tests {
        run(cargo().args(["test", "--quiet", "--locked", "--package", package]).args(targets))?;
    }
    println!("not tested: crates that depend on the changed ones, and the other steps of `.ci/run`");
    Ok(())
}

/// Returns the paths of changed files.
fn changed(options: &Options) -> Outcome<BTreeSet<Utf8PathBuf>> {
    let since = match &options.since {
        Some(commit) => git(&["merge-base", commit, "HEAD"])?,
        None => "HEAD".to_owned(),
    };
    let lists =
        git(&["ls-files", "--others", "--exclude-standard"])? + &git(&["diff", "--name-only", since.trim()])?;
    let root = Utf8PathBuf::try_from(workspace())?;
    Ok(lists.lines().map(|file| root.join(file)).collect())
}

fn git(args: &[&str]) -> Outcome<String> {
    let output = Command::new("git").args(args).current_dir(workspace()).output()?;
    if !output.status.success() {
        return Err(
            format!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim()).into()
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the packages to test, with arguments for `cargo test`. A package with changed files runs its unit
/// tests, and its changed integration tests. If a file in `src` changed, it runs all integration tests,
/// except the slow package `tests`. A changed `.md` file runs the test `guides`, which checks links and more.
fn tests(metadata: &Metadata, changed: &BTreeSet<Utf8PathBuf>) -> BTreeMap<String, Vec<String>> {
    let packages = metadata.workspace_packages();
    let mut of_package: BTreeMap<&str, (&Package, Vec<&Utf8PathBuf>)> = BTreeMap::new();
    for file in changed {
        if let Some(package) = owner(&packages, file) {
            of_package.entry(&package.name).or_insert((package, Vec::new())).1.push(file);
        }
    }
    let mut tests = BTreeMap::new();
    for (package, files) in of_package.into_values() {
        let of_target = |target: &&Target| {
            let folder = target.src_path.file_name() == Some("main.rs");
            let own_path = target.src_path.parent().filter(|_| folder).unwrap_or(&target.src_path);
            files.iter().any(|file| file.starts_with(own_path))
        };
        let all: Vec<&Target> = package.targets.iter().filter(|target| target.is_test()).collect();
        let is_source = files.iter().any(|file| file.components().any(|part| part.as_str() == "src"));
        let mut arguments = Vec::new();
        if package.targets.iter().any(is_library) {
            arguments.push("--lib".to_owned());
        }
        if package.targets.iter().any(Target::is_bin) {
            arguments.push("--bins".to_owned());
        }
        let takes_all = is_source && package.name.as_str() != "tests";
        for target in all.iter().filter(|target| takes_all || of_target(target)) {
            arguments.extend(["--test".to_owned(), target.name.clone()]);
        }
        tests.insert(package.name.to_string(), arguments);
    }
    if changed.iter().any(|file| file.extension() == Some("md")) {
        let arguments = tests.entry("tests".to_owned()).or_default();
        arguments.extend(["--test", "guides"].map(str::to_owned));
    }
    tests
}

fn is_library(target: &Target) -> bool {
    target.is_lib() || target.is_proc_macro()
}

/// Returns the innermost package that contains this file, because fixtures are packages inside other
/// packages.
fn owner<'a>(packages: &[&'a Package], file: &Utf8PathBuf) -> Option<&'a Package> {
    let folder = |package: &Package| Some(package.manifest_path.parent()?.as_str().len());
    let has =
        |package: &Package| package.manifest_path.parent().is_some_and(|folder| file.starts_with(folder));
    packages.iter().copied().filter(|package| has(package)).max_by_key(|package| folder(package))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(files: &[&str]) -> BTreeMap<String, Vec<String>> {
        let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec().unwrap();
        let root = Utf8PathBuf::try_from(workspace()).unwrap();
        tests(&metadata, &files.iter().map(|file| root.join(file)).collect())
    }

    #[test]
    fn what_changed_is_tested() {
        assert!(chosen(&[".ci/run"]).is_empty());
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(chosen(&["README.md"])["tests"], words(&["--test", "guides"]));
        let audit = chosen(&["tests/tests/audit_report/page.rs"]);
        assert_eq!(audit["tests"], words(&["--lib", "--bins", "--test", "audit_report"]));
        let sim = chosen(&["kernel-registry-sim/tests/stack.rs"]);
        assert_eq!(sim["kernel-registry-sim"], words(&["--lib", "--test", "stack"]));
        let format = chosen(&["kernel-registry-format/src/param.rs"]);
        assert!(format["kernel-registry-format"].len() > 2, "{format:?}");
        assert_eq!(chosen(&["tests/fixtures/joined/src/main.rs"]).keys().collect::<Vec<_>>(), ["joined"]);
    }
}
