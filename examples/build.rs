//! Compiles the C++ part of the example `linked`, if there is nvcc, and makes the linker pass its kernels to kernel-registry.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel_registry_build::{Available, available};

const SOURCE: &str = "cuda/linked.cu";

fn main() {
    println!("cargo:rustc-check-cfg=cfg(has_linked)");
    println!("cargo:rerun-if-changed={SOURCE}");
    for name in ["KERNEL_REGISTRY_COMPILER", "CUDA_HOME", "CUDA_PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if let Ok(Available::Compiler { name, file: Some(nvcc) }) = available()
        && name.starts_with("nvcc")
        && compile(&nvcc)
    {
        println!("cargo:rustc-cfg=has_linked");
        kernel_registry_build::linked();
    }
}

/// Compiles the source to a static library, as build scripts of other projects do. Returns false if nvcc fails.
fn compile(nvcc: &Path) -> bool {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let library = out.join("liblinked_story.a");
    let targets =
        ["arch=compute_80,code=sm_80", "arch=compute_90,code=sm_90", "arch=compute_75,code=compute_75"];
    let mut command = Command::new(nvcc);
    command.args(["-O2", "--lib", "-Xcompiler", "-fPIC", SOURCE, "-o"]).arg(&library);
    command.args(targets.map(|target| format!("-gencode={target}")));
    let made = command.status().is_ok_and(|status| status.success());
    if !made {
        println!("cargo:warning={command:?} failed, so the story `linked` is left out");
        return false;
    }
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=linked_story");
    let root = nvcc.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    for folder in ["lib64", "lib", "targets/x86_64-linux/lib"] {
        println!("cargo:rustc-link-search=native={}", root.join(folder).display());
    }
    println!("cargo:rustc-link-lib=static=cudart_static");
    for library in ["stdc++", "rt", "dl", "pthread"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    true
}
