//! Builds the simulated driver's tests that can run on NVIDIA's driver (`KERNEL_REGISTRY_SIM=0`), for
//! machines without Rust.

use std::fs;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::Stdio;

use cargo_metadata::Message;

use crate::run::{Outcome, cargo, files_with, stem, workspace};

const PACKAGE: &str = "kernel-registry-sim";

/// Returns the names of that package's tests whose sources say that they can run on a GPU.
fn tests() -> Outcome<Vec<String>> {
    let mut tests = Vec::new();
    for path in files_with("rs", &workspace().join(PACKAGE).join("tests"))? {
        let text = fs::read_to_string(&path)?;
        if ["on_a_gpu()", "`KERNEL_REGISTRY_SIM=0`"].iter().any(|sign| text.contains(sign)) {
            tests.push(stem(&path));
        }
    }
    Ok(tests)
}

/// Builds the tests. Returns their names in the bundle and their paths.
pub(crate) fn build() -> Outcome<Vec<(String, PathBuf)>> {
    let tests = tests()?;
    let mut command = cargo();
    command.args(["test", "--no-run", "--release", "--locked", "--package", PACKAGE]);
    command.args(tests.iter().flat_map(|test| ["--test", test]));
    command.arg("--message-format=json-render-diagnostics").current_dir(workspace());
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().map(BufReader::new);
    let mut built = Vec::new();
    for message in output.into_iter().flat_map(Message::parse_stream) {
        if let Message::CompilerArtifact(artifact) = message?
            && let (true, Some(program)) = (artifact.target.is_test(), artifact.executable)
        {
            built.push((format!("driver_{}", artifact.target.name), program.into()));
        }
    }
    let status = child.wait()?;
    if !status.success() || built.len() != tests.len() {
        return Err(format!("{command:?} built {} programs: {status}", built.len()).into());
    }
    built.sort();
    Ok(built)
}

/// A shell function that runs each test in a separate process, because CUDA is unusable in a process after a
/// fault.
pub(crate) const EACH_TEST: &str = r#"# Runs each test of a program on NVIDIA's driver, in its own process: nothing works in a process after a fault.
each_test() {
    local names name
    names="$("./$1" --list --format terse | sed -n 's/: test$//p')"
    if [[ -z "$names" ]]; then
        printf 'FAIL  %-28s lists no tests\n' "$1"
        failed=1
    fi
    for name in $names; do
        KERNEL_REGISTRY_SIM=0 expect 0 "$1" --exact "$name"
    done
}

"#;
