//! Tests the package that `cargo kernels new` creates, as a new user without a GPU and without a CUDA compiler sees it, and
//! `cargo kernels prebuild`, which makes the package's images.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tests::{cargo, cargo_kernels_command, fails, left_out, scratch_folder, target};

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Runs `cargo kernels` in this folder, without the network and without a CUDA compiler.
fn kernels(folder: &Path, args: &[&str]) -> Output {
    let mut command = cargo_kernels_command();
    command.env("CARGO_TARGET_DIR", target()).env("CARGO_NET_OFFLINE", "true");
    command.env("KERNEL_REGISTRY_COMPILER", "prebuilt");
    command.current_dir(folder).args(args).output().unwrap()
}

/// Runs cargo in this folder, without the network and without a CUDA compiler.
fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = cargo();
    command.env("KERNEL_REGISTRY_COMPILER", "prebuilt").env_remove("CUDA_HOME");
    command.current_dir(folder).arg(args[0]).arg("--offline").args(&args[1..]).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Checks that a command succeeded without a warning, and returns its standard output.
fn quiet(output: Output) -> String {
    let said = text(&output.stderr);
    assert!(output.status.success() && !said.contains("warning"), "{said}");
    text(&output.stdout).to_owned()
}

/// Creates a package that depends on this workspace. Each test uses another name, because the packages share a target folder.
fn demo(name: &str) -> PathBuf {
    let folder = scratch_folder();
    let made = quiet(kernels(&folder, &["new", name, "--path", workspace().to_str().unwrap()]));
    let first = format!("made the package `{name}`; to launch its kernel on a simulated GPU:");
    assert_eq!(made.lines().collect::<Vec<_>>(), [&first, &format!("    cd {name}"), "    cargo test"]);
    folder.join(name)
}

#[test]
fn a_new_package_tests_and_runs_without_gpu_and_compiler() {
    let demo = demo("new-demo");
    assert!(quiet(run(&demo, &["test"])).contains("test saxpy_computes ... ok"));
    let output = run(&demo, &["run"]);
    assert!(text(&output.stderr).contains("cargo kernels sim"), "{}", text(&output.stderr));
    let cargo = env!("CARGO");
    let sim = ["sim", "--offline", cargo, "run", "--quiet", "--offline"];
    let output = kernels(&demo, &sim);
    assert!(text(&output.stdout).ends_with("\n0.5 * 1 + 2 = 2.5\n"), "{}", text(&output.stderr));

    assert!(quiet(kernels(&demo, &["check", "-q", "--deny", "unused"])).ends_with("0 missing, 0 unused\n"));
    assert!(
        quiet(kernels(&demo, &["list", "--locked", "--offline"])).contains("new_demo::saxpy  src/lib.rs:7 ")
    );
    let clippy = Command::new(cargo).args(["clippy", "--version"]).output().unwrap();
    if !clippy.status.success() {
        return left_out("clippy is not installed", "REQUIRE_CLIPPY");
    }
    quiet(run(&demo, &["clippy", "--all-targets", "--", "-D", "warnings"]));
    let formatted = Command::new(cargo).args(["fmt", "--check"]).current_dir(&demo).status().unwrap();
    assert!(formatted.success());
}

#[test]
fn a_package_in_a_workspace_is_a_member_or_apart() {
    let folder = scratch_folder();
    fs::create_dir_all(folder.join("crates")).unwrap();
    fs::write(folder.join("Cargo.toml"), "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n")
        .unwrap();
    for (name, is_member) in [("crates/new-member", true), ("new-apart", false)] {
        quiet(kernels(&folder, &["new", name, "--path", workspace().to_str().unwrap()]));
        let manifest = fs::read_to_string(folder.join(name).join("Cargo.toml")).unwrap();
        assert_eq!(manifest.contains("[workspace]"), !is_member, "{manifest}");
        for place in [folder.clone(), folder.join(name)] {
            let output = run(&place, &["metadata", "--no-deps", "--format-version", "1"]);
            let output = text(&output.stdout).to_owned() + text(&output.stderr);
            let is_listed = output.contains(&format!("\"name\":\"{}\"", name.rsplit('/').next().unwrap()));
            assert_eq!(is_listed, is_member || place != folder, "{output}");
        }
    }
}

#[test]
fn a_new_package_has_a_repository_and_a_path_as_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    for name in ["kernel-registry", "kernel-registry-build", "kernel-registry-sim"] {
        fs::create_dir_all(root.join("checkout").join(name)).unwrap();
        fs::write(root.join("checkout").join(name).join("Cargo.toml"), "").unwrap();
    }
    let new = |args: &[&str]| quiet(kernels(&root, &[&["new", "--path", "checkout"], args].concat()));
    new(&["a"]);
    let manifest = fs::read_to_string(root.join("a/Cargo.toml")).unwrap();
    assert!(
        manifest.contains("kernel-registry = { path = \"../checkout/kernel-registry\" }\n"),
        "{manifest}"
    );
    assert!(root.join("a/.git").is_dir());
    new(&["--vcs", "none", "b"]);
    assert!(!root.join("b/.git").exists());
    fs::create_dir(root.join("a/inside")).unwrap();
    quiet(kernels(&root.join("a"), &["new", "--path", "../checkout", "c"]));
    assert!(!root.join("a/c/.git").exists());
}

#[test]
fn a_package_that_cannot_be_created_says_why() {
    let folder = scratch_folder();
    let new = |args: &[&str]| kernels(&folder, &[&["new"], args].concat());
    assert_eq!(
        fails(new(&["2d"]), 1),
        "`2d` cannot be the name of a package: a name begins with a letter; choose another name"
    );
    fs::create_dir(folder.join("there")).unwrap();
    assert_eq!(fails(new(&["there"]), 1), "`there` exists already: choose another name, or remove it");
    assert!(
        fails(new(&["x", "--path", "there"]), 1).starts_with("`there` is no checkout of kernel-registry")
    );
    assert_eq!(fails(new(&["x", "--path", "absent"]), 3), "there is no file `absent`");
    assert!(!folder.join("x").exists());
    assert!(fails(new(&["no/such/x"]), 1).starts_with("`"));
}

/// Creates a package with one source and this build script. Each test uses another name.
fn package(name: &str, build: &str) -> PathBuf {
    let folder = tests::package("fn main() {}\n");
    let crates = workspace().join("kernel-registry-build");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let manifest = format!("{manifest}[build-dependencies]\nkernel-registry-build.path = {crates:?}\n");
    fs::write(folder.join("Cargo.toml"), manifest.replace("changing", name)).unwrap();
    fs::write(folder.join("build.rs"), format!("fn main() {{ {build} }}\n")).unwrap();
    fs::create_dir(folder.join("cuda")).unwrap();
    fs::write(folder.join("cuda/a.cu"), "__global__ void a(int* x) { *x = N; }\n").unwrap();
    folder
}

#[test]
fn a_package_without_sources_has_nothing_to_prebuild() {
    let message = fails(kernels(&package("nothing-to-prebuild", ""), &["prebuild", "-q"]), 1);
    assert!(message.starts_with("no build script here compiles CUDA sources: call "), "{message}");
    let message = fails(kernels(workspace(), &["prebuild", "-p", "absent"]), 1);
    assert_eq!(message, "there is no package `absent` in this workspace");
}

#[test]
fn prebuilt_images_are_made_as_the_build_script_says() {
    let Some(nvrtc) = std::env::var_os("NVRTC_12_0").filter(|nvrtc| !nvrtc.is_empty()) else {
        return left_out("`NVRTC_12_0` is not set", "REQUIRE_CUDA");
    };
    let build = "kernel_registry_build::Build::new().define(\"N\", \"7\").compile();";
    let package = package("prebuilding", build);
    let prebuild = |args: &[&str]| {
        kernels(&package, &[&["prebuild", "-q", "--nvrtc", nvrtc.to_str().unwrap()], args].concat())
    };
    let drift = "prebuilt images do not match their sources: cuda/a.cu (there is no prebuilt image); make them \
                 again by `cargo kernels prebuild`";
    let output = prebuild(&["--check"]);
    assert_eq!(output.status.code(), Some(10));
    assert!(text(&output.stderr).ends_with(&format!("error: {drift}\n")), "{}", text(&output.stderr));
    assert_eq!(text(&prebuild(&[]).stdout), "wrote prebuilt/cuda__a.cu.ptx\nwrote prebuilt/index\n");
    let image = fs::read_to_string(package.join("prebuilt/cuda__a.cu.ptx")).unwrap();
    assert!(image.contains(".version 8.0") && image.contains(", 7;"), "{image}");
    assert_eq!(quiet(prebuild(&["--check"])), "prebuilding: prebuilt images are those of the sources\n");
    assert_eq!(quiet(prebuild(&[])), "prebuilding: prebuilt images are up to date\n");
    quiet(run(&package, &["build", "--release"]));

    // The images of another toolkit need a newer driver.
    if let Some(newer) = std::env::var_os("CUDA_HOME").filter(|home| !home.is_empty()) {
        let output = kernels(&package, &["prebuild", "-q", "--nvrtc", newer.to_str().unwrap()]);
        let message = fails(output, 9);
        assert!(message.contains("nvidia-cuda-nvrtc-cu12==12.0.140"), "{message}");
    }
}

#[test]
fn the_images_of_the_template_are_those_of_its_source() {
    let demo = demo("new-images");
    let Some(nvrtc) = std::env::var_os("NVRTC_12_0").filter(|nvrtc| !nvrtc.is_empty()) else {
        return left_out("`NVRTC_12_0` is not set", "REQUIRE_CUDA");
    };
    quiet(kernels(&demo, &["prebuild", "-q", "--check", "--nvrtc", nvrtc.to_str().unwrap()]));
}
