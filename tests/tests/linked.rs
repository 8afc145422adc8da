//! Kernels that nvcc linked, which register themselves with a runtime library that stands for CUDA's.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use tests::{Build, lines};

/// What the fixture prints, called with this argument.
fn printed(argument: &str) -> Vec<String> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| Build::default().executable("nvcc-linked"));
    lines(Command::new(program).arg(argument))
}

#[test]
fn they_are_listed_and_found() {
    let place = "at tests/fixtures/nvcc-linked/src/main.rs";
    let package = "(nvcc-linked 0.1.0)";
    assert_eq!(
        printed("list"),
        [
            "fill<unsigned int, 7u>(p0: unsigned int*) _Z4fillIjLj7EEvPT_ true [] at code that nvcc linked",
            &format!("one(x: &mut [u32]) one true [] {place}:11 {package}"),
            &format!("fill(x: &mut [u32], n: u32) fill<unsigned int, 7u> true [] {place}:17 {package}"),
            &format!("nowhere(x: &mut [u32]) nowhere true [] {place}:18 {package}"),
            "stay(p0: .u64) stay true [] at code that nvcc linked",
            "found _Z4fillIjLj7EEvPT_",
            "0 duplicates",
        ]
    );
}

#[test]
fn they_are_warmed_and_launched_as_before() {
    let kernels = ["fill<unsigned int, 7u>", "nvcc_linked::declared::one", "stay"];
    let kernels = kernels.map(|name| format!("{name} linked by nvcc"));
    assert_eq!(printed("warm"), [&kernels[..], &["[1, 0]".to_owned(), "[7, 0]".to_owned()]].concat());
}

#[test]
fn a_declared_one_is_launched_from_rust() {
    assert_eq!(printed("typed"), ["[1, 0]", "true"]);
}

#[test]
fn wrong_declarations_are_not_warmed() {
    let at = |line| format!("at tests/fixtures/nvcc-linked/src/main.rs:{line} (nvcc-linked 0.1.0)");
    assert_eq!(
        printed("wrong"),
        [
            format!(
                "kernel `nvcc_linked::wrong::fill` {}, the kernel that nvcc linked is `fill<unsigned int, 7u>(p0: unsigned int*)`: \
                 declare parameters of these sizes",
                at(17)
            ),
            format!(
                "kernel `nvcc_linked::wrong::nowhere` {}, nvcc linked no kernel `nowhere` into this program: call \
                 `kernel_registry_build::linked()` in its build script, or name the kernel's symbol by `name = \"..\"`, as \
                 `cargo kernels list` shows it",
                at(18)
            ),
        ]
    );
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
        let listed = lines(Command::new(&program).arg("list"));
        assert_eq!(listed.iter().filter(|line| line.contains(" true ")).count(), 5, "{flags}: {listed:?}");
    }
}
