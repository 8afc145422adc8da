//! Builds a driver that does nothing, to measure the software on top of it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// A folder with that driver, under the driver's file names. Dropping this removes the folder.
pub struct Stub(PathBuf);

impl Stub {
    /// Compiles the driver with `cc`.
    pub fn build() -> Result<Self> {
        let folder = env::temp_dir().join(format!("kernel-registry-stub-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let stub = Stub(folder);
        let (source, library) = (stub.0.join("stub.c"), stub.library());
        fs::write(&source, include_str!("stub.c"))?;
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        let output = cc.output().map_err(|error| format!("`cc`, a C compiler, was not started: {error}"))?;
        if !output.status.success() {
            return Err(format!("`cc` failed:\n{}", String::from_utf8_lossy(&output.stderr)).into());
        }
        fs::copy(&library, stub.0.join("libcuda.so"))?;
        Ok(stub)
    }

    /// Returns the driver's file.
    pub fn library(&self) -> PathBuf {
        self.0.join("libcuda.so.1")
    }

    /// Returns the folder to add to the library path.
    pub fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        // On failure, a small temporary folder remains.
        let _ = fs::remove_dir_all(&self.0);
    }
}
