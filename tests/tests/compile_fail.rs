//! Declarations that must not compile, each with the expected message.
//!
//! After changing a message, run `TRYBUILD=overwrite cargo test -p tests --test compile_fail` and review the
//! difference.

use std::fs;
use std::path::Path;

#[test]
fn messages() {
    // trybuild compiles the fixtures as one package in this folder, and image paths are relative to it.
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tests/trybuild/tests");
    for folder in ["images", "cuda"] {
        fs::create_dir_all(package.join(folder)).expect("the target directory is writable");
        for file in fs::read_dir(Path::new("ui").join(folder)).expect("the fixtures have this folder") {
            let file = file.expect("readable");
            let copy = package.join(folder).join(file.file_name());
            fs::copy(file.path(), copy).expect("the target directory is writable");
        }
    }
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
