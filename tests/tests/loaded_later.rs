//! Tests kernels of a shared library that is loaded while the program runs. Library and program share one kernel-registry.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use tests::{Build, lines, rustc};

/// Runs the program that loads the library with this argument, and returns its output.
fn printed(what: &str) -> Vec<String> {
    static BUILT: OnceLock<[PathBuf; 4]> = OnceLock::new();
    let [host, later, shared, standard] = BUILT.get_or_init(|| {
        let library = |package| Build::default().file(package, "so");
        let standard = lines(rustc().args(["--print", "target-libdir"])).concat();
        let host = Build::default().executable("dylib-host");
        [host, library("dylib-later"), library("dylib-shared"), standard.into()]
    });
    let folders = std::env::join_paths([shared.parent().unwrap(), standard]).unwrap();
    lines(Command::new(host).arg(later).arg(what).env("LD_LIBRARY_PATH", folders))
}

const BEFORE: [&str; 5] =
    ["1 images", "  twin_a::gamma::one", "  twin_a::gamma::two", "  twin_a::nested::beta", "  twin_a::saxpy"];

/// The lines for all kernels in the registry's order, which does not depend on the order of loading.
const AFTER: [&str; 7] = [
    "  dylib_later::later",
    "  twin_a::gamma::one",
    "  twin_a::gamma::two",
    "  twin_a::nested::beta",
    "  twin_a::saxpy",
    "  twin_b::nested::beta",
    "  twin_b::saxpy",
];

#[test]
fn kernels_of_a_library_that_is_loaded_later_are_warmed_next_time() {
    let error = "kernel `dylib_later::later`: it was registered after the last `warm_all`, because its library was \
                 loaded later; call `warm_all` again with the context of this stream";
    let expected = [&BEFORE[..], &[error, "2 images"], &AFTER, &["launched"]].concat();
    assert_eq!(printed("deny"), expected);
}

#[test]
fn kernels_of_a_library_that_is_loaded_later_are_warmed_by_their_launch() {
    // The launch loads the kernel's image, and with it the other kernels of that image.
    let expected = [&BEFORE[..], &["launched", "1 images"], &AFTER, &["launched"]].concat();
    assert_eq!(printed("allow"), expected);
}

#[test]
fn threads_list_and_warm_kernels_while_a_library_is_loaded() {
    assert_eq!(printed("threads"), ["4 7 7"]);
}
