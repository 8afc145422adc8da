//! `cargo xtask release-check`: runs everything that must pass before a release, with nothing left out.

use std::process::Command;

use crate::run::{Outcome, cargo, installed, run, workspace};

pub(crate) fn release_check() -> Outcome {
    run(Command::new("bash").args([".ci/run", "--all"]))?;
    crate::book::book()?;
    // Cargo packs every crate in the order of dependencies, as it would for crates.io.
    run(cargo().args(["publish", "--workspace", "--dry-run", "--locked", "--no-verify"]))?;
    compatible()
}

/// Compares the public APIs with those of the newest release.
fn compatible() -> Outcome {
    let tags = Command::new("git")
        .args(["tag", "--list", "v*", "--sort=-version:refname"])
        .current_dir(workspace())
        .output()?;
    match String::from_utf8_lossy(&tags.stdout).lines().next() {
        Some(tag) => {
            installed("cargo-semver-checks")?;
            run(cargo().args(["semver-checks", "--workspace", "--baseline-rev", tag]))
        }
        None => {
            println!("NOT CHECKED: whether the APIs are compatible, because there is no release yet");
            Ok(())
        }
    }
}
