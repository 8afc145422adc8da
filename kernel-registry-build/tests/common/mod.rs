//! Provides a package in a temporary folder, and an nvcc that is a shell script controlled by the test.

#![allow(dead_code, reason = "each test program uses its part")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use kernel_registry_build::Build;
use tempfile::TempDir;

/// The script that replaces nvcc. It logs its command line, then runs the file `behaviour`. The image is a
/// copy of the source, and the preprocessed text enters the headers that the source includes in quotes, from
/// the source's folder.
const NVCC: &str = r#"#!/bin/sh
here=$(dirname "$0")
if [ "$1" = --version ]; then
    cat "$here/version"
    exit
fi
echo "$PWD: $*" >> "$here/log"
while [ $# -gt 0 ]; do
    case $1 in
        -o) out=$2; shift ;;
        -keep-dir) kept=$2; shift ;;
        *.cu) src=$1 ;;
    esac
    shift
done
headers=$(sed -n 's/^#include "\(.*\)"/\1/p' "$src" 2>/dev/null)
{
    printf '# 0 "%s"\n# 1 "%s/../include/cuda_runtime.h" 1\n' "$src" "$here"
    for header in $headers; do printf '# 1 "%s/%s" 1\n' "$(dirname "$src")" "$header"; done
} > "$kept/$(basename "$src" .cu).cpp1.ii"
. "$here/behaviour"
cp "$src" "$out"
"#;

pub struct Package {
    root: TempDir,
}

impl Package {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let package = Package { root: tempfile::tempdir().unwrap() };
        for (path, text) in files {
            package.write(path, text);
        }
        fs::create_dir_all(package.folder()).unwrap();
        let bin = package.toolkit().join("bin");
        fs::create_dir_all(package.toolkit().join("include")).unwrap();
        fs::create_dir_all(&bin).unwrap();
        fs::write(package.toolkit().join("include/cuda_runtime.h"), "").unwrap();
        fs::write(bin.join("nvcc"), NVCC).unwrap();
        fs::set_permissions(bin.join("nvcc"), fs::Permissions::from_mode(0o755)).unwrap();
        package.version("13.0.88");
        package.behaves("");
        // Retries until the script can be started. A process that another test has just forked holds the file
        // open for writing until it calls `exec`.
        while Command::new(bin.join("nvcc")).arg("--version").output().is_err() {
            thread::yield_now();
        }
        package
    }

    pub fn folder(&self) -> PathBuf {
        self.root.path().join("package")
    }

    pub fn toolkit(&self) -> PathBuf {
        self.root.path().join("toolkit")
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.folder().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Sets what nvcc does before it writes the image, as a shell script.
    pub fn behaves(&self, script: &str) {
        fs::write(self.toolkit().join("bin/behaviour"), script).unwrap();
    }

    pub fn version(&self, version: &str) {
        let text = format!("Cuda compilation tools, release 13.0, V{version}\n");
        fs::write(self.toolkit().join("bin/version"), text).unwrap();
    }

    /// Returns nvcc's command lines since the last call, sorted.
    pub fn log(&self) -> Vec<String> {
        let log = self.toolkit().join("bin/log");
        let text = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(log);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    pub fn out(&self) -> PathBuf {
        self.root.path().join("out")
    }

    /// Returns a build of this package that knows only this nvcc.
    pub fn build(&self) -> Build {
        Build::new()
            .cargo_output(false)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("PROFILE", "debug")
            .env("CUDA_HOME", self.toolkit())
            .env("KERNEL_REGISTRY_COMPILER", "nvcc")
            .package(self.folder())
            .out_dir(self.out())
    }

    /// Returns a build without a compiler.
    pub fn bare(&self) -> Build {
        self.build().env("KERNEL_REGISTRY_COMPILER", "prebuilt")
    }

    pub fn index(&self) -> String {
        fs::read_to_string(self.made("index")).unwrap()
    }

    /// Returns the path of a file that the build made.
    pub fn made(&self, name: &str) -> PathBuf {
        self.out().join("kernel-registry").join(name)
    }
}

/// Runs a build that must fail, and returns the error.
pub fn refusal(build: &Build) -> String {
    build.try_compile().expect_err("this should not compile").to_string()
}

/// Returns the sample sources of this repository.
pub fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels")
}
