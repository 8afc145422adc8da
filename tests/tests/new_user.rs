//! Runs what the README and the guides tell a new user, in an empty home: the start, typical mistakes with their messages, two crates,
//! and a port from cudarc. The tests use a CUDA compiler if there is one, and otherwise a committed image.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use kernel_registry::cudarc::driver::sys::is_culib_present;
use kernel_registry_build::{Available, available};
use tests::guide::{blocks, file, page, script, section, workspace};
use tests::{
    build_alike, cargo_kernels, cargo_kernels_command, copied, fails, left_out, programs, scratch_folder,
};

/// Creates a folder for a new user. No package is above the folder, and its lock file has the tested versions.
fn home() -> PathBuf {
    let home = scratch_folder();
    fs::write(home.join("Cargo.toml"), "[workspace]\nresolver = \"3\"\n").unwrap();
    copied(&workspace().join("Cargo.lock"), &home);
    home
}

/// Runs a script in a folder. Returns whether the script succeeded, and its output.
fn run(folder: &Path, script: &str) -> (bool, String) {
    let toolchain = Path::new(env!("CARGO")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([toolchain].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(folder).env("PATH", path);
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    shell.envs(cargo_home.map(|home| ("CARGO_HOME", home))).env("HOME", folder);
    shell.env("CARGO_NET_OFFLINE", "true");
    build_alike(&mut shell);
    if without_compiler() {
        shell.env("KERNEL_REGISTRY_COMPILER", "prebuilt");
    }
    let output = shell.output().expect("there is a shell");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).expect("UTF-8"))
}

/// Runs a script that must succeed, and returns its output.
#[track_caller]
fn done(folder: &Path, script: &str) -> String {
    let (succeeded, text) = run(folder, script);
    assert!(succeeded, "{script}\n{text}");
    text
}

fn without_compiler() -> bool {
    matches!(available(), Ok(Available::Without { .. }))
}

/// Copies the committed image of the start's kernel into a package, on machines without a compiler.
fn commit_image(package: &Path) {
    if without_compiler() {
        let images = workspace().join("cargo-kernels/template/prebuilt");
        fs::create_dir_all(package.join("prebuilt")).unwrap();
        for entry in fs::read_dir(images).unwrap() {
            copied(&entry.unwrap().path(), &package.join("prebuilt"));
        }
    }
}

/// Returns the package of the page `start`, which is created once, and the output of its `cargo test`. Only one test at a time can
/// change the package.
fn demo() -> MutexGuard<'static, (PathBuf, String)> {
    static DEMO: OnceLock<Mutex<(PathBuf, String)>> = OnceLock::new();
    let demo = DEMO.get_or_init(|| {
        let home = home();
        let script = script(section(&page("docs/guide/start.md"), "Start"));
        let prepared = script.strip_suffix("\ncargo test\n").expect("the start ends with a test");
        done(&home, prepared);
        commit_image(&home.join("demo"));
        let printed = done(&home.join("demo"), "cargo test");
        Mutex::new((home.join("demo"), printed))
    });
    demo.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_start_runs_as_it_is_written() {
    let demo = demo();
    assert!(demo.1.contains("test saxpy_computes ... ok"), "{}", demo.1);
}

/// Runs the README's commands for somebody with a checkout, except the command that installs `cargo kernels`.
#[test]
fn the_start_with_a_checkout_runs_as_it_is_written() {
    let home = home();
    symlink(workspace(), home.join("kernel-registry")).unwrap();
    let readme = page("README.md");
    let written = blocks(section(&readme, "A Rust crate with kernels"));
    let lines = &written.iter().find(|block| block.language == "sh").expect("the commands").text;
    let (install, made) = lines.split_once('\n').expect("several lines");
    let (program, path) = install.rsplit_once(' ').expect("the command's crate");
    assert_eq!(program, "cargo install --path");
    assert!(home.join(path).join("Cargo.toml").is_file(), "{path}");
    let tool = cargo_kernels_command();
    let tool = format!("'{}' kernels", tool.get_program().display());
    let printed = done(&home, &made.replace("cargo kernels", &tool));
    assert!(printed.contains("test saxpy_computes ... ok"), "{printed}");
}

#[test]
fn services_and_graphs_run() {
    let demo = demo();
    for (guide, name) in [("services", "tests/service.rs"), ("graphs", "tests/graph.rs")] {
        fs::write(demo.0.join(name), file(&page(&format!("docs/guide/{guide}.md")), name)).unwrap();
    }
    let printed = done(&demo.0, "cargo test --test service --test graph");
    for test in ["the_server_is_ready", "a_graph_launches_saxpy_three_times"] {
        assert!(printed.contains(&format!("test {test} ... ok")), "{printed}");
    }
}

/// Runs the commands of a console block, and compares what they print. Paths begin with `from-ptx/` here, because the package belongs
/// to a workspace, so columns can be wider.
fn session(folder: &Path, section: &str) {
    let tool = cargo_kernels_command();
    let tool = format!("'{}' kernels", tool.get_program().display());
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let console = blocks(section).into_iter().find(|block| block.language == "console").expect("a session");
    for part in console.text.split("$ ").skip(1) {
        let (command, expected) = part.split_once('\n').expect("commands end");
        let printed = done(folder, &command.replace("cargo kernels", &tool)).replace("from-ptx/src", "src");
        assert!(plain(&printed).starts_with(&plain(expected)), "{command}\n{printed}");
    }
}

#[test]
fn a_start_from_ptx_and_the_port_from_cudarc() {
    let home = home();
    let (images, port) = (page("docs/guide/images.md"), page("docs/guide/from-cudarc.md"));
    let start = section(&images, "A start from PTX");
    assert!(done(&home, &script(start)).contains("test saxpy_computes ... ok"));

    let package = home.join("from-ptx");
    session(&package, section(&page("docs/guide/command.md"), "A session"));
    const TEST: &str = "#[test]\n\
        fn it_computes() {\n    \
        kernel_registry_sim::install().unwrap();\n    \
        let blas = from_ptx::Blas::new().unwrap();\n    \
        assert_eq!(blas.saxpy(2.0, &[1.0, 2.0], &[10.0, 20.0]).unwrap(), [12.0, 24.0]);\n\
        }\n";
    fs::write(package.join("tests/saxpy.rs"), TEST).unwrap();
    // The ported program uses cudarc, with the features of cudarc that kernel-registry asks for, so nothing is built again.
    done(&package, "cargo add cudarc@0.19 --no-default-features --features driver,nvrtc");
    session(&package, section(&port, "First, declare"));
    for part in ["Before", "After"] {
        fs::write(package.join("src/lib.rs"), file(section(&port, part), "src/lib.rs")).unwrap();
        if part == "After" {
            done(&package, "cargo remove cudarc");
        }
        let printed = done(&package, "cargo test");
        assert!(printed.contains("test it_computes ... ok"), "{part}: {printed}");
    }
}

#[test]
fn kernels_of_another_crate_are_used_and_a_forgotten_link_is_explained() {
    let demo = demo().0.clone();
    let folder = home().join("pair");
    fs::create_dir(&folder).unwrap();
    let crates = page("docs/guide/crates.md");
    let script = script(section(&crates, "A kernel crate and a program"));
    let (prepared, _) = script.split_once("\ncargo run -p app\n").expect("the program is run");
    done(&folder, prepared);
    copied(&workspace().join("Cargo.lock"), &folder);
    copied(&demo.join("cuda/saxpy.cu"), &folder.join("vectors/cuda"));
    copied(&demo.join("build.rs"), &folder.join("vectors"));
    commit_image(&folder.join("vectors"));
    let printed = done(&folder, "cargo run -p app");
    assert!(printed.lines().any(|line| line == "vectors::saxpy"), "{printed}");

    let main = folder.join("app/src/main.rs");
    let linked = fs::read_to_string(&main).unwrap();
    let find = linked.replace("kernel_registry::kernels()?", "[kernel_registry::find(\"saxpy\")?]");
    fs::write(&main, find.replace("kernel_registry::link_kernels!(vectors);\n", "")).unwrap();
    let (succeeded, printed) = run(&folder, "cargo run -p app");
    assert!(!succeeded);
    said(
        &printed,
        "no kernel .. is its crate named in this program?",
        "no kernel `saxpy`: is its crate named",
    );
    let said_by_list = fails(cargo_kernels([OsStr::new("list"), programs().join("app").as_os_str()]), 7);
    said(
        &said_by_list,
        "but no kernels: rustc does not link a dependency that the code never names",
        "`kernel_registry::link_kernels!` names one",
    );
}

/// Checks that a message was printed, and that the troubleshooting page has the message under this heading.
#[track_caller]
fn said(printed: &str, heading: &str, message: &str) {
    let page = page("docs/guide/troubleshooting.md");
    assert!(page.contains(&format!("\n### {heading}\n")), "{heading}");
    let mut from = 0;
    for part in heading.split("..").map(str::trim) {
        let found = printed[from..].find(part);
        from += found.unwrap_or_else(|| panic!("`{part}` is not in:\n{printed}")) + part.len();
    }
    assert!(printed.contains(message), "`{message}` is not in:\n{printed}");
}

/// A mistake that does not compile: the file, the text to replace, the new text, the heading under which the troubleshooting page
/// explains the mistake, and the message.
type Mistake = (&'static str, &'static str, &'static str, &'static str, &'static str);

const MISTAKES: &[Mistake] = &[
    (
        "src/lib.rs",
        "fn saxpy(",
        "fn saxpi(",
        "no kernel .. did you mean",
        "no kernel `saxpi` in `cuda/saxpy.cu`: did you mean `saxpy`?",
    ),
    (
        "src/lib.rs",
        "a: f32",
        "a: f64",
        "is .. here, and .. in .. of",
        "`a` is `f64` here, and `float` in `saxpy(unsigned int, float, const float*, float*)` of `cuda/saxpy.cu`",
    ),
    (
        "src/lib.rs",
        "n: u32, ",
        "",
        "takes .. and .. are declared",
        "of `cuda/saxpy.cu` takes 4 parameters, and 3 are declared",
    ),
    (
        "src/lib.rs",
        "pub unsafe fn",
        "pub fn",
        "launching a kernel is unsafe, as its code can do anything to device memory",
        "write `unsafe fn`",
    ),
    (
        "src/lib.rs",
        "&mut [f32]);",
        "&mut [f32]) {}",
        "a kernel is declared without a body: end it with `;`",
        "its code is in the CUDA file or image",
    ),
    ("src/lib.rs", "a: f32", "a: String", "cannot be handed to a kernel", "`String`"),
    (
        "src/lib.rs",
        "saxpy.cu\"",
        "saxpi.cu\"",
        "no file .. paths start at the folder of Cargo.toml",
        "there is saxpy.cu",
    ),
    ("src/lib.rs", "file = \"cuda/", "image = \"cuda/", "is CUDA source: write", "`cuda/saxpy.cu`"),
    (
        "src/lib.rs",
        "file = \"cuda/saxpy.cu\"",
        "image = \"/opt/saxpy.ptx\"",
        "exists on this machine only: give the path relative to the folder of Cargo.toml",
        "`/opt/saxpy.ptx`",
    ),
    (
        "src/lib.rs",
        "block = 256",
        "block = 256, shared = 300_000",
        "a block can have .. bytes of dynamic shared memory .. and this is",
        "and this is 300000",
    ),
    (
        "tests/saxpy.rs",
        "&x, &mut y",
        "&vec![1.0_f32], &mut y",
        "DevicePtr .. is not satisfied",
        "`Vec<f32>: DevicePtr<f32>`",
    ),
];

#[test]
fn mistakes_that_do_not_compile_get_the_documented_messages() {
    let demo = demo();
    for &(name, from, to, heading, message) in MISTAKES {
        let path = demo.0.join(name);
        let right = fs::read_to_string(&path).unwrap();
        assert!(right.contains(from), "{name}: {from}");
        fs::write(&path, right.replace(from, to)).unwrap();
        let (succeeded, printed) = run(&demo.0, "cargo test --no-run --test saxpy");
        fs::write(&path, right).unwrap();
        assert!(!succeeded, "{heading}");
        said(&printed, heading, message);
    }
}

/// The mistakes: no build script, a build script that compiles nothing, a source that has no image on a machine without a compiler,
/// and a source that the build script does not list.
#[test]
fn mistakes_in_build_scripts_get_the_documented_messages() {
    let demo = demo();
    let write = |name: &str, text: &str| fs::write(demo.0.join(name), text).unwrap();
    let read = |name: &str| fs::read_to_string(demo.0.join(name)).unwrap();
    let (library, build) = (read("src/lib.rs"), read("build.rs"));
    fs::remove_file(demo.0.join("build.rs")).unwrap();
    let (succeeded, printed) = run(&demo.0, "cargo build");
    write("build.rs", &build);
    assert!(!succeeded);
    said(
        &printed,
        "has not been compiled: this package has no build script",
        "`cuda/saxpy.cu` has not been compiled",
    );
    // This build leaves an index of sources. The next build must not use the index, because its script compiles nothing.
    done(&demo.0, "cargo build");
    write("build.rs", "fn main() {}\n");
    let (succeeded, printed) = run(&demo.0, "cargo build");
    write("build.rs", &build);
    assert!(!succeeded);
    said(&printed, "has not been compiled: call", "`cuda/saxpy.cu` has not been compiled");

    write("cuda/other.cu", "__global__ void other(float* x) { x[0] = 1; }\n");
    write(
        "src/lib.rs",
        &(library.clone()
            + "\n#[gpu_kernel(file = \"cuda/other.cu\", block = 32)]\npub unsafe fn other(x: &mut [f32]);\n"),
    );
    if without_compiler() {
        let printed = done(&demo.0, "cargo build");
        said(&printed, "no image for .. a release build would fail", "no image for cuda/other.cu");
    }
    write("build.rs", &build.replace("compile()", "Build::new().file(\"cuda/saxpy.cu\").compile()"));
    let (succeeded, printed) = run(&demo.0, "cargo build");
    fs::remove_file(demo.0.join("cuda/other.cu")).unwrap();
    write("src/lib.rs", &library);
    write("build.rs", &build);
    assert!(!succeeded);
    said(
        &printed,
        "is not among the sources that the build script compiles",
        "add `.file(\"cuda/other.cu\")` to its list",
    );
}

/// A program that prints errors of kernel-registry.
const RUNNING: &str = r#"
use demo::saxpy;
use kernel_registry::{DynArg, Late, LaunchError, LaunchConfig, Warmup, find, launch_dyn, warm_all};

#[test]
fn launches() -> Result<(), Box<dyn std::error::Error>> {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    let stream = context.new_stream()?;
    let x = stream.clone_htod(&[1.0_f32; 3])?;
    let mut y = stream.clone_htod(&[1.0_f32; 3])?;
    let mut launch = |config: LaunchConfig| -> LaunchError {
        // SAFETY: the launch is refused.
        unsafe { saxpy::launch(&stream, config, 3, 1.0, &x, &mut y) }.unwrap_err()
    };
    println!("{}", launch(saxpy::over(3)));
    Warmup::new().skip([saxpy::INFO]).late(Late::Deny).warm(&context)?;
    println!("{}", launch(saxpy::over(3)));
    warm_all(&context)?;
    println!("{}", launch(saxpy::over(3).block((64, 32))));
    println!("{}", launch(saxpy::over(3).shared(100_000)));
    println!("{}", find("saxpi").unwrap_err());
    // SAFETY: the launch is refused.
    let refused = unsafe { launch_dyn(saxpy::INFO, &stream, saxpy::over(3), [DynArg::value(&3_u32)]) };
    println!("{}", refused.unwrap_err());
    Ok(())
}

#[test]
#[ignore = "needs a process without a driver"]
fn without_a_driver() {
    println!("{}", kernel_registry::context(0).unwrap_err());
}
"#;

#[test]
fn mistakes_of_running_programs_get_the_documented_messages() {
    let demo = demo();
    fs::write(demo.0.join("tests/running.rs"), RUNNING).unwrap();
    let printed = done(&demo.0, "cargo test --test running -- --nocapture");
    assert_eq!(printed.matches("it is not warm in the context of this stream").count(), 2, "{printed}");
    for (heading, message) in [
        ("it is not warm in the context of this stream", "call `warm_all` with that context"),
        ("its registers and launch bounds allow", "a block of 64 x 32 x 1 threads"),
        ("bytes of dynamic shared memory; it was granted", "add `shared = 100000` to its declaration"),
        ("no kernel .. did you mean", "no kernel `saxpi`: did you mean `demo::saxpy`?"),
        ("arguments, and .. were given", "it takes 4 arguments, and 1 were given"),
    ] {
        said(&printed, heading, message);
    }
    // SAFETY: this loads the driver's library, if there is one.
    if unsafe { is_culib_present() } {
        return left_out("there is a CUDA driver", "REQUIRE_NO_DRIVER");
    }
    let printed = done(&demo.0, "cargo test --test running -- --nocapture --ignored");
    said(&printed, "no CUDA driver:", "install NVIDIA's driver");
}
