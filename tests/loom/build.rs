//! Sets the cfg by which the files of the library use loom's types.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cfg=loom");
}
