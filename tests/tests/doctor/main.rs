//! Tests `cargo kernels doctor` with fake drivers and without a driver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tests::{are_documented, cargo_kernels_command, fails, rustc, scratch_folder};

/// Returns a folder with driver.rs compiled as libcuda.so.
fn driver() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = scratch_folder();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor/driver.rs");
        let mut rustc = rustc();
        rustc.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=cuda", "-o"]);
        let status = rustc.arg(folder.join("libcuda.so")).arg(source).status().expect("rustc is there");
        assert!(status.success());
        folder
    })
}

/// Runs the doctor in a folder without a package. The loader searches the folder `drivers` first.
fn doctor(drivers: &Path, variables: &[(&str, &str)], args: &[&str]) -> Output {
    let mut command = cargo_kernels_command();
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CUDA") {
            command.env_remove(name);
        }
    }
    command.arg("doctor").args(args).current_dir("/").env("KERNEL_REGISTRY_COMPILER", "none");
    command.env("LD_LIBRARY_PATH", drivers).envs(variables.iter().copied());
    command.output().expect("the tool runs")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Returns the lines that begin with this level.
fn lines<'a>(text: &'a str, level: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.starts_with(level)).collect()
}

#[test]
fn a_driver_and_its_gpu_are_told() {
    let output = doctor(driver(), &[("CUDA_CACHE_DISABLE", "1")], &[]);
    let path = fs::canonicalize(driver().join("libcuda.so")).unwrap();
    let text = text(&output).replace(path.to_str().unwrap(), "FILE");
    let expected = "\
ok       driver library  `FILE`
note     driver          CUDA 12.3, takes PTX up to 8.3: kernels can be warmed, but not verified: `cuFuncIsLoaded` came with 12.4, so the report says of each kernel that it is not known to be loaded
                         -> install release 550 or newer to have it proven
ok       loading mode    lazy, the driver's default
note     variable        `CUDA_CACHE_DISABLE=1`: PTX is compiled again in each process, which can take seconds
                         -> unset `CUDA_CACHE_DISABLE`, or build images with machine code for this GPU
ok       gpu             GPU 0: Fake GPU, sm_86, 8.0 of 16.0 GiB free
ok       stack           GPU 0: 2048 bytes a thread; each further KiB takes 40 MiB of the GPU's memory
note     gpu             GPU 0: exclusive mode: only one process at a time can use it
                         -> if others need it too: `nvidia-smi -c 0`
note     gpu             GPU 0: it draws a screen too, and the driver ends kernels that run for some seconds
                         -> run resident kernels on another GPU, or without a desktop on this one
note     compiler        `KERNEL_REGISTRY_COMPILER` is `none`: CUDA sources have only the images that `cargo kernels prebuild` made
                         -> set `CUDA_HOME` to a toolkit, or install one, or NVRTC alone; leave `KERNEL_REGISTRY_COMPILER` unset
note     cudarc          not checked: there is no Cargo.toml in this folder or above
                         -> run this in the folder of a package
4 ok, 6 notes, 0 problems
";
    assert_eq!(text, expected);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_machine_without_a_driver_is_told_in_words() {
    let folder = scratch_folder();
    // These files are no libraries, and keep the loader from finding a driver elsewhere.
    for name in ["libcuda.so", "libcuda.so.1"] {
        fs::write(folder.join(name), "no library").unwrap();
    }
    let output = doctor(&folder, &[], &[]);
    let text = text(&output);
    assert_eq!(lines(&text, "problem").len(), 1);
    assert!(
        text.starts_with("problem  driver    not found, so no kernel can be loaded or launched here ("),
        "{text}"
    );
    assert_eq!(fails(output, 11), "1 problem above, with its remedy");
}

#[test]
fn a_driver_that_does_not_start_is_told_with_its_error() {
    let output = doctor(driver(), &[("FAKE_DRIVER", "without a device")], &[]);
    let text = text(&output);
    let expected = "problem  driver          it does not start: `cuInit` returned CUDA_ERROR_NO_DEVICE (100)";
    assert_eq!(lines(&text, "problem"), [expected]);
    assert_eq!(output.status.code(), Some(11));
}

#[test]
fn a_toolkits_stub_is_not_taken_for_a_driver() {
    let output = doctor(driver(), &[("FAKE_DRIVER", "a stub")], &[]);
    let text = text(&output);
    assert_eq!(lines(&text, "problem").len(), 1);
    assert!(text.contains("is a toolkit's stub"), "{text}");
}

#[test]
fn the_packages_cudarc_is_asked_of_cargo() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let cudarc = |variables: &[(&str, &str)]| {
        let output = doctor(driver(), variables, &["--manifest-path", manifest.to_str().unwrap()]);
        text(&output)
            .lines()
            .find(|line| line.contains(" cudarc "))
            .map(str::to_owned)
            .expect("a line about cudarc")
    };
    let line = cudarc(&[("CUDARC_CUDA_VERSION", "12030")]);
    assert!(line.starts_with("ok "), "{line}");
    assert!(line.ends_with("has bindings of CUDA 12.3, by `CUDARC_CUDA_VERSION`"), "{line}");
    let line = cudarc(&[("CUDARC_CUDA_VERSION", "13000")]);
    assert!(line.starts_with("problem ") && line.contains("the driver is of 12.3"), "{line}");
}

#[test]
fn json_has_the_facts_and_the_lines() {
    let output = doctor(driver(), &[("CUDA_LAUNCH_BLOCKING", "1")], &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(11));
    assert_eq!((&report["schema"], &report["problems"], &report["notes"]), (&json!(1), &json!(1), &json!(5)));
    let path = fs::canonicalize(driver().join("libcuda.so")).unwrap();
    let expected = json!({ "library": path.to_str().unwrap(), "simulated": false, "release": null, "cuda": "12.3", "loading": "lazy" });
    assert_eq!(report["driver"], expected);
    let gpu = json!({
        "ordinal": 0, "name": "Fake GPU", "arch": 86, "memory": 16_u64 << 30, "free": 8_u64 << 30, "stack": 2048,
    });
    assert_eq!(report["gpus"], json!([gpu]));
    let line = report["lines"].as_array().unwrap().iter().find(|line| line["about"] == "variable").unwrap();
    assert_eq!(line["level"], "problem");
    let documentation = include_str!("../../../docs/doctor-json.md");
    are_documented(&[&report, &report["driver"], &report["gpus"][0], line], documentation);
}
