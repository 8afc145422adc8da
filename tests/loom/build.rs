//! Sets `cfg(loom)`, with which the files of kernel-registry use loom's types.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cfg=loom");
}
