//! `cargo xtask miri` and `cargo xtask sanitize`: run tests with tools that detect invalid memory accesses
//! and leaks. These are the tests of records, the registry, the interpreter and the simulated driver, and the
//! stress test, which warms and launches in many threads.

use std::process::Command;

use crate::run::{HOST, Outcome, entries, run, stem, unstable_cargo, workspace};

const CRATES: [&str; 6] = [
    "--package",
    "kernel-registry-format",
    "--package",
    "kernel-registry-cuda",
    "--package",
    "kernel-registry",
];

/// Skipped tests of the interpreter and the simulated driver: `faults` takes longer than all others together,
/// and `speed` has a time limit that can't hold under these tools.
const LEFT_OUT: [&str; 2] = ["faults", "speed"];

pub(crate) fn miri() -> Outcome {
    let installed = Command::new("cargo").args(["+nightly", "miri", "--version"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        return Err("Miri is not installed: run `rustup +nightly component add miri rust-src`".into());
    }
    run(Command::new("cargo").args(["+nightly", "miri", "test"]).args(CRATES).args(["--lib", "--tests"]))
}

pub(crate) fn sanitize() -> Outcome {
    let cargo = || unstable_cargo("sanitize", &["-Zsanitizer=address"]);
    let test = |args: &[&str]| run(cargo().args(["test", "--target", HOST]).args(args));
    test(&[&CRATES[..], &["--lib", "--tests"]].concat())?;
    test(&["--package", "tests", "--test", "unusual_declarations"])?;
    for package in ["kernel-registry-ptx", "kernel-registry-sim"] {
        let tests = tests_of(package)?;
        let targets = tests.iter().flat_map(|test| ["--test", test]);
        test(&["--package", package, "--lib"].into_iter().chain(targets).collect::<Vec<_>>())?;
    }
    let stress = ["--package", "tests", "--bin", "stress", "--", "--seconds", "60"];
    run(cargo().args(["run", "--target", HOST]).args(stress).env("KERNEL_REGISTRY_SIM", "1"))
}

/// Returns the tests of a package: all files, and folders with a main.rs.
fn tests_of(package: &str) -> Outcome<Vec<String>> {
    let mut paths = entries(&workspace().join(package).join("tests"))?;
    paths.retain(|path| {
        path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists()
    });
    let tests = paths.iter().map(|path| stem(path));
    Ok(tests.filter(|name| !LEFT_OUT.contains(&name.as_str())).collect())
}
