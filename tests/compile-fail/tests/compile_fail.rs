//! Declarations that must not compile, each with the expected message.
//!
//! After changing a message, run `TRYBUILD=overwrite cargo test -p compile-fail` and review the difference.
//!
//! A file holds the mistakes of one kind, each in a module, because each file costs a run of the compiler. Messages that name the
//! kernel's type stand at the root of a file, and so do mistakes that end the compilation early.

use std::fs;
use std::path::Path;

#[test]
fn messages() {
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
