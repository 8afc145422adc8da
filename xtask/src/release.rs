//! `cargo xtask release-check`: runs everything that must pass before a release, with nothing left out.
//! docs/releasing.md has the next steps.

use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};

use cargo_metadata::MetadataCommand;

use crate::archive;
use crate::run::{HOST, Outcome, cargo, files_with, installed, remove, run, target, workspace};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only the steps with this word in their names
    #[arg(long, value_name = "WORD")]
    step: Option<String>,
}

type Step = (&'static str, fn() -> Outcome);

const STEPS: [Step; 9] = [
    ("everything is committed", committed),
    ("what is tagged is a release", tagged),
    ("what CI runs, with nothing left out", ci),
    ("documentation, as docs.rs makes it", crate::docs_rs::document),
    ("the oldest compiler", oldest_compiler),
    ("crates, as crates.io takes them", crates),
    ("the wheel and the tarballs", || archive::archives(HOST)),
    ("the wheel, as PyPI takes it", wheels),
    ("public APIs, compared with those of the newest release", compatible),
];

pub(crate) fn release_check(options: &Options) -> Outcome {
    let word = options.step.as_deref().unwrap_or_default();
    for (name, step) in STEPS.iter().filter(|(name, _)| name.contains(word)) {
        println!("\n==== {name}");
        step()?;
    }
    Ok(())
}

/// Files are packed, but a commit is tagged, so both must be the same.
fn committed() -> Outcome {
    match git(&["status", "--porcelain"])? {
        changed if changed.is_empty() => Ok(()),
        changed => Err(format!("commit or remove these files, or they are in no tag:\n{changed}").into()),
    }
}

/// If HEAD has a release's tag, the files must be that release's.
fn tagged() -> Outcome {
    let tags = git(&["tag", "--list", "v*", "--points-at", "HEAD"])?;
    let Some(tag) = tags.lines().next() else {
        println!("NOT CHECKED: whether pages and changelog are those of a release, because HEAD has no tag");
        return Ok(());
    };
    // This page contains the words that the others must not.
    let pages = git(&["ls-files", "*.md", "cargo-kernels/src/commands/new.rs", ":!docs/releasing.md"])?;
    let read = |name: &str| Ok((name.to_owned(), fs::read_to_string(workspace().join(name))?));
    let pages = pages.lines().map(read).collect::<Outcome<Vec<_>>>()?;
    match problems(tag, env!("CARGO_PKG_VERSION"), &pages) {
        problems if problems.is_empty() => Ok(()),
        problems => Err(format!("{tag} is no release:\n{}", problems.join("\n")).into()),
    }
}

/// Returns what must change before this tag can be a release. Pages come with their paths.
fn problems(tag: &str, version: &str, pages: &[(String, String)]) -> Vec<String> {
    let mut problems = Vec::new();
    if tag != format!("v{version}") {
        problems.push(format!("the version is {version}: the tag is `v{version}`"));
    }
    for (page, text) in pages {
        for word in [
            "no release yet",
            concat!("--git ", env!("CARGO_PKG_REPOSITORY")),
            "git = \"https:",
            "git = \\\"",
        ] {
            if text.contains(word) {
                problems.push(format!("{page} says `{word}`"));
            }
        }
        if page == "CHANGELOG.md" {
            let heading = text.lines().find_map(|line| line.strip_prefix("## ")).unwrap_or_default();
            let date = heading.strip_prefix(version).and_then(|rest| rest.strip_prefix(", "));
            if date.is_none_or(|date| !date.starts_with(|first: char| first.is_ascii_digit())) {
                problems
                    .push(format!("{page} begins with `{heading}`, and must with `{version}, YYYY-MM-DD`"));
            }
        }
    }
    problems
}

fn ci() -> Outcome {
    run(Command::new("bash").args([".ci/run", "--all"]))
}

/// Compiles everything with the oldest compiler in the manifests.
fn oldest_compiler() -> Outcome {
    let version = rust_version()?;
    let target = target().join("oldest-compiler");
    run(Command::new("rustup").args(["toolchain", "install", &version, "--profile", "minimal"]))?;
    let mut check = Command::new("rustup");
    check.env("CARGO_TARGET_DIR", &target).env("KERNEL_REGISTRY_COMPILER", "prebuilt");
    run(check.args(["run", &version, "cargo", "check", "--workspace", "--locked"]))?;
    remove(&target)
}

/// Returns the oldest compiler in the manifests, as in `1.89`.
fn rust_version() -> Outcome<String> {
    let metadata = MetadataCommand::new().no_deps().current_dir(workspace()).exec()?;
    let versions = metadata.packages.into_iter().filter_map(|package| package.rust_version);
    let version = versions.max().ok_or("no manifest has a rust-version")?;
    Ok(format!("{}.{}", version.major, version.minor))
}

/// Packs every crate in dependency order, as for crates.io, and compiles each package with its own features
/// alone. Workspace builds have the features that any member asks for, so they miss warnings that show up
/// here.
fn crates() -> Outcome {
    let mut publish = cargo();
    publish.env("RUSTFLAGS", "-D warnings").args(["publish", "--workspace", "--dry-run", "--locked"]);
    run(publish.arg("--target-dir").arg(target().join("crates")))?;
    remove(&target().join("crates"))?;
    // This package has no workspace, and before the first release, its dependency isn't on crates.io.
    let mut pack = cargo();
    pack.args([
        "package",
        "--no-verify",
        "--exclude-lockfile",
        "--manifest-path",
        "kernel-registry-candle/Cargo.toml",
    ]);
    pack.args(["--config", "patch.crates-io.kernel-registry.path='kernel-registry'"]);
    run(pack.arg("--target-dir").arg(target().join("candle-package")))
}

/// Checks the wheels in target/wheel as PyPI does, with the program that uploads them.
fn wheels() -> Outcome {
    let wheels = files_with("whl", &target().join("wheel"))?;
    if wheels.is_empty() {
        return Err("there is no wheel in target/wheel: `cargo xtask wheel` makes one".into());
    }
    let folder = target().join("twine");
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let python = std::path::absolute(&folder)?.join("bin/python");
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "twine==7.0.0"]))?;
    let words = ["-m", "twine", "check", "--strict"].map(OsString::from);
    run(Command::new(&python).args(words).args(wheels))
}

/// Compares the public APIs with those of the latest release before this commit.
fn compatible() -> Outcome {
    let tags = git(&["tag", "--list", "v*", "--merged", "HEAD^", "--sort=-version:refname"])?;
    match tags.lines().next() {
        Some(tag) => {
            installed("cargo-semver-checks")?;
            run(cargo().args(["semver-checks", "--workspace", "--baseline-rev", tag]))
        }
        None => {
            println!("NOT CHECKED: whether the APIs are compatible, because there is no earlier release");
            Ok(())
        }
    }
}

/// Returns what git prints.
fn git(args: &[&str]) -> Outcome<String> {
    let output = Command::new("git").args(args).current_dir(workspace()).stderr(Stdio::inherit()).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(format!("git {}: {}", args.join(" "), output.status).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::published;

    fn said(tag: &str, pages: &[(&str, &str)]) -> String {
        let pages: Vec<_> =
            pages.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        problems(tag, "0.1.0", &pages).join("; ")
    }

    #[test]
    fn a_tag_is_a_release_if_version_changelog_and_pages_are() {
        let changelog = ("CHANGELOG.md", "# Changelog\n\n## 0.1.0, 2026-12-01\n");
        assert_eq!(said("v0.1.0", &[changelog, ("README.md", "cargo add kernel-registry")]), "");
        assert!(said("v0.1.1", &[changelog]).contains("the tag is `v0.1.0`"));
        for heading in ["0.1.0, unreleased", "0.1.0", "0.2.0, 2026-12-01"] {
            let said = said("v0.1.0", &[("CHANGELOG.md", &format!("## {heading}\n## 0.1.0, 2026-12-01"))]);
            assert!(said.contains("must with `0.1.0, YYYY-MM-DD`"), "{said}");
        }
        for text in [
            "There is no release yet.",
            "cargo add kernel-registry --git https://github.com/kernel-registry/kernel-registry",
            "kernel-registry = { git = \"https://github.com/kernel-registry/kernel-registry\" }",
            // In a Rust string.
            "concat!(\"git = \\\"\", env!(\"CARGO_PKG_REPOSITORY\"), ..)",
        ] {
            assert!(said("v0.1.0", &[("README.md", text)]).contains("README.md says"), "{text}");
        }
    }

    /// The package is outside of the workspace, but shares its version.
    #[test]
    fn the_package_for_candle_has_the_version_of_the_others() {
        let manifest = fs::read_to_string(workspace().join("kernel-registry-candle/Cargo.toml")).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        assert!(manifest.contains(&format!("\nversion = \"{version}\"\n")), "{manifest}");
        let dependency =
            format!("kernel-registry = {{ path = \"../kernel-registry\", version = \"={version}\"");
        assert!(manifest.contains(&dependency), "{manifest}");
    }

    #[test]
    fn ci_compiles_with_the_oldest_compiler() {
        let recipe = fs::read_to_string(workspace().join(".github/workflows/ci.yml")).unwrap();
        assert!(recipe.contains(&format!("rust: [\"{}\", stable", rust_version().unwrap())), "{recipe}");
    }

    /// The loop in docs/releasing.md has all crates, each after those that it needs, including for its tests.
    #[test]
    fn the_page_publishes_every_crate_after_its_dependencies() {
        let page = fs::read_to_string(workspace().join("docs/releasing.md")).unwrap();
        let (_, names) = page.split_once("for crate in ").unwrap();
        let names = names.split("do ").next().unwrap().split_whitespace().filter(|word| *word != "\\");
        let names: Vec<_> = names.collect();
        let packages = published().unwrap();
        assert_eq!(names.len(), packages.len());
        for package in packages {
            let position = |name: &str| names.iter().position(|of_page| *of_page == name);
            let own = position(&package.name).unwrap_or_else(|| panic!("{} is missing", package.name));
            // Cargo drops dependencies without a version, which only tests have.
            let needed = package.dependencies.iter().filter(|needed| !needed.req.comparators.is_empty());
            for needed in needed.filter(|needed| needed.path.is_some()) {
                let is_before = position(&needed.name).is_some_and(|needed| needed < own);
                assert!(is_before, "{} needs {}", package.name, needed.name);
            }
        }
    }

    /// Checks the fields that crates.io requires of a manifest.
    #[test]
    fn each_manifest_has_what_crates_io_shows() {
        for package in published().unwrap() {
            let name = &package.name;
            assert!(package.description.as_ref().is_some_and(|text| text.len() < 1000), "{name}");
            assert_eq!(package.license.as_deref(), Some("MIT OR Apache-2.0"), "{name}");
            assert_eq!(package.repository.as_deref(), Some(env!("CARGO_PKG_REPOSITORY")), "{name}");
            assert!(package.readme().is_some_and(|readme| readme.is_file()), "{name}");
            assert!(
                package.keywords.len() <= 5 && package.keywords.iter().all(|word| word.len() <= 20),
                "{name}"
            );
            assert!(package.categories.len() <= 5, "{name}");
            // Resident kernels aren't stable yet.
            let version =
                if *name == "kernel-registry-resident" { "0.0.1" } else { env!("CARGO_PKG_VERSION") };
            assert_eq!(package.version.to_string(), version, "{name}");
            assert_eq!(package.rust_version.as_ref().map(|version| version.minor), Some(89), "{name}");
        }
    }
}
