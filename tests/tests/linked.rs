//! Kernels that nvcc linked, which register themselves with a runtime library that stands for CUDA's.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use tests::{Build, lines};

/// What the fixture prints, called with this argument.
fn printed(argument: &str) -> Vec<String> {
    static PROGRAM: OnceLock<std::path::PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| Build::default().executable("nvcc-linked"));
    lines(Command::new(program).arg(argument))
}

#[test]
fn they_are_listed_and_found() {
    assert_eq!(
        printed("list"),
        [
            "fill<unsigned int, 7u> _Z4fillIjLj7EEvPT_ true at code that nvcc linked",
            "one _Z3onePj true at code that nvcc linked",
            "stay stay true at code that nvcc linked",
            "found _Z4fillIjLj7EEvPT_",
            "0 duplicates",
        ]
    );
}

#[test]
fn they_are_warmed_and_launched_as_before() {
    let kernels = ["fill<unsigned int, 7u>", "one", "stay"].map(|name| format!("{name} linked by nvcc"));
    assert_eq!(printed("warm"), [&kernels[..], &["[1, 0]".to_owned(), "[7, 0]".to_owned()]].concat());
}

#[test]
fn a_first_launch_waits_for_a_resident_kernel_only_if_it_is_cold() {
    assert_eq!(printed("cold"), ["waited for it"]);
    assert_eq!(printed("beside"), ["ran beside it"]);
}

#[test]
fn every_linker_hands_them_over() {
    for flags in ["-Clinker-features=-lld -Clink-arg=-fuse-ld=bfd", "-Clink-arg=-fuse-ld=lld"] {
        let program = Build { args: &[], flags }.executable("nvcc-linked");
        assert_eq!(names(&program), ["fill<unsigned int, 7u>", "one", "stay"], "{flags}");
    }
}

fn names(program: &Path) -> Vec<String> {
    let listed = lines(Command::new(program).arg("list"));
    let kernels =
        listed.iter().filter_map(|line| line.split_once(" _Z").or_else(|| line.split_once(" stay ")));
    kernels.map(|(name, _)| name.to_owned()).filter(|name| !name.starts_with("found")).collect()
}
