//! Tests how much a large image adds to the documentation and metadata of a crate with several of its kernels.

use std::fs;
use std::path::Path;

use tests::{cargo, documentation, package};

const KERNELS: usize = 8;

/// The size of the image in bytes.
const IMAGE: usize = 1_000_000;

fn files(folder: &Path, extension: &str) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder that was made").map(|entry| entry.unwrap().path());
    let size = |path: std::path::PathBuf| match path.extension() {
        _ if path.is_dir() => files(&path, extension),
        Some(found) if found == extension => path.metadata().unwrap().len(),
        _ => 0,
    };
    entries.map(size).sum()
}

#[test]
fn an_image_is_not_in_the_documentation_and_once_in_the_metadata() {
    let kernel = |number| {
        format!(
            "#[kernel_registry::gpu_kernel(image = \"large.ptx\")]\npub unsafe fn k{number}(x: &mut [f32]);\n"
        )
    };
    let declarations: String = (0..KERNELS).map(kernel).collect();
    let package = package("fn main() {}\n");
    fs::write(package.join("src/lib.rs"), declarations).unwrap();
    let entry = |number| format!(".visible .entry _Z2k{number}Pf(.param .u64 x) {{ ret; }}\n");
    let mut image = ".version 7.0 .target sm_60\n".to_owned() + &(0..KERNELS).map(entry).collect::<String>();
    image += &format!("// {}\n", "filler ".repeat(IMAGE / 7));
    fs::write(package.join("large.ptx"), &image).unwrap();

    let run = |args: &[&str]| {
        let output = cargo().args(args).current_dir(&package).output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["doc", "--quiet", "--lib", "--no-deps"]);
    let html = files(&documentation().join("changing"), "html");
    assert!(html > 0 && html < IMAGE as u64 / 2, "{html} bytes of HTML");

    let metadata = package.join("metadata.rmeta");
    let emit = format!("--emit=metadata={}", metadata.to_str().expect("the target directory is UTF-8"));
    run(&["rustc", "--quiet", "--lib", "--", &emit]);
    let metadata = metadata.metadata().unwrap().len();
    assert!(metadata < 2 * IMAGE as u64, "{metadata} bytes of metadata");
}
