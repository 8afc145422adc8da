//! Sets `cfg(loom)`, which makes the library's files use loom's types.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cfg=loom");
}
