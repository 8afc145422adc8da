//! Kernels declared with a CUDA source, from the build script to the running program. The compiler is a fake that
//! accepts PTX as CUDA, so that this runs everywhere; kernel-registry-build has tests with real compilers.

use std::fs;
use std::process::Output;

use tests::{cargo, package, with_sources};

const MAIN: &str = "#[kernel_registry::gpu_kernel(file = \"cuda/twice.cu\")]\n\
                    unsafe fn twice(x: &mut [f32]);\n\
                    fn main() {\n    \
                    let (symbol, image) = (twice::INFO.symbol(), twice::INFO.image());\n    \
                    let Some(image) = image else { return println!(\"{symbol} without an image\") };\n    \
                    println!(\"{symbol} of {}, {} bytes\", image.file(), image.bytes().len());\n\
                    }\n";
const TWICE: &str = ".version 7.0 .target sm_60 .visible .entry _Z5twicePf(.param .u64 x) { ret; }\n";

fn text(output: Output) -> (bool, String) {
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn a_source_is_compiled_compared_and_embedded_and_its_changes_are_noticed() {
    let package = package(MAIN);
    let toolkit = with_sources(&package, &[("cuda/twice.cu", TWICE)]);
    let run = |compiler: &str| {
        let mut cargo = cargo();
        cargo.args(["run", "--quiet"]).current_dir(&package).env("CUDA_HOME", &toolkit);
        text(cargo.env("KERNEL_REGISTRY_COMPILER", compiler).output().unwrap())
    };
    let (_, printed) = run("nvcc");
    assert_eq!(printed, format!("_Z5twicePf of cuda/twice.cu, {} bytes\n", TWICE.len()));

    fs::write(package.join("cuda/twice.cu"), TWICE.replace("_Z5twicePf", "_Z5twicePd")).unwrap();
    let (compiled, message) = run("nvcc");
    assert!(!compiled, "{message}");
    assert!(
        message.contains(
            "error: `x` is `&mut [f32]` here, and `double*` in `twice(double*)` of `cuda/twice.cu`"
        ),
        "{message}"
    );

    // `none` asks for no images: everything else still works.
    let (compiled, message) = run("none");
    assert!(compiled, "{message}");
    assert_eq!(message, "twice without an image\n");
}

#[test]
fn a_source_that_is_not_in_the_list_is_to_be_added_to_it() {
    let package = package(&MAIN.replace("cuda/twice.cu", "cuda/other.cu"));
    let toolkit = with_sources(&package, &[("cuda/twice.cu", TWICE), ("cuda/other.cu", TWICE)]);
    let list = "kernel_registry_build::Build::new().file(\"cuda/twice.cu\").compile();";
    fs::write(package.join("build.rs"), format!("fn main() {{ {list} }}\n")).unwrap();
    let mut cargo = cargo();
    cargo.args(["check", "--quiet"]).current_dir(&package).env("CUDA_HOME", &toolkit);
    let (compiled, message) = text(cargo.env("KERNEL_REGISTRY_COMPILER", "nvcc").output().unwrap());
    let expected = "error: `cuda/other.cu` is not among the sources that the build script compiles (cuda/twice.cu): add \
                    `.file(\"cuda/other.cu\")` to its list, or if it has none, move the file into `cuda/`\n";
    assert!(!compiled && message.contains(expected), "{message}");
}
