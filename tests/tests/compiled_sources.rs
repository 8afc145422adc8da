//! Tests kernels that are declared with a CUDA source, from the build script to the running program. A fake compiler accepts PTX as
//! CUDA, so that the tests run everywhere; kernel-registry-build has tests with real compilers.

use std::fs;
use std::path::Path;
use std::process::Output;

use tests::{build_alike, cargo, cargo_kernels_command, package, with_sources, with_toolkit};

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

/// Checks the package. Returns whether it compiles, and the messages.
fn check(package: &Path, toolkit: &Path) -> (bool, String) {
    let mut cargo = cargo();
    cargo.args(["check", "--quiet"]).current_dir(package);
    with_toolkit(&mut cargo, toolkit);
    text(cargo.env("KERNEL_REGISTRY_COMPILER", "nvcc").output().unwrap())
}

#[test]
fn a_source_is_compiled_compared_and_embedded_and_its_changes_are_noticed() {
    let package = package(MAIN);
    let toolkit = with_sources(&package, &[("cuda/twice.cu", TWICE)]);
    let run = |compiler: &str| {
        let mut cargo = cargo();
        cargo.args(["run", "--quiet"]).current_dir(&package);
        with_toolkit(&mut cargo, &toolkit);
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

    // With `none` no images are compiled, and everything else still works.
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
    cargo.args(["check", "--quiet"]).current_dir(&package);
    with_toolkit(&mut cargo, &toolkit);
    let (compiled, message) = text(cargo.env("KERNEL_REGISTRY_COMPILER", "nvcc").output().unwrap());
    let expected = "error: `cuda/other.cu` is not among the sources that the build script compiles (cuda/twice.cu): add \
                    `.file(\"cuda/other.cu\")` to its list, or if it has none, move the file into `cuda/`\n";
    assert!(!compiled && message.contains(expected), "{message}");
}

#[test]
fn the_types_of_a_c_kernel_are_those_of_its_source() {
    const SOURCE: &str = "extern \"C\" __global__ void scale(int n, float a, const float* x, double* y, real z);\n\
                          .version 7.0 .target sm_60 .visible .entry scale(\n\
                          .param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y, .param .u32 z) { ret; }\n";
    let main = |params: &str| {
        "#[kernel_registry::gpu_kernel(file = \"cuda/scale.cu\")]\n".to_owned()
            + &format!("unsafe fn scale({params});\nfn main() {{}}\n")
    };
    let package = package(&main("n: u32, a: i32, x: &[i32], y: &[f64], z: u32"));
    let toolkit = with_sources(&package, &[("cuda/scale.cu", SOURCE)]);
    let check = || {
        let mut cargo = cargo();
        cargo.args(["check", "--quiet"]).current_dir(&package);
        with_toolkit(&mut cargo, &toolkit);
        text(cargo.env("KERNEL_REGISTRY_COMPILER", "nvcc").output().unwrap())
    };
    let (compiled, message) = check();
    assert!(!compiled, "{message}");
    let whole = "`scale(int, float, const float*, double*, ?)` of `cuda/scale.cu`";
    for wrong in [
        format!("error: `n` is `u32` here, and `int` in {whole}"),
        format!("error: `a` is `i32` here, and `float` in {whole}"),
        format!("error: `x` is `&[i32]` here, and `const float*` in {whole}"),
        format!(
            "error: `y` is `&[f64]` here, and `double*` in {whole}: the kernel may write through it, so declare"
        ),
    ] {
        assert!(message.contains(&wrong), "{message}");
    }
    assert!(!message.contains("`z` is"), "{message}");

    let right = "n: i32, a: f32, x: &[f32], y: &mut [f64], z: u32";
    fs::write(package.join("src/main.rs"), main(right)).unwrap();
    assert_eq!(check(), (true, String::new()));

    // A new type is noticed although the image stays the same.
    fs::write(package.join("cuda/scale.cu"), SOURCE.replace("const float*", "const int*")).unwrap();
    let (compiled, message) = check();
    assert!(!compiled && message.contains("`x` is `&[f32]` here, and `const int*` in"), "{message}");
}

#[test]
fn parameters_have_the_order_and_the_names_of_the_source() {
    const SOURCE: &str = "__global__ void gemm(const float* a, const float* b, float* c, unsigned m, unsigned n);\n\
                          .version 7.0 .target sm_60 .visible .entry _Z4gemmPKfS0_Pfjj(\n\
                          .param .u64 a, .param .u64 b, .param .u64 c, .param .u32 m, .param .u32 n) { ret; }\n";
    let package = package("");
    let toolkit = with_sources(&package, &[("cuda/gemm.cu", SOURCE)]);
    let check = |lint: &str, [a, b, c, m, n]: [&str; 5]| {
        let kernel =
            format!("{lint}\nunsafe fn gemm({a}: &[f32], {b}: &[f32], {c}: &mut [f32], {m}: u32, {n}: u32);");
        let main =
            format!("#[kernel_registry::gpu_kernel(file = \"cuda/gemm.cu\")]\n{kernel}\nfn main() {{}}\n");
        fs::write(package.join("src/main.rs"), main).unwrap();
        check(&package, &toolkit)
    };
    assert_eq!(check("", ["a", "b", "c", "m", "n"]), (true, String::new()));

    let (compiled, message) = check("", ["b", "a", "c", "n", "m"]);
    let swapped = "error: `gemm` takes `(a, b, c, m, n)` in `cuda/gemm.cu`, and `(b, a, c, n, m)` is declared: declare the parameters in the order \
                   of the source\n";
    assert!(!compiled && message.contains(swapped), "{message}");
    // Two names suffice, whatever the others are.
    let (compiled, message) = check("", ["b", "a", "c", "rows", "n"]);
    assert!(!compiled && message.contains("and `(b, a, c, rows, n)` is declared"), "{message}");

    let differ = "`gemm` takes `(a, b, c, m, n)` in `cuda/gemm.cu`, and `(a, b, c, rows, n)` is declared: use the source's names, by which \
                  swapped parameters are found";
    for (lint, compiles, warns) in
        [("", true, true), ("#[deny(deprecated)]", false, true), ("#[allow(deprecated)]", true, false)]
    {
        let (compiled, message) = check(lint, ["a", "b", "c", "rows", "n"]);
        assert_eq!((compiled, message.contains(differ)), (compiles, warns), "{lint}: {message}");
    }
    for (deny, code) in [(&[][..], 0), (&["--deny", "names"], 10)] {
        let mut command = cargo_kernels_command();
        build_alike(&mut command);
        with_toolkit(command.args([&["check", "--quiet"], deny].concat()).current_dir(&package), &toolkit);
        let output = command.env("KERNEL_REGISTRY_COMPILER", "nvcc").output().unwrap();
        let found = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{found}{}", String::from_utf8_lossy(&output.stderr));
        assert!(found.contains(&format!(": {differ}\n1 declaration against 1 image: ")), "{found}");
    }
}

#[test]
fn the_fields_of_a_struct_are_those_of_its_source() {
    const SOURCE: &str = "struct Params { float* x; int n; float a; };\n\
                          extern \"C\" __global__ void scale(Params params);\n\
                          .version 7.0 .target sm_60 .address_size 64\n\
                          .visible .entry scale(.param .align 8 .b8 params[16]) { ret; }\n\
                          .visible .entry _Z3add6Params(.param .align 8 .b8 params[16]) { ret; }\n";
    let main = |fields: &str| {
        let kernel = |name: &str| {
            format!("#[gpu_kernel(file = \"cuda/scale.cu\")]\nunsafe fn {name}(params: Params);\n")
        };
        "#![allow(dead_code)]\nuse kernel_registry::{KernelParam, gpu_kernel};\n#[derive(Clone, Copy, KernelParam)]\n#[repr(C)]\n"
            .to_owned()
            + &format!("struct Params {{ {fields} }}\n{}{}fn main() {{}}\n", kernel("scale"), kernel("add"))
    };
    let package = package(&main("x: *mut f32, a: f32, n: i32"));
    let toolkit = with_sources(&package, &[("cuda/scale.cu", SOURCE)]);
    let check = || check(&package, &toolkit);
    let refused = |fields: &str, why: &str| {
        fs::write(package.join("src/main.rs"), main(fields)).unwrap();
        let (compiled, message) = check();
        assert!(!compiled, "{message}");
        for kernel in ["scale", "add"] {
            let message_of = format!(
                "`params` is `Params` here, and `Params` (16 bytes, aligned to 8) in `{kernel}(Params)` of `cuda/scale.cu`; \
                 {why}: declare the fields in CUDA's order, with CUDA's types"
            );
            assert!(message.contains(&message_of), "{message}");
        }
    };
    refused("x: *mut f32, a: f32, n: i32", "`a: f32` is at byte 8 here, and `int n` at byte 8 there");
    refused(
        "x: *mut f32, count: i32, scale: i32",
        "`scale: i32` is at byte 12 here, and `float a` at byte 12 there",
    );
    for right in ["x: *mut f32, n: i32, a: f32", "x: u64, count: u32, factor: [f32; 1]"] {
        fs::write(package.join("src/main.rs"), main(right)).unwrap();
        assert_eq!(check(), (true, String::new()));
    }

    // Another order is noticed although the image stays the same.
    fs::write(package.join("cuda/scale.cu"), SOURCE.replace("int n; float a;", "float a; int n;")).unwrap();
    refused("x: *mut f32, n: i32, a: f32", "`n: i32` is at byte 8 here, and `float a` at byte 8 there");

    // A type from a header is unknown, so the declaration may have any type.
    fs::write(package.join("cuda/scale.cu"), SOURCE.replace("int n; float a;", "count_t a; int n;")).unwrap();
    assert_eq!(check(), (true, String::new()));
}

#[test]
fn control_blocks_and_queues_are_pointers_to_types_of_the_library() {
    // The source has one kernel of C and one of C++.
    const SOURCE: &str = "extern \"C\" __global__ void serve(kernel_registry::Control* control,\
                          kernel_registry::Queue<Task>* queue, const unsigned int* flag);\n\
                          .version 7.0 .target sm_60 .address_size 64\n\
                          .visible .entry serve(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }\n\
                          .visible .entry _Z4workPN15kernel_registry7ControlEPNS_5QueueI4TaskEEPKj(\n\
                          .param .u64 a, .param .u64 b, .param .u64 c) { ret; }\n";
    let main = |params: &str| {
        let kernel = |name: &str| {
            format!("#[kernel_registry::gpu_kernel(file = \"cuda/serve.cu\")]\nunsafe fn {name}({params});\n")
        };
        "#![allow(dead_code)]\nuse kernel_registry::KernelParam;\nuse kernel_registry_resident::{Control, Queue};\n\
         #[derive(Clone, Copy, KernelParam)]\n#[repr(C)]\nstruct Task { n: u32 }\n"
            .to_owned()
            + &kernel("serve")
            + &kernel("work")
            + "fn main() {}\n"
    };
    let package = package(&main("control: *mut Control, queue: *mut Queue<Task>, flag: *const u32"));
    let toolkit = with_sources(&package, &[("cuda/serve.cu", SOURCE)]);
    let check = || check(&package, &toolkit);
    assert_eq!(check(), (true, String::new()));

    let wrong = "control: u64, queue: *mut Queue<Task>, flag: *const f32";
    fs::write(package.join("src/main.rs"), main(wrong)).unwrap();
    let (compiled, message) = check();
    assert!(!compiled, "{message}");
    for wrong in [
        "`control` is `u64` here, and `kernel_registry::Control*` in `work(",
        "`flag` is `*const f32` here, and `const unsigned int*` in `serve(",
        "`flag` is `*const f32` here, and `const unsigned int*` in `work(",
    ] {
        assert!(message.contains(wrong), "{message}");
    }
}
