//! Tests build scripts under cargo: what runs again, what the user sees, and how many compilers run at once.
#![cfg(unix)]

mod common;

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::Package;

const MANIFEST: &str = r#"[package]
name = "NAME"
version = "0.0.0"
edition = "2024"

[workspace]

[build-dependencies]
kernel-registry-build = { path = "THIS" }
"#;

/// Makes a package with a build script. All packages share a target folder, so their names must differ.
fn package(name: &str, sources: &[(&str, &str)]) -> Package {
    let package = Package::new(sources);
    package.write("Cargo.toml", &MANIFEST.replace("NAME", name).replace("THIS", env!("CARGO_MANIFEST_DIR")));
    package.write("build.rs", "fn main() {\n    kernel_registry_build::compile();\n}\n");
    package.write(
        "src/lib.rs",
        "pub const INDEX: &str = concat!(env!(\"OUT_DIR\"), \"/kernel-registry/index\");\n",
    );
    // These are the versions in this workspace's lock file, which have been downloaded.
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    fs::copy(lock, package.folder().join("Cargo.lock")).unwrap();
    package
}

/// Runs cargo with a target folder that all tests share, so that dependencies are built once.
fn cargo(package: &Package, words: &[&str], choice: &str) -> (bool, String) {
    cargo_with(package, words, choice, &[])
}

/// Runs cargo with the shared target folder and these variables.
fn cargo_with(package: &Package, words: &[&str], choice: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO"));
    for name in
        ["CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CARGO_MAKEFLAGS", "MAKEFLAGS", "NUM_JOBS", "PROFILE"]
    {
        command.env_remove(name);
    }
    command.args(words).arg("--offline").current_dir(package.folder());
    command.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cargo"));
    command.env("CUDA_HOME", package.toolkit()).env("KERNEL_REGISTRY_COMPILER", choice);
    command.envs(variables.iter().copied());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (status.success(), text)
}

/// Runs `cargo build`, and returns how many sources were compiled.
fn compiled(package: &Package) -> usize {
    let (success, text) = cargo(package, &["build"], "nvcc");
    assert!(success, "{text}");
    package.log().len()
}

#[test]
fn cargo_notices_what_changed() {
    let package = package(
        "notices",
        &[("cuda/a.cu", "#include \"h.cuh\"\n"), ("cuda/h.cuh", ""), ("cuda/deep/b.cu", "")],
    );
    assert_eq!(compiled(&package), 2);
    let (success, text) = cargo(&package, &["build", "-v"], "nvcc");
    assert!(success && text.contains("Fresh notices "), "{text}");
    package.write("cuda/h.cuh", "// changed\n");
    assert_eq!(compiled(&package), 1);
    package.write("cuda/deep/c.cu", "// new\n");
    assert_eq!(compiled(&package), 1);
    assert_eq!(compiled(&package), 0);
}

#[test]
fn other_search_paths_rebuild_nothing_while_all_images_are_there() {
    let package = package("quiet", &[("cuda/a.cu", "")]);
    let old_path = env::var("PATH").unwrap();
    let is_fresh = |choice: &str, cuda_home: &str, path: &str, other: &str| {
        let variables =
            [("CUDA_HOME", cuda_home), ("PATH", path), ("LD_LIBRARY_PATH", other), ("VIRTUAL_ENV", other)];
        let (success, text) = cargo_with(&package, &["build", "-v"], choice, &variables);
        assert!(success, "{text}");
        text.contains("Fresh quiet ")
    };
    let toolkit = package.toolkit().display().to_string();
    let new_path = format!("/nowhere:{old_path}");
    assert!(!is_fresh("nvcc", &toolkit, &old_path, ""));
    assert!(is_fresh("nvcc", &toolkit, &new_path, "/nowhere"));
    // The compiler is found by `PATH`.
    assert!(!is_fresh("nvcc", "", &format!("{toolkit}/bin:{old_path}"), ""));
    assert!(is_fresh("nvcc", "", &format!("/nowhere:{toolkit}/bin:{old_path}"), "/nowhere"));
    assert_eq!(package.log().len(), 1);
    // Without an image, changed variables may lead to a compiler.
    assert!(!is_fresh("prebuilt", "", &old_path, ""));
    assert!(is_fresh("prebuilt", "", &old_path, ""));
    assert!(!is_fresh("prebuilt", "", &new_path, ""));
    assert!(!is_fresh("prebuilt", "", &new_path, "/nowhere"));
}

#[test]
fn the_user_sees_warnings_and_errors() {
    let package = package("says", &[("cuda/a.cu", "")]);
    package.behaves("echo 'cuda/a.cu(2): warning #177-D: unused\n      int unused;\n          ^' >&2");
    let (success, text) = cargo(&package, &["build"], "nvcc");
    assert!(success && text.contains("cuda/a.cu(2): warning #177-D: unused\n"), "{text}");
    package.behaves("echo 'cuda/a.cu(3): error: bad\n    x\n    ^' >&2; exit 1");
    package.write("cuda/a.cu", "// worse\n");
    let (success, text) = cargo(&package, &["build"], "nvcc");
    let lines = ["cuda/a.cu(3): error: bad", "    x", "    ^", "nvcc 13.0.88 found errors in cuda/a.cu"];
    let said: String = lines.iter().map(|line| format!("error: says@0.0.0: {line}\n")).collect();
    assert!(!success && text.contains(&said) && !text.contains("rerun-if"), "{text}");
    // Cargo rejects `cargo::error` lines for a package with an old Rust version.
    let manifest = fs::read_to_string(package.folder().join("Cargo.toml")).unwrap();
    let old = manifest.replace("[package]", "[package]\nrust-version = \"1.76\"").replace("2024", "2021");
    package.write("Cargo.toml", &old);
    let (success, text) = cargo(&package, &["build", "--ignore-rust-version"], "nvcc");
    assert!(!success && text.contains("  cuda/a.cu(3): error: bad\n      x\n      ^\n\n"), "{text}");
    package.write("Cargo.toml", &manifest);

    // Without a compiler.
    let (success, text) = cargo(&package, &["check"], "prebuilt");
    assert!(success && text.matches("no image for cuda/a.cu").count() == 1, "{text}");
    let (success, text) = cargo(&package, &["check", "--release"], "prebuilt");
    assert!(!success && text.contains("no image for cuda/a.cu"), "{text}");
}

#[test]
fn no_more_compilers_run_than_cargo_has_jobs() {
    let names: Vec<String> = (0..8).map(|number| format!("cuda/{number}.cu")).collect();
    let sources: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    for jobs in [1, 3] {
        let package = package(&format!("jobs-{jobs}"), &sources);
        // Each running compiler has a file in `running`. It writes the number of these files to another file.
        package.behaves(
            "mkdir -p \"$here/running\"; : > \"$here/running/$$\"; ls \"$here/running\" | wc -l > \"$here/count.$$\"\n\
             sleep 0.2; rm \"$here/running/$$\"",
        );
        let (success, text) = cargo(&package, &["build", "-j", &jobs.to_string()], "nvcc");
        assert!(success, "{text}");
        let counts = fs::read_dir(package.toolkit().join("bin")).unwrap().map(|entry| entry.unwrap().path());
        let counts = counts.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("count."));
        let most =
            counts.map(|path| fs::read_to_string(path).unwrap().trim().parse::<usize>().unwrap()).max();
        assert_eq!(most, Some(jobs));
    }
}
