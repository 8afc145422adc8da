//! Documents each published library as docs.rs does: separately, with its manifest's features and flags,
//! without a network or a toolkit.

use cargo_metadata::{Package, Target};

use crate::run::{Outcome, published, run, unstable_cargo};

/// Fails if a library can't be documented, or if there is a warning.
pub(crate) fn document() -> Outcome {
    for package in published()?.iter().filter(|package| has_library(package)) {
        let settings =
            Settings::find(package).ok_or_else(|| format!("{} has no settings for docs.rs", package.name))?;
        for target in &settings.targets {
            let mut rustdoc = unstable_cargo("docs-rs", &[]);
            rustdoc
                .env("DOCS_RS", "1")
                .env("RUSTDOCFLAGS", format!("-Dwarnings --cfg docsrs {}", settings.flags));
            rustdoc.args([
                "doc",
                "--quiet",
                "--lib",
                "--no-deps",
                "--locked",
                "--offline",
                "--target",
                target,
            ]);
            run(rustdoc.args(["--package", &package.name]).args(&settings.features))?;
        }
    }
    Ok(())
}

fn has_library(package: &Package) -> bool {
    package.targets.iter().any(|target| Target::is_lib(target) || target.is_proc_macro())
}

/// The settings of a manifest, in `[package.metadata.docs.rs]`.
struct Settings {
    /// Arguments for cargo.
    features: Vec<String>,
    /// Without these, docs.rs builds for five targets, which takes long, and fails for crates that only
    /// support Linux.
    targets: Vec<String>,
    /// Additional flags for rustdoc.
    flags: String,
}

impl Settings {
    fn find(package: &Package) -> Option<Settings> {
        let settings = package.metadata.get("docs")?.get("rs")?;
        let list = |key: &str| -> Vec<String> {
            let words = settings.get(key).and_then(|list| list.as_array()).into_iter().flatten();
            words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
        };
        let all = settings.get("all-features").and_then(|all| all.as_bool()) == Some(true);
        let named = Some(list("features")).filter(|features| !features.is_empty());
        let features = match (all, named) {
            (true, _) => vec!["--all-features".to_owned()],
            (false, Some(features)) => vec!["--features".to_owned(), features.join(",")],
            (false, None) => Vec::new(),
        };
        let targets = Some(list("targets")).filter(|targets| !targets.is_empty())?;
        Some(Settings { features, targets, flags: list("rustdoc-args").join(" ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_says_how_docs_rs_builds_it() {
        for package in published().unwrap().iter().filter(|package| has_library(package)) {
            assert!(Settings::find(package).is_some(), "{} names no target", package.name);
        }
    }

    #[test]
    fn settings_become_arguments() {
        let packages = published().unwrap();
        let of = |name: &str| {
            let package = packages.iter().find(|package| package.name == name).unwrap();
            Settings::find(package).unwrap()
        };
        assert_eq!(of("kernel-registry").features, ["--all-features"]);
        assert_eq!(of("kernel-registry").flags, "--cfg docsrs");
        assert_eq!(of("kernel-audit").features, ["--features", "watch"]);
        assert_eq!(of("kernel-audit").targets, ["x86_64-unknown-linux-gnu"]);
        assert!(of("kernel-registry-sim").features.is_empty());
    }
}
