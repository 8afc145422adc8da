//! Tests declarations that must not compile, each with the expected message.
//!
//! After changing a message, run `TRYBUILD=overwrite cargo test -p compile-fail` and review the difference.
//!
//! Each file costs a run of the compiler, so a file holds all mistakes of one kind, each in a module. Two kinds of mistakes have a file
//! of their own: those whose message names the kernel's type, and those that end the compilation early.

use std::fs;
use std::path::Path;

#[test]
fn each_mistake_has_its_message() {
    // trybuild compiles the fixtures as one package in this folder, and image paths are relative to it.
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tests/trybuild/compile-fail");
    for folder in ["images", "cuda"] {
        fs::create_dir_all(package.join(folder)).expect("the target directory is writable");
        for file in fs::read_dir(Path::new("ui").join(folder)).expect("the fixtures have this folder") {
            let file = file.expect("readable");
            let copy = package.join(folder).join(file.file_name());
            fs::copy(file.path(), copy).expect("the target directory is writable");
        }
    }
    let cubin = fs::read("../../kernel-registry-image/tests/images/spin.sm_90.cubin")
        .expect("it is in the repository");
    fs::write(package.join("images/cut.cubin"), &cubin[..cubin.len() - 1])
        .expect("the target directory is writable");
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
