//! Tests builds with an nvcc that is a shell script.
#![cfg(unix)]

mod common;

use std::fs;
use std::time::{Duration, SystemTime};

use common::{Package, refusal};
use kernel_registry_build::Error;

const SOURCES: &[(&str, &str)] =
    &[("cuda/a.cu", "#include \"h.cuh\"\n// a\n"), ("cuda/deep/b.cu", "// b\n"), ("cuda/h.cuh", "// h\n")];

#[test]
fn every_source_has_an_image_and_a_line_in_the_index() {
    let package = Package::new(SOURCES);
    let report = package.build().try_compile().unwrap();
    assert_eq!(
        package.index(),
        "cuda/a.cu\tcuda__a.cu.fatbin\tnvcc 13.0.88\ncuda/deep/b.cu\tcuda__deep__b.cu.fatbin\tnvcc 13.0.88\n"
    );
    assert_eq!(fs::read_to_string(package.made("cuda__deep__b.cu.fatbin")).unwrap(), "// b\n");
    assert_eq!(report.compiled, 2);
    assert_eq!(report.images[0].file, Some(package.made("cuda__a.cu.fatbin")));
    let watched = |path: &str| report.watched.contains(&package.folder().join(path));
    assert!(["cuda", "cuda/deep", "cuda/a.cu", "cuda/deep/b.cu", "cuda/h.cuh"].into_iter().all(watched));
    // Neither headers of the toolkit are watched, nor missing files.
    assert!(
        !report.watched.iter().any(|path| path.ends_with("cuda_runtime.h") || path.ends_with("build.rs"))
    );
    let mut left: Vec<_> =
        fs::read_dir(package.made("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    // The folder has an image and a fingerprint for each source, the index, the recorded builds, and the
    // device header's folder.
    assert_eq!(left.len(), 7, "{left:?}");
}

#[test]
fn options_reach_the_compiler() {
    let package = Package::new(SOURCES);
    let build = package
        .build()
        .file("cuda/a.cu")
        .files(["cuda/deep/b.cu"])
        .arch("sm_90")
        .ptx("compute_75")
        .arch_for("cuda/a.cu", "sm_90a")
        .std("c++20")
        .include("include")
        .define("WARP", "32")
        .define("FAST", None)
        .flag("--use_fast_math");
    build.try_compile().unwrap();
    let log = package.log();
    let of =
        |source: &str| log.iter().find(|line| line.contains(&format!(" {source} -keep "))).unwrap().clone();
    let options = "-fatbin -std=c++20 -Iinclude -DWARP=32 -DFAST";
    let gencode = "-gencode arch=compute_90a,code=sm_90a -gencode arch=compute_90a,code=compute_90a";
    let folder = fs::canonicalize(package.folder()).unwrap();
    let start = format!("{}: {options} {gencode} --use_fast_math -o ", folder.display());
    assert!(of("cuda/a.cu").starts_with(&start), "{log:?}");
    let gencode = "-gencode arch=compute_90,code=sm_90 -gencode arch=compute_75,code=compute_75";
    assert!(of("cuda/deep/b.cu").contains(&format!("{options} {gencode} --use_fast_math")), "{log:?}");
}

#[test]
fn the_device_header_is_found_where_it_is_included() {
    let header = "// The name in this comment decides nothing: kernel_registry.cuh\n";
    let package = Package::new(&[
        ("cuda/stays.cu", "#include <kernel_registry.cuh>\n"),
        ("cuda/other.cu", header),
        ("cuda/own/a.cu", "#include \"kernel_registry.cuh\"\n"),
        ("cuda/own/kernel_registry.cuh", "// of the package\n"),
    ]);
    let report = package.build().try_compile().unwrap();
    let folder = package.made("include");
    assert!(
        fs::read_to_string(folder.join("kernel_registry.cuh"))
            .unwrap()
            .contains("namespace kernel_registry {")
    );
    let log = package.log();
    let is_told = |source: &str| {
        let line = log.iter().find(|line| line.contains(&format!(" {source} -keep "))).unwrap();
        line.contains(&format!(" -I{} -o ", folder.display()))
    };
    assert!(is_told("cuda/stays.cu") && !is_told("cuda/other.cu") && !is_told("cuda/own/a.cu"), "{log:?}");
    // Watching a file that the build writes would make cargo run the build script again.
    assert!(!report.watched.iter().any(|path| path.starts_with(&folder)), "{:?}", report.watched);

    // The fingerprint claims that the image was made with another version's header.
    let fingerprint = package.made("cuda__stays.cu.fatbin.fingerprint");
    let text = fs::read_to_string(&fingerprint).unwrap();
    let (before, rest) = text.split_once("\nheader ").unwrap();
    let other = format!("{before}\nheader 00{}", &rest[2..]);
    fs::write(&fingerprint, other).unwrap();
    assert_eq!(package.build().try_compile().unwrap().compiled, 1);
    let log = package.log();
    assert!(log.len() == 1 && log[0].contains(" cuda/stays.cu "), "{log:?}");
    assert_eq!(package.build().try_compile().unwrap().compiled, 0);
}

#[test]
fn a_source_names_its_own_architectures() {
    let package =
        Package::new(&[("cuda/c.cu", "// Clusters.\n// kernel-registry: arch=sm_90 ptx=compute_90\n")]);
    package.build().arch("sm_80").try_compile().unwrap();
    let log = package.log().concat();
    assert!(log.contains(
        "-fatbin -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90 -o "
    ));
    package.write("cuda/c.cu", "// kernel-registry: sm_90\n");
    let said = refusal(&package.build());
    assert!(
        said.starts_with("cuda/c.cu:1: `sm_90` is not understood: write `// kernel-registry: "),
        "{said}"
    );
}

/// Runs a build, checks its report against nvcc's log, and returns how many sources were compiled.
fn compiled(package: &Package, build: &kernel_registry_build::Build) -> usize {
    let report = build.try_compile().unwrap();
    assert_eq!(package.log().len(), report.compiled);
    report.compiled
}

#[test]
fn nothing_is_compiled_twice() {
    let package = Package::new(SOURCES);
    assert_eq!(compiled(&package, &package.build()), 2);
    assert_eq!(compiled(&package, &package.build()), 0);
    // A new time with the same content, as after a checkout.
    package.write("cuda/a.cu", SOURCES[0].1);
    assert_eq!(compiled(&package, &package.build()), 0);
    package.write("cuda/a.cu", "#include \"h.cuh\"\n// changed\n");
    assert_eq!(compiled(&package, &package.build()), 1);
    assert!(fs::read_to_string(package.made("cuda__a.cu.fatbin")).unwrap().contains("changed"));
    package.write("cuda/h.cuh", "// another h\n");
    assert_eq!(compiled(&package, &package.build()), 1);
    fs::remove_file(package.made("cuda__a.cu.fatbin")).unwrap();
    assert_eq!(compiled(&package, &package.build()), 1);
    fs::remove_file(package.folder().join("cuda/deep/b.cu")).unwrap();
    package.write("cuda/new.cu", "// new\n");
    assert_eq!(compiled(&package, &package.build()), 1);
}

#[test]
fn other_options_variables_and_compilers_compile_anew() {
    let package = Package::new(SOURCES);
    assert_eq!(compiled(&package, &package.build()), 2);
    assert_eq!(compiled(&package, &package.build().define("A", "1")), 2);
    assert_eq!(compiled(&package, &package.build().define("A", "1").arch_for("cuda/a.cu", "sm_90")), 1);
    for name in ["NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "NVCC_CCBIN"] {
        assert_eq!(compiled(&package, &package.build()), 2);
        assert_eq!(compiled(&package, &package.build()), 0);
        assert_eq!(compiled(&package, &package.build().env(name, "-lineinfo")), 2, "{name}");
    }
    package.build().try_compile().unwrap();
    package.log();
    package.version("13.1.0");
    assert_eq!(compiled(&package, &package.build()), 2);
    assert!(package.index().contains("nvcc 13.1.0"));
    let nvcc = fs::File::open(package.toolkit().join("bin/nvcc")).unwrap();
    nvcc.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
    assert_eq!(compiled(&package, &package.build()), 2);
}

#[test]
fn a_header_that_changes_meanwhile_is_not_trusted() {
    let package = Package::new(SOURCES);
    package.behaves("sleep 0.05; echo '// changed' >> cuda/h.cuh");
    package.build().file("cuda/a.cu").try_compile().unwrap();
    package.log();
    package.behaves("");
    assert_eq!(compiled(&package, &package.build().file("cuda/a.cu")), 1);
    assert_eq!(compiled(&package, &package.build().file("cuda/a.cu")), 0);
}

#[test]
fn headers_are_found_where_the_preprocessed_text_is_not() {
    let package = Package::new(SOURCES);
    package.behaves("rm \"$kept\"/*");
    assert_eq!(compiled(&package, &package.build()), 2);
    package.write("cuda/h.cuh", "// another h\n");
    assert_eq!(compiled(&package, &package.build()), 1);
}

#[test]
fn warnings_come_once_and_again_without_compiling() {
    let package = Package::new(&[("cuda/w.cu", "")]);
    package.behaves(
        r#"for arch in 75 80 90; do
echo 'cuda/w.cu(2): warning #177-D: variable "unused" was declared but never referenced
      int unused = 3;
          ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"
' >&2
done"#,
    );
    let expected = [
        "cuda/w.cu(2): warning #177-D: variable \"unused\" was declared but never referenced",
        "      int unused = 3;",
        "          ^",
    ];
    assert_eq!(package.build().try_compile().unwrap().warnings, expected);
    let again = package.build().try_compile().unwrap();
    assert_eq!((again.compiled, again.warnings), (0, expected.map(str::to_owned).to_vec()));
}

#[test]
fn all_errors_come_with_line_and_caret() {
    let package = Package::new(SOURCES);
    package.behaves("echo \"$src(3): error: identifier \\\"missing\\\" is undefined\n    missing(i);\n    ^\n\" >&2; exit 1");
    let said = refusal(&package.build());
    assert_eq!(
        said,
        "cuda/a.cu(3): error: identifier \"missing\" is undefined\n    missing(i);\n    ^\n\n\
         cuda/deep/b.cu(3): error: identifier \"missing\" is undefined\n    missing(i);\n    ^\n\n\
         nvcc 13.0.88 found errors in cuda/a.cu, cuda/deep/b.cu"
    );
    assert!(!package.made("index").exists());
    let said = refusal(&package.build().file("cuda/a.cu"));
    assert!(said.ends_with("^\n\nnvcc 13.0.88 found errors in cuda/a.cu"), "{said}");
    // An error in the last stage must not leave an earlier build's image in use.
    package.behaves("");
    package.build().try_compile().unwrap();
    package.behaves("echo \"ptxas fatal   : Unresolved extern function '_Z9elsewheref'\" >&2; exit 255");
    package.write("cuda/a.cu", "// worse\n");
    let said = refusal(&package.build());
    assert!(said.ends_with("'_Z9elsewheref'\n\nnvcc 13.0.88 found errors in cuda/a.cu"), "{said}");
    assert!(matches!(package.build().try_compile(), Err(Error::Rejected { .. })));
}

#[test]
fn a_crash_says_how_to_see_it_again() {
    let package = Package::new(&[("cuda/a b.cu", "")]);
    package.behaves("kill -SEGV $$");
    let said = refusal(&package.build());
    assert!(said.starts_with("nvcc 13.0.88 crashed on cuda/a b.cu (killed by signal 11); "), "{said}");
    assert!(
        said.contains("/toolkit/bin/nvcc -fatbin -gencode ") && said.ends_with(" 'cuda/a b.cu'"),
        "{said}"
    );
    package.behaves(
        "echo \"nvcc error   : 'ptxas' died due to signal 11 (Invalid memory reference)\" >&2; exit 139",
    );
    let said = refusal(&package.build());
    assert!(said.starts_with("nvcc error   : 'ptxas' died") && said.contains("(exit code 139)"), "{said}");
    package.behaves("exit 3");
    assert!(refusal(&package.build()).contains("crashed on cuda/a b.cu (exit code 3)"));
    package.behaves("exit 0");
    assert!(refusal(&package.build()).contains("crashed on cuda/a b.cu (it wrote no image)"));
}

#[test]
fn an_unknown_architecture_is_said_once() {
    let package = Package::new(SOURCES);
    package.behaves("echo \"nvcc fatal   : Unsupported gpu architecture 'sm_42'\" >&2; exit 1");
    let said = refusal(&package.build().arch("sm_42"));
    assert!(
        said.starts_with(
            "nvcc 13.0.88 does not know an architecture that was asked for \
             (nvcc fatal : Unsupported gpu architecture 'sm_42'): `"
        ) && said.ends_with("/bin/nvcc --list-gpu-code` lists the ones it knows"),
        "{said}"
    );
    let said = refusal(&package.build().arch("90"));
    assert_eq!(said, "`90` is not the name of an architecture: write it like `sm_90`");
}

#[test]
fn a_host_without_compiler_is_no_error_of_the_source() {
    let package = Package::new(SOURCES);
    package.behaves(
        "echo \"gcc: No such file or directory\nnvcc fatal   : Failed to preprocess host compiler properties.\" >&2; exit 1",
    );
    let said = refusal(&package.build());
    assert!(
        said.contains("(gcc: No such file or directory): install g++, name one by `NVCC_CCBIN`"),
        "{said}"
    );
}

#[test]
fn all_invalid_sources_are_refused_at_once() {
    let package = Package::new(SOURCES);
    let said = refusal(&package.build().files(["cuda/absent.cu", "../elsewhere.cu", "cuda/a.cu"]));
    let folder = package.folder();
    assert_eq!(
        said,
        format!(
            "there is no file `cuda/absent.cu` in `{0}`: paths of sources are relative to Cargo.toml\n\n\
             the source `../elsewhere.cu` is outside of the package `{0}` and would be missing when that is \
             published: move it into the package",
            folder.display()
        )
    );
    let empty = Package::new(&[]);
    assert!(
        refusal(&empty.build()).contains("/cuda`: put `.cu` files there, or name them with `Build::file`")
    );
    let tab = Package::new(&[("cuda/a\tb.cu", "")]);
    assert!(refusal(&tab.build()).ends_with("has a line break or tab in it: rename it"));
}

#[test]
fn strange_names_are_legal() {
    let names = ["cuda/a b.cu", "cuda/a$b#.cu", "cuda/ä.cu", "cuda/a_b.cu"];
    let package = Package::new(&names.map(|name| (name, name)));
    assert_eq!(compiled(&package, &package.build()), 4);
    let index = package.index();
    for line in index.lines() {
        let [source, image, _] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert_eq!(fs::read_to_string(package.made(image)).unwrap(), source);
    }
    assert_eq!(index.lines().count(), 4);
    assert_eq!(compiled(&package, &package.build()), 0);
}

#[test]
fn a_broken_nvcc_is_named() {
    let package = Package::new(SOURCES);
    fs::write(package.toolkit().join("bin/version"), "something else").unwrap();
    let said = refusal(&package.build());
    assert!(said.contains("/bin/nvcc` cannot be used: `--version` gives no version"), "{said}");
    let without = package.build().env("CUDA_HOME", package.folder()).env("PATH", "");
    if !std::path::Path::new("/usr/local/cuda/bin/nvcc").exists() {
        let said = refusal(&without);
        assert!(
            said.starts_with("`KERNEL_REGISTRY_COMPILER` asks for nvcc, which was not found in `"),
            "{said}"
        );
    }
    let said = refusal(&package.build().env("KERNEL_REGISTRY_COMPILER", "clang"));
    assert!(said.starts_with("`KERNEL_REGISTRY_COMPILER` is `clang`: set it to `nvcc`, `nvrtc`, "), "{said}");
}

#[test]
fn two_builds_of_a_script_share_the_index() {
    let package = Package::new(SOURCES);
    package.build().file("cuda/a.cu").try_compile().unwrap();
    package.build().file("cuda/deep/b.cu").arch("sm_90").try_compile().unwrap();
    assert_eq!(package.index().lines().count(), 2);
}
