//! Tests the number that the build script computes to distinguish copies of this package in one program.

#[path = "../build/copy.rs"]
mod copy;

use std::path::Path;

const VERSION: &str = "0.1.0";

fn of(folder: &str) -> u64 {
    copy::copy(Path::new(folder), VERSION)
}

#[test]
fn the_number_is_cargos_hash_in_each_layout_of_its_folders() {
    for folder in [
        "/home/me/target/debug/build/kernel-registry-0123456789abcdef/out",
        "/home/me/build/debug/build/kernel-registry/0123456789abcdef/out",
        "/home/me/build/debug/build/kernel-registry/0123456789abcdef/run/out",
    ] {
        assert_eq!(of(folder), 0x0123_4567_89ab_cdef, "{folder}");
    }
}

#[test]
fn without_cargos_folders_the_number_is_a_hash_of_the_version() {
    let unknown = of("/sandbox/out");
    for folder in
        ["", "out", "/", "/build/kernel-registry-0123/out", "/build/kernel-registry-0123456789abcdeg/out"]
    {
        assert_eq!(of(folder), unknown, "{folder}");
    }
    assert_ne!(copy::copy(Path::new("out"), "0.2.0"), unknown);
}
