//! A compiler older than the minimum version is refused with a clear message.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use tests::{cargo, package};

#[test]
fn a_compiler_that_loses_records() {
    let package = package("fn main() {}\n");
    // The installed compiler, made to report an older version.
    let compiler = package.join("rustc-of-old");
    let script = "#!/bin/sh\n\
                  case \"$*\" in\n\
                  -vV|*--version*) rustc \"$@\" | sed -E 's/^(rustc |release: )1\\.[0-9]+/\\11.88/' ;;\n\
                  *) exec rustc \"$@\" ;;\n\
                  esac\n";
    fs::write(&compiler, script).unwrap();
    fs::set_permissions(&compiler, Permissions::from_mode(0o755)).unwrap();
    let check = |args: &[&str]| {
        let mut cargo = cargo();
        cargo.arg("check").args(args).current_dir(&package).env("RUSTC", &compiler);
        let output = cargo.env("CARGO_TARGET_DIR", package.join("target")).output().unwrap();
        assert_eq!(output.status.code(), Some(101));
        String::from_utf8(output.stderr).unwrap()
    };

    let cargos = check(&[]);
    assert!(cargos.contains("kernel-registry@0.1.0 requires rustc 1.89"), "{cargos}");

    let ours = check(&["--ignore-rust-version"]);
    assert!(ours.contains("kernel-registry needs Rust 1.89.0 or newer, and this is Rust 1.88."), "{ours}");
    assert!(ours.contains("`rustup update` brings a newer one"), "{ours}");
}
