//! Kernels that no declaration names, of images that an nvcc makes which takes PTX for CUDA.
#![cfg(unix)]

mod common;

use common::{Package, refusal};
use kernel_registry_build::{Build, Error};

/// PTX with kernels of these symbols.
fn ptx(symbols: &[&str]) -> String {
    let entry = |symbol: &&str| format!(".visible .entry {symbol}(.param .u64 x) {{ ret; }}\n");
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n{}",
        symbols.iter().map(entry).collect::<String>()
    )
}

/// Of a.cu: `scale(float*)`, `ns::sum<float>` and `ns::sum<double>`, `plain`; of b.cu: `other`.
fn package(rust: &str) -> Package {
    let a = ptx(&["_Z5scalePf", "_ZN2ns3sumIfEEvPT_", "_ZN2ns3sumIdEEvPT_", "plain"]);
    let package = Package::new(&[("cuda/a.cu", &a), ("cuda/b.cu", &ptx(&["other"]))]);
    package.write("src/lib.rs", rust);
    package
}

fn warnings(build: &Build) -> Vec<String> {
    build.try_compile().unwrap().warnings
}

/// Whether cargo is to watch the Rust files.
fn watches(package: &Package, build: &Build) -> bool {
    build.try_compile().unwrap().watched.contains(&package.folder().join("src"))
}

const ALL: &str = "fn scale(); fn sum(); fn plain(); fn other();";

#[test]
fn a_source_is_warned_of_once_with_all_its_kernels() {
    let package = package("mod deep;\nunsafe fn scale(x: &mut [f32]);\n");
    let expected = [
        "cuda/a.cu: no declaration names `ns::sum<float>`, `ns::sum<double>`, `plain`: declare it with \
         `#[gpu_kernel(file = \"cuda/a.cu\")]`, or say `Build::allow_unused(\"ns::sum<float>\")` in build.rs if \
         that is on purpose",
        "cuda/b.cu: no declaration names `other`: declare it with `#[gpu_kernel(file = \"cuda/b.cu\")]`, \
         or say `Build::allow_unused(\"other\")` in build.rs if that is on purpose",
    ];
    assert_eq!(warnings(&package.build()), expected);
    // It is said again where nothing is compiled.
    let again = package.build().try_compile().unwrap();
    assert_eq!((again.compiled, again.warnings), (0, expected.map(str::to_owned).to_vec()));
    assert!(watches(&package, &package.build()));

    package.write("src/deep/mod.rs", "#[gpu_kernel(name = \"ns::sum<float>\")] fn sum_f32(); fn plain();");
    assert_eq!(warnings(&package.build()), expected[1..]);
    package.write("examples/show.rs", "fn other();");
    assert!(warnings(&package.build()).is_empty());
    assert!(!watches(&package, &package.build()));
}

#[test]
fn what_is_allowed_is_not_warned_of() {
    let package = package("");
    let build = package.build().allow_unused("other").allow_unused("_Z5scalePf").allow_unused("ns::sum");
    let [warning] = &warnings(&build)[..] else { panic!() };
    assert!(warning.starts_with("cuda/a.cu: no declaration names `plain`: "), "{warning}");
    assert!(warnings(&build.allow_unused("plain")).is_empty());
    // An instance is one kernel.
    let [warning] = &warnings(&package.build().file("cuda/a.cu").allow_unused("ns::sum<float>"))[..] else {
        panic!()
    };
    assert!(
        warning.starts_with("cuda/a.cu: no declaration names `scale`, `ns::sum<double>`, `plain`: "),
        "{warning}"
    );
}

#[test]
fn a_complete_build_refuses_them_all_at_once_and_watches_the_declarations() {
    let package = package("fn scale(); fn plain();");
    let build = package.build().complete(true);
    let said = refusal(&build);
    assert!(
        said.starts_with("cuda/a.cu: no declaration names `ns::sum<float>`, `ns::sum<double>`: declare "),
        "{said}"
    );
    assert!(said.contains("\ncuda/b.cu: no declaration names `other`: declare "), "{said}");
    assert!(matches!(build.try_compile(), Err(Error::Unused { sources }) if sources.len() == 2));
    assert!(warnings(&build.clone().allow_unused("sum").allow_unused("other")).is_empty());
    // Both images were made, although the first builds failed.
    assert_eq!(package.index().lines().count(), 2);

    package.write("src/lib.rs", ALL);
    assert!(watches(&package, &build));
    assert!(!watches(&package, &package.build()));
}

#[test]
fn only_files_of_the_package_count() {
    let package = package("");
    package.write("tests/fixture/Cargo.toml", "");
    for elsewhere in ["tests/fixture/src/lib.rs", "cuda/lib.rs", "build.rs", "src/lib.txt"] {
        package.write(elsewhere, ALL);
    }
    assert_eq!(warnings(&package.build()).len(), 2);
    package.write("lib.rs", ALL);
    assert!(warnings(&package.build()).is_empty());
}

#[test]
fn nothing_is_said_where_nothing_is_known() {
    let package = package("");
    assert!(warnings(&package.build().env("KERNEL_REGISTRY_COMPILER", "none").complete(true)).is_empty());
    // Images that cannot be read.
    package.write("cuda/a.cu", "// a");
    package.write("cuda/b.cu", "// b");
    assert!(warnings(&package.build().complete(true)).is_empty());
    // Rust files that are not where they usually are.
    package.write("cuda/a.cu", &ptx(&["plain"]));
    assert_eq!(warnings(&package.build()).len(), 1);
    std::fs::remove_dir_all(package.folder().join("src")).unwrap();
    package.write("rust/lib.rs", "");
    assert!(warnings(&package.build().complete(true)).is_empty());
}
