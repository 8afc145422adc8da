//! Tests that a compiler older than the minimum version is refused with a clear message.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tests::{cargo, lines, package};

#[test]
fn a_compiler_below_the_minimum_is_refused() {
    let package = package("fn main() {}\n");
    // The script runs the installed compiler, but reports an older version.
    let compiler = package.join("rustc-of-old");
    let script = "#!/bin/sh\n\
                  case \"$*\" in\n\
                  -vV|*--version*) rustc \"$@\" | sed -E 's/^(rustc |release: )1\\.[0-9]+/\\11.88/' ;;\n\
                  *) exec rustc \"$@\" ;;\n\
                  esac\n";
    fs::write(&compiler, script).unwrap();
    fs::set_permissions(&compiler, Permissions::from_mode(0o755)).unwrap();
    let said = |command: &mut Command, code: i32| {
        let output = command.env("RUSTC", &compiler).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        String::from_utf8(output.stderr).unwrap()
    };

    let cargos =
        said(cargo().arg("check").current_dir(&package).env("CARGO_TARGET_DIR", package.join("target")), 101);
    assert!(cargos.contains("kernel-registry@0.1.0 requires rustc 1.89"), "{cargos}");

    // The build script is run directly: with `--ignore-rust-version` cargo would first build all dependencies again.
    let ours = said(&mut Command::new(build_script()), 1);
    assert!(ours.contains("kernel-registry needs Rust 1.89.0 or newer, and this is Rust 1.88."), "{ours}");
    assert!(ours.contains("`rustup update` brings a newer one"), "{ours}");
}

/// Returns the compiled build script of kernel-registry.
fn build_script() -> PathBuf {
    let args = ["build", "--package", "none", "--features", "same-features", "--message-format", "json"];
    let messages = lines(cargo().args(args));
    let messages = messages.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_script = |message: &Value| {
        let package = message["package_id"].as_str().unwrap_or_default();
        message["target"]["kind"][0] == "custom-build" && package.contains("/kernel-registry#")
    };
    let script = messages.into_iter().find(is_script).expect("it was built");
    script["filenames"][0].as_str().unwrap().into()
}
