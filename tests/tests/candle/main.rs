//! Tests with the 705 kernels that candle compiles to PTX: `cargo kernels declare` declares all of them, and they are built, checked and
//! warmed on the simulated driver. Some are launched with random arguments, and their results are compared with the CPU's.
//!
//! The sources come from `candle-kernels` on crates.io; none is in this repository. The test needs nvcc. Without `CUDA_HOME` the test is
//! left out, which `REQUIRE_CUDA=1` makes an error. Compiling takes three minutes on two cores. The images are kept below the target
//! directory.
#![cfg(unix)]

// The program of the generated package. It is a module here only so that the lints see it.
#[allow(dead_code)]
mod program;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::{
    cargo, cargo_kernels, cargo_kernels_command, copied, fast_simulation, left_out, lines, listed, package,
    scratch, scratch_folder, target,
};

/// The version of `candle-kernels` that has [`KERNELS`] kernels.
const VERSION: &str = "0.11.1";
const KERNELS: usize = 705;

/// The sources that candle does not compile to PTX either, because their kernels use tensor cores or are linked to host code.
const NOT_PTX: [&str; 1] = ["mmvq_gguf.cu"];

/// Returns the folder of candle's sources, which cargo downloads and unpacks.
fn sources() -> PathBuf {
    let folder = scratch_folder();
    let manifest = format!(
        "[package]\nname = \"fetched\"\nedition = \"2024\"\n[workspace]\n[dependencies]\ncandle-kernels = \"={VERSION}\"\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::create_dir(folder.join("src")).unwrap();
    fs::write(folder.join("src/lib.rs"), "").unwrap();
    let output = cargo().args(["metadata", "--format-version", "1"]).current_dir(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "candle-kernels").unwrap();
    Path::new(package["manifest_path"].as_str().unwrap()).with_file_name("src")
}

/// Compiles the sources to PTX on all cores, the largest first. Reuses the PTX of an earlier run.
fn compile(cuda: &Path, sources: &Path, images: &Path) -> Vec<PathBuf> {
    fs::create_dir_all(images).unwrap();
    let files = fs::read_dir(sources).unwrap().map(|entry| entry.unwrap().path());
    let is_source = |path: &PathBuf| {
        let name = path.file_name().unwrap();
        path.extension().is_some_and(|extension| extension == "cu")
            && NOT_PTX.iter().all(|other| name != *other)
    };
    let mut sources: Vec<PathBuf> = files.filter(is_source).collect();
    sources.sort_by_key(|source| source.metadata().unwrap().len());
    let left = Mutex::new(sources.clone());
    let work = || {
        loop {
            let Some(source) = left.lock().unwrap().pop() else { return };
            let image = images.join(source.file_name().unwrap()).with_extension("ptx");
            if image.exists() {
                continue;
            }
            let part = image.with_extension("part");
            let mut nvcc = Command::new(cuda.join("bin/nvcc"));
            nvcc.args(["-ptx", "-arch=compute_80", "-std=c++17", "-O3", "--expt-relaxed-constexpr", "-o"]);
            let output = nvcc.arg(&part).arg(&source).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            fs::rename(part, image).unwrap();
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..cores).for_each(|_| _ = scope.spawn(work)));
    sources
}

/// Runs cargo, and returns how long it took.
fn build(package: &Path, args: &[&str]) -> Duration {
    let begun = Instant::now();
    let output = cargo().args(args).current_dir(package).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    begun.elapsed()
}

/// Creates a package that declares all kernels, and whose program warms and launches them.
fn declaring(sources: &[PathBuf], images: &Path) -> PathBuf {
    let package = package(
        "mod program;\n\nuse candle as _;\n\nfn main() -> Result<(), Box<dyn std::error::Error>> {\n    program::run()\n}\n",
    );
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let manifest =
        fs::read_to_string(package.join("Cargo.toml")).unwrap().replace("\"changing\"", "\"candle\"");
    let more = format!(
        "kernel-registry.features = [\"half\"]\nkernel-registry-sim.path = {:?}\nhalf = \"2\"\nfastrand = \"2\"\n",
        workspace.join("kernel-registry-sim"),
    );
    let manifest = manifest + &more + &fast_simulation();
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    for folder in ["src/program", "images"] {
        fs::create_dir(package.join(folder)).unwrap();
    }
    for file in fs::read_dir(workspace.join("tests/tests/candle/program")).unwrap() {
        copied(&file.unwrap().path(), &package.join("src/program"));
    }
    let mut modules = String::new();
    for source in sources {
        let name = source.file_stem().unwrap().to_str().unwrap();
        let image = copied(&images.join(format!("{name}.ptx")), &package.join("images"));
        let module = package.join(format!("src/{name}.rs"));
        let mut declare = cargo_kernels_command();
        declare.env("KERNEL_REGISTRY_COMPILER", "nvcc").arg("declare").arg(image);
        let output = declare.arg("--source").arg(source).arg("--output").arg(module).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        modules += &format!("pub mod {name};\n");
    }
    fs::write(package.join("src/lib.rs"), modules).unwrap();
    package
}

#[test]
fn all_kernels_of_candle_are_declared_built_checked_warmed_and_compute_what_the_cpu_does() {
    let Some(cuda) = env::var_os("CUDA_HOME").filter(|cuda| !cuda.is_empty()) else {
        return left_out("`CUDA_HOME` is not set", "REQUIRE_CUDA");
    };
    let images = scratch().join("candle/images");
    let begun = Instant::now();
    let sources = compile(Path::new(&cuda), &sources(), &images);
    println!("compiled in {:.1?}", begun.elapsed());
    let package = declaring(&sources, &images);

    println!("built in {:.1?}", build(&package, &["build", "--quiet"]));
    fs::File::open(package.join("src/lib.rs")).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    let rebuilt = build(&package, &["build", "--quiet", "--lib"]);
    let built = target().join("debug");
    let library = fs::metadata(built.join("libcandle.rlib")).unwrap().len();
    let images =
        fs::read_dir(package.join("images")).unwrap().map(|image| image.unwrap().metadata().unwrap().len());
    let images: u64 = images.sum();
    println!("rebuilt in {rebuilt:.1?}; {library} bytes of library for {images} of images");
    // A rebuild takes 4 seconds on two idle cores. Two thirds of the library are the images, in the metadata and in the code; the rest
    // are the declarations.
    assert!(rebuilt < Duration::from_secs(20), "{rebuilt:?}");
    assert!(library <= 3 * images);

    let program = built.join("candle");
    assert_eq!(listed(&program).len(), KERNELS);
    let output = cargo_kernels(["check".as_ref(), program.as_os_str()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = lines(&mut Command::new(program));
    assert_eq!(lines[0], format!("{KERNELS} kernels are warm"), "{lines:?}");
    println!("{}", lines[1]);
}
