//! Tests builds without a compiler, with and without committed images.
#![cfg(unix)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use common::{Package, refusal};
use kernel_registry_build::{Build, Error};
use sha2::{Digest, Sha256};

const SOURCE: &str = "#include \"h.cuh\"\n#include <cassert>\n__global__ void k() {}\n";

/// Returns a package with a stale prebuilt image: the index has another hash of the source.
fn package() -> Package {
    let package = Package::new(&[("cuda/a.cu", SOURCE), ("cuda/h.cuh", "// h\n")]);
    package.write("prebuilt/cuda__a.cu.ptx", ".version 8.0\n");
    package.write(
        "prebuilt/index",
        "# heading\n\
         cuda/a.cu\tcuda/a.cu\t9e76a0b9a3b3b8b4\n",
    );
    package
}

#[test]
fn without_an_image_a_debug_build_warns_and_a_release_build_fails() {
    let package = Package::new(&[("cuda/a.cu", ""), ("cuda/b.cu", "")]);
    let report = package.bare().try_compile().unwrap();
    let reason = "`KERNEL_REGISTRY_COMPILER` is `prebuilt`, and there is no prebuilt image";
    assert_eq!(package.index(), format!("cuda/a.cu\t-\t{reason}\ncuda/b.cu\t-\t{reason}\n"));
    let [warning] = &report.warnings[..] else { panic!("{:?}", report.warnings) };
    assert!(
        warning.starts_with(&format!(
            "no image for cuda/a.cu, cuda/b.cu ({reason}); a release build would fail: install "
        )),
        "{warning}"
    );
    assert_eq!(report.images[0].file, None);
    let said = refusal(&package.bare().env("PROFILE", "release"));
    assert!(
        said.starts_with(&format!("no image for cuda/a.cu, cuda/b.cu ({reason}): install a CUDA ")),
        "{said}"
    );
    for remedy in
        ["nvidia-cuda-nvrtc-cu12==12.0.140`", "`cargo kernels prebuild`", "`KERNEL_REGISTRY_COMPILER=none`"]
    {
        assert!(said.contains(remedy), "{said}");
    }
}

#[test]
fn the_choice_none_makes_no_images() {
    let package = Package::new(&[("cuda/a.cu", "")]);
    let build = package.build().env("PROFILE", "release").env("KERNEL_REGISTRY_COMPILER", "none");
    let report = build.try_compile().unwrap();
    assert!(report.warnings.is_empty());
    assert_eq!(package.index(), "cuda/a.cu\t-\t`KERNEL_REGISTRY_COMPILER` is `none`\n");
}

#[test]
fn a_stale_image_says_what_changed_since() {
    let package = package();
    let report = package.bare().try_compile().unwrap();
    assert!(package.index().contains("its prebuilt image is stale: `cuda/a.cu` changed since it was made"));
    assert_eq!(report.warnings.len(), 1);
    let said = refusal(&package.bare().env("PROFILE", "release"));
    assert!(said.contains("`cuda/a.cu` changed since it was made"), "{said}");
    assert!(matches!(
        package.bare().env("PROFILE", "release").try_compile(),
        Err(Error::NoImages { sources, has_nvrtc: false }) if sources.len() == 1
    ));
    let watched = |path: &str| report.watched.contains(&package.folder().join(path));
    assert!(["prebuilt", "cuda/a.cu", "cuda/h.cuh"].into_iter().all(watched), "{:?}", report.watched);
}

/// Returns a package whose prebuilt image matches its sources.
fn current_package() -> Package {
    let package = package();
    record(&package, &["cuda/a.cu", "cuda/h.cuh"]);
    package
}

/// Returns the hash of the options of `Package::bare`.
fn no_options() -> String {
    hash_all(["compute_75", "", "0", "0"])
}

/// Writes the index as `write_prebuilt` does, so that the image of `cuda/a.cu` matches these files. A name is
/// relative to the package, or is `<x.h>` for a file in `elsewhere`, next to the package.
fn record(package: &Package, names: &[&str]) {
    let pairs: Vec<(&str, PathBuf)> = names.iter().map(|name| (*name, file(package, name))).collect();
    record_as(package, &pairs, &no_options());
}

/// Writes the index for an image of `cuda/a.cu` with these inputs: files with their names, and options.
fn record_as(package: &Package, files: &[(&str, PathBuf)], options: &str) {
    let of = |(name, path): &(&str, PathBuf)| (name.to_string(), sha256(fs::read(path).unwrap()));
    let mut hashes: BTreeMap<String, String> = files.iter().map(of).collect();
    hashes.insert("options".to_owned(), options.to_owned());
    let image = fs::read(package.folder().join("prebuilt/cuda__a.cu.ptx")).unwrap();
    let made_of = hashes.iter().flat_map(|(name, hash)| [name.as_bytes(), hash.as_bytes()]);
    let seal = hash_all(made_of.chain([&*image]));
    hashes.insert("image".to_owned(), seal);
    let lines: String = hashes.iter().map(|(name, hash)| format!("cuda/a.cu\t{name}\t{hash}\n")).collect();
    package.write("prebuilt/index", &lines);
}

fn file(package: &Package, name: &str) -> PathBuf {
    match name.strip_prefix('<') {
        Some(name) => elsewhere(package).join(name.trim_end_matches('>')),
        None => package.folder().join(name),
    }
}

fn elsewhere(package: &Package) -> PathBuf {
    package.folder().with_file_name("elsewhere")
}

#[test]
fn an_image_is_used_while_it_matches_the_sources() {
    let package = current_package();
    let release = package.bare().env("PROFILE", "release");
    let report = release.try_compile().unwrap();
    assert_eq!(package.index(), "cuda/a.cu\tcuda__a.cu.ptx\tprebuilt\n");
    assert_eq!(fs::read_to_string(package.made("cuda__a.cu.ptx")).unwrap(), ".version 8.0\n");
    assert_eq!((report.compiled, report.warnings.len()), (0, 0));

    package.write("cuda/a.cu", &SOURCE.replace('\n', "\r\n"));
    release.try_compile().unwrap();
    assert!(refusal(&release.clone().define("N", "2")).contains("stale: the options have changed"));
    assert!(refusal(&release.clone().ptx("compute_90")).contains("stale: the options have changed"));
    package.write("cuda/h.cuh", "// other\n");
    assert!(refusal(&release).contains("stale: `cuda/h.cuh` changed since it was made"));
    package.write("cuda/h.cuh", "#include \"new.cuh\"\n");
    package.write("cuda/new.cuh", "");
    assert!(refusal(&release).contains("stale: `cuda/h.cuh` changed since it was made"));
    package.write("cuda/h.cuh", "// h\n");
    fs::remove_file(package.folder().join("prebuilt/cuda__a.cu.ptx")).unwrap();
    assert!(refusal(&release).contains("`prebuilt/cuda__a.cu.ptx` cannot be read: "));
}

#[test]
fn an_image_of_another_device_header_is_stale() {
    let package = package();
    package.write("cuda/a.cu", "#include <kernel_registry.cuh>\n");
    let current = package.build().env("KERNEL_REGISTRY_COMPILER", "nvcc");
    current.file("cuda/a.cu").try_compile().unwrap();
    let (a, header) = (file(&package, "cuda/a.cu"), package.made("include/kernel_registry.cuh"));
    record_as(&package, &[("cuda/a.cu", a.clone()), ("kernel_registry.cuh", header)], &no_options());
    let release = package.bare().env("PROFILE", "release");
    assert_eq!(release.try_compile().unwrap().warnings, [""; 0]);
    record_as(&package, &[("cuda/a.cu", a.clone()), ("kernel_registry.cuh", a)], &no_options());
    let said = refusal(&release);
    assert!(said.contains("stale: `kernel_registry.cuh` changed since it was made"), "{said}");
}

/// Returns a package with these files, whose image matches all of them. The first file is the source.
fn recorded(files: &[(&str, &str)]) -> Package {
    let package = Package::new(&[("prebuilt/cuda__a.cu.ptx", ".version 8.0\n")]);
    for (name, text) in files {
        let path = file(&package, name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    record(&package, &files.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    package
}

/// Checks that the image is used without a warning, and refused for this reason after `change`.
fn is_stale_after(build: &Build, change: impl FnOnce(), why: &str) {
    let release = build.clone().env("PROFILE", "release");
    assert_eq!(release.try_compile().unwrap().warnings, [""; 0]);
    change();
    let said = refusal(&release);
    assert!(said.contains(&format!("its prebuilt image is stale: {why}")), "{said}");
}

/// Runs a build that uses the image with a warning, and returns the warning's reason.
fn doubt(build: &Build) -> String {
    let report = build.clone().env("PROFILE", "release").try_compile().unwrap();
    assert_eq!(report.images[0].origin, "prebuilt");
    let [warning] = &report.warnings[..] else { panic!("{:?}", report.warnings) };
    let (_, doubt) = warning.split_once("cuda/a.cu: its prebuilt image is used and may be stale: ").unwrap();
    let (doubt, remedy) = doubt.split_once("; ").unwrap();
    assert_eq!(remedy, "compare it by `cargo kernels prebuild --check`, or install a compiler");
    doubt.to_owned()
}

#[test]
fn a_header_beside_the_package_is_compared_where_it_is() {
    let package = recorded(&[
        ("cuda/a.cu", "#include \"../../shared/s.cuh\"\n"),
        ("../shared/s.cuh", "#include \"../package/own.h\"\n"),
        ("own.h", ""),
    ]);
    is_stale_after(
        &package.bare(),
        || package.write("../shared/s.cuh", "#include \"../package/own.h\"\nint x;\n"),
        "`../shared/s.cuh` changed",
    );
    // A package from a registry is unpacked without the folder next to it.
    fs::remove_dir_all(package.folder().join("../shared")).unwrap();
    assert_eq!(doubt(&package.bare()), "it was made with `../shared/s.cuh`, which is not found here");
    package.write("own.h", "// other");
    assert!(refusal(&package.bare().env("PROFILE", "release")).contains("stale: `own.h` changed"));
}

#[test]
fn an_installed_header_may_differ_with_a_warning() {
    let package = recorded(&[
        ("cuda/a.cu", "#include <lib.h>\n"),
        ("<lib.h>", "#include \"more.h\"\n"),
        ("<more.h>", ""),
    ]);
    let build = package.bare().include(elsewhere(&package));
    assert_eq!(build.try_compile().unwrap().warnings, [""; 0]);
    fs::write(elsewhere(&package).join("more.h"), "// other").unwrap();
    assert_eq!(doubt(&build), "`<more.h>` changed since it was made");
    fs::remove_dir_all(elsewhere(&package)).unwrap();
    assert_eq!(doubt(&build), "it was made with `<lib.h>`, which is not found here");
}

#[test]
fn a_header_that_a_macro_names_is_compared() {
    let source = "#define HEADER \"h.cuh\"\n#include HEADER\n";
    let package = recorded(&[("cuda/a.cu", source), ("cuda/h.cuh", "")]);
    is_stale_after(&package.bare(), || package.write("cuda/h.cuh", "int x;\n"), "`cuda/h.cuh` changed");
}

#[test]
fn a_header_whose_name_is_computed_is_a_doubt() {
    let package = recorded(&[("cuda/a.cu", "#define STR(x) #x\n#include STR(h.cuh)\n")]);
    let why = "the header in `#include STR(h.cuh)` (cuda/a.cu) is not compared, because its name is computed";
    assert_eq!(doubt(&package.bare()), why);
}

#[test]
fn headers_of_flags_are_compared() {
    let package = recorded(&[("cuda/a.cu", "#include <h.h>\n"), ("flags/h.h", ""), ("before.h", "")]);
    let with = |flags: &[&str]| flags.iter().fold(package.bare(), |build, flag| build.flag(*flag));
    let flags = ["-Iflags", "--pre-include=before.h"];
    for (changed, why) in [("flags/h.h", "`flags/h.h` changed"), ("before.h", "`before.h` changed")] {
        let files = ["cuda/a.cu", "flags/h.h", "before.h"].map(|name| (name, file(&package, name)));
        record_as(&package, &files, &hash_all(["compute_75", "", "0", "2", flags[0], flags[1]]));
        is_stale_after(&with(&flags), || package.write(changed, "int x;\n"), why);
    }
}

#[test]
fn directives_count_however_they_are_written() {
    let source = "#if __has_include(\"new.h\")\n#endif\n/* */ # /* */ inc\\\nlude \"h.cuh\"\n";
    let package = recorded(&[("cuda/a.cu", source), ("cuda/h.cuh", "")]);
    is_stale_after(&package.bare(), || package.write("cuda/new.h", ""), "`cuda/new.h` is included now");
    fs::remove_file(package.folder().join("cuda/new.h")).unwrap();
    is_stale_after(&package.bare(), || package.write("cuda/h.cuh", "int x;\n"), "`cuda/h.cuh` changed");
}

#[test]
fn links_are_followed_as_the_system_does() {
    // The folder `cuda` is a link, so `..` in its files does not lead to the package.
    let package = recorded(&[("real/deep/a.cu", "")]);
    let folder = package.folder();
    std::os::unix::fs::symlink("real/deep", folder.join("cuda")).unwrap();
    package.write("cuda/a.cu", "#include \"../h.cuh\"\n#include \"link.cuh\"\n");
    package.write("h.cuh", "not this one");
    package.write("real/h.cuh", "");
    package.write("target.cuh", "");
    std::os::unix::fs::symlink("../../target.cuh", folder.join("cuda/link.cuh")).unwrap();
    let record = || {
        let files = [("cuda/a.cu", "cuda/a.cu"), ("h.cuh", "real/h.cuh"), ("cuda/link.cuh", "target.cuh")];
        record_as(&package, &files.map(|(name, path)| (name, folder.join(path))), &no_options());
    };
    record();
    is_stale_after(&package.bare(), || package.write("real/h.cuh", "int x;\n"), "`h.cuh` changed");
    record();
    is_stale_after(&package.bare(), || package.write("target.cuh", "int x;\n"), "`cuda/link.cuh` changed");
}

#[test]
fn an_image_and_an_index_of_different_states_are_not_used() {
    let package = current_package();
    let index = fs::read_to_string(package.folder().join("prebuilt/index")).unwrap();
    let release = package.bare().env("PROFILE", "release");
    // The sources and the index were committed, but not the image.
    package.write("prebuilt/cuda__a.cu.ptx", ".version 8.0\n// of the sources as they were\n");
    let said = refusal(&release);
    assert!(said.contains("`prebuilt/cuda__a.cu.ptx` is not the image of `prebuilt/index`"), "{said}");
    package.write("prebuilt/cuda__a.cu.ptx", ".version 8.0\r\n");
    release.try_compile().unwrap();
    // After a merge, the index has one branch's line for the header and the other's for the image.
    package.write("cuda/h.cuh", "// theirs\n");
    let merged = index.replace(&sha256("// h\n"), &sha256("// theirs\n"));
    package.write("prebuilt/index", &merged);
    let said = refusal(&release);
    assert!(said.contains("`prebuilt/cuda__a.cu.ptx` is not the image of `prebuilt/index`"), "{said}");
}

#[test]
fn a_file_under_another_name_or_case_has_no_image() {
    let package = current_package();
    fs::rename(package.folder().join("cuda/a.cu"), package.folder().join("cuda/A.cu")).unwrap();
    assert!(refusal(&package.bare().env("PROFILE", "release")).contains("there is no prebuilt image"));
    fs::rename(package.folder().join("cuda/A.cu"), package.folder().join("cuda/a.cu")).unwrap();
    fs::rename(package.folder().join("cuda/h.cuh"), package.folder().join("cuda/H.cuh")).unwrap();
    let said = refusal(&package.bare().env("PROFILE", "release"));
    assert!(said.contains("stale: `cuda/h.cuh` is not included any more"), "{said}");
}

#[test]
fn another_header_of_the_same_name_is_another_header() {
    let package = recorded(&[("cuda/a.cu", "#include <h.h>\n"), ("one/h.h", "")]);
    package.write("two/h.h", "");
    let build = |first: &str, second: &str| package.bare().include(first).include(second);
    assert_eq!(build("one", "two").try_compile().unwrap().warnings, [""; 0]);
    let said = refusal(&build("two", "one").env("PROFILE", "release"));
    assert!(said.contains("stale: `one/h.h` is not included any more"), "{said}");
}

fn sha256(text: impl AsRef<[u8]>) -> String {
    Sha256::digest(text.as_ref()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the hash of texts, each after its length. The hash of options covers target, standard, and the
/// lists of definitions and flags.
fn hash_all<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> String {
    let part = |text: T| [&(text.as_ref().len() as u64).to_le_bytes()[..], text.as_ref()].concat();
    sha256(texts.into_iter().map(part).collect::<Vec<_>>().concat())
}
