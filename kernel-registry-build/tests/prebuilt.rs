//! Builds without a compiler: committed images, and what happens without them.
#![cfg(unix)]

mod common;

use std::fs;

use common::{Package, refusal};
use kernel_registry_build::Error;
use sha2::{Digest, Sha256};

const SOURCE: &str = "#include \"h.cuh\"\n#include <cassert>\n__global__ void k() {}\n";

/// A package with an image as `write_prebuilt` leaves it.
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
    assert!(said.ends_with("or commit prebuilt images by `kernel_registry_build::write_prebuilt`"), "{said}");
}

#[test]
fn who_wants_no_images_gets_none() {
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
        Err(Error::NoImages { sources }) if sources.len() == 1
    ));
    let watched = |path: &str| report.watched.contains(&package.folder().join(path));
    assert!(["prebuilt", "cuda/a.cu", "cuda/h.cuh"].into_iter().all(watched), "{:?}", report.watched);
}

/// The same, where the image is of the sources as they are.
fn current_package() -> Package {
    let package = package();
    // As others can check it: SHA-256 of the text, without carriage returns.
    let hashes = [SOURCE, "// h\n"].map(sha256);
    let options = options_hash(&["compute_75", "", "0", "0"]);
    package.write(
        "prebuilt/index",
        &format!(
            "cuda/a.cu\tcuda/a.cu\t{}\ncuda/a.cu\tcuda/h.cuh\t{}\ncuda/a.cu\toptions\t{options}\n",
            hashes[0], hashes[1]
        ),
    );
    package
}

#[test]
fn kernels_of_committed_images_are_to_be_declared_too() {
    let package = current_package();
    package.write(
        "prebuilt/cuda__a.cu.ptx",
        ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry _Z1kv() { ret; }\n",
    );
    package.write("src/lib.rs", "// fn k()\n");
    let warnings = package.bare().try_compile().unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].starts_with("cuda/a.cu: no declaration names `k`: "));
    assert!(refusal(&package.bare().complete(true)).starts_with("cuda/a.cu: no declaration names `k`: "));
    package.write("src/lib.rs", "unsafe fn k();\n");
    assert!(package.bare().complete(true).try_compile().unwrap().warnings.is_empty());
}

#[test]
fn an_image_is_taken_while_it_is_of_the_sources() {
    let package = current_package();
    let release = package.bare().env("PROFILE", "release");
    let report = release.try_compile().unwrap();
    assert_eq!(package.index(), "cuda/a.cu\tcuda__a.cu.ptx\tprebuilt\n");
    assert_eq!(fs::read_to_string(package.made("cuda__a.cu.ptx")).unwrap(), ".version 8.0\n");
    assert_eq!((report.compiled, report.warnings.len()), (0, 0));

    package.write("cuda/a.cu", &SOURCE.replace('\n', "\r\n"));
    release.try_compile().unwrap();
    assert!(refusal(&release.clone().define("N", "2")).contains("stale: other options are asked for now"));
    assert!(refusal(&release.clone().ptx("compute_90")).contains("stale: other options are asked for now"));
    package.write("cuda/h.cuh", "// other\n");
    assert!(refusal(&release).contains("stale: `cuda/h.cuh` changed since it was made"));
    package.write("cuda/h.cuh", "#include \"new.cuh\"\n");
    package.write("cuda/new.cuh", "");
    assert!(refusal(&release).contains("stale: `cuda/h.cuh` changed since it was made"));
    package.write("cuda/h.cuh", "// h\n");
    fs::remove_file(package.folder().join("prebuilt/cuda__a.cu.ptx")).unwrap();
    assert!(refusal(&release).contains("`prebuilt/cuda__a.cu.ptx` cannot be read: "));
}

fn sha256(text: impl AsRef<[u8]>) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Target, standard, and the lists of definitions and flags, each text behind its length.
fn options_hash(texts: &[&str]) -> String {
    let parts = texts.iter().map(|text| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat());
    sha256(parts.collect::<Vec<_>>().concat())
}
