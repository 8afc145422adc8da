//! Declarations that must not compile, each with the message that says why.
//!
//! After a change of a message: `TRYBUILD=overwrite cargo test -p tests --test compile_fail`, and read the difference.

use std::fs;
use std::path::Path;

#[test]
fn messages() {
    // The fixtures are compiled as one package in this folder, from which their images are looked up.
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
