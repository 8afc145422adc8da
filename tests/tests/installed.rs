//! Tests `cargo kernels` as `cargo install` installs it, on a machine where its checkout has changed, and then is gone.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::{Build, build_alike, cargo, lines, scratch_folder};

#[test]
#[ignore = "it compiles the command and its libraries anew, which takes minutes: a step of .ci/run"]
fn the_installed_command_builds_its_libraries_without_the_checkout() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = scratch_folder();
    let checkout = folder.join("checkout");
    for file in lines(Command::new("git").current_dir(workspace).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ])) {
        let (from, to) = (workspace.join(&file), checkout.join(&file));
        // Only files are copied: no links to folders, and no files that were removed.
        if from.is_file() {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from, to).unwrap();
        }
    }
    let mut install = cargo();
    install
        .args(["install", "--quiet", "--locked", "--offline", "--debug", "--path"])
        .arg(checkout.join("cargo-kernels"));
    let installed = install.arg("--root").arg(folder.join("installed")).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));

    let program = Build::default().executable("cudarc-only");
    let runs = |args: &[&str]| {
        let mut command = Command::new(folder.join("installed/bin/cargo-kernels"));
        build_alike(&mut command);
        // The command runs outside of a package, so that it builds the libraries in the cache.
        command.env("XDG_CACHE_HOME", folder.join("cache")).current_dir("/");
        let printed = lines(command.arg("kernels").args(args).arg("--offline").arg("--").arg(&program));
        assert!(printed.iter().any(|line| line.ends_with(": [2, 4, 6, 8]")), "{printed:?}");
    };
    for name in ["kernel-registry-sim", "kernel-audit-hooks"] {
        fs::write(checkout.join(name).join("src/lib.rs"), "compile_error!(\"of another version\");").unwrap();
    }
    runs(&["audit", "--sim"]);
    fs::remove_dir_all(&checkout).unwrap();
    runs(&["audit", "--sim"]);
    runs(&["sim"]);
    fs::remove_dir_all(&folder).unwrap();
}
