//! The const encoder, the decoder, the walk over the section and the simulated driver, under tools that see what they should not
//! touch, and what they forget to give back.

use std::process::Command;

use crate::run::{HOST, Outcome, run, unstable_cargo};

const CRATES: [&str; 4] = ["--package", "kernel-registry-format", "--package", "kernel-registry"];

/// Tests that warm and launch, on devices of all kinds, and hand the driver addresses of nothing.
const SIMULATOR: [&str; 10] = [
    "ages",
    "arguments",
    "calls",
    "capture",
    "configured",
    "corpus",
    "damaged",
    "deadlock",
    "devices",
    "differential",
];

pub(crate) fn miri() -> Outcome {
    let installed = Command::new("cargo").args(["+nightly", "miri", "--version"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        return Err("Miri is not installed: `rustup +nightly component add miri rust-src` brings it".into());
    }
    run(Command::new("cargo").args(["+nightly", "miri", "test"]).args(CRATES).args(["--lib", "--tests"]))
}

pub(crate) fn sanitize() -> Outcome {
    let test = |args: &[&str]| {
        let mut cargo = unstable_cargo("sanitize", &["-Zsanitizer=address"]);
        run(cargo.args(["test", "--target", HOST]).args(args))
    };
    test(&[&CRATES[..], &["--lib", "--tests"]].concat())?;
    test(&["--package", "tests", "--test", "legal"])?;
    // Without those about faults, forks and many threads: they have limits of time, which nothing keeps under these tools.
    let targets = SIMULATOR.iter().flat_map(|test| ["--test", test]);
    test(&["--package", "kernel-registry-sim", "--lib"].into_iter().chain(targets).collect::<Vec<_>>())
}
