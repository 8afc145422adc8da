//! `cargo xtask windows`: builds for Windows on Linux. Lints what compiles there, runs unit tests with wine,
//! and checks that no linker option loses a program's kernels.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use object::read::pe::PeFile64;
use object::{Object, ObjectSection};

use crate::run::{Outcome, cargo, remove, run, target, workspace};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Lint only; this needs neither mingw nor wine
    #[arg(long)]
    check: bool,
}

const TARGET: &str = "x86_64-pc-windows-gnu";

/// The packages that support Windows.
const PACKAGES: [&str; 9] = [
    "kernel-registry-format",
    "kernel-registry-files",
    "kernel-registry-cuda",
    "kernel-registry-image",
    "kernel-registry-macros",
    "kernel-registry-build",
    "kernel-registry-cudarc",
    "kernel-registry",
    "cargo-kernels",
];

/// The packages that only support Linux.
const REFUSED: [&str; 2] = ["kernel-registry-sim", "kernel-audit"];

/// Everything that isn't run, with the reason.
const LEFT_OUT: [(&str, &str); 7] = [
    ("kernels on a GPU", "wine has no nvcuda.dll"),
    ("x86_64-pc-windows-msvc", "its linker runs on Windows only"),
    (
        "kernel-registry-macros",
        "a procedural macro runs on the machine that compiles, so its tests ran as Linux programs",
    ),
    (
        "kernel-registry-build, tests/*.rs and linked/archive",
        "they run shell scripts in place of nvcc, or `cc` and `ar`",
    ),
    ("the package `tests`", "its tests run cargo, and the simulated driver"),
    ("`cargo kernels prebuild`", "it runs cargo, which is not in wine"),
    ("tests in documentation", "each is a program to link, which takes longer than all others together"),
];

/// How to build the program: a name, arguments of cargo, and the folder of the executable.
///
/// With 256 units, kernel-registry's record is alone in its object file, where no other section refers to it.
const BUILDS: [(&str, &[&str], &str); 4] = [
    ("dev", &[], "debug"),
    ("release", &["--release"], "release"),
    (
        "release, kernel-registry in 256 units",
        &["--release", "--config", "profile.release.package.kernel-registry.codegen-units=256"],
        "release",
    ),
    ("fat LTO", &["--release", "--config", "profile.release.lto='fat'"], "release"),
];

/// A program that prints its kernels, and the expected ones.
const PROGRAM: &str = "joined";
const KERNELS: [&str; 7] = [
    "joined::own",
    "twin_a::gamma::one",
    "twin_a::gamma::two",
    "twin_a::nested::beta",
    "twin_a::saxpy",
    "twin_b::nested::beta",
    "twin_b::saxpy",
];

/// The image of its kernels.
const IMAGE: &str = "tests/fixtures/joined/images/saxpy.ptx";

/// The Debian packages with the linker and wine.
const DEBIAN: [&str; 3] = ["gcc-mingw-w64-x86-64-posix", "wine64", "wine"];
const GCC: &str = "x86_64-w64-mingw32-gcc";

/// Replaces a library that Rust's standard library needs, and that wine only has since version 9.
const BCRYPT_PRIMITIVES: &str = "unsigned char __stdcall SystemFunction036(void *, unsigned);
__declspec(dllexport) int __stdcall ProcessPrng(void *to, unsigned long long bytes) { return SystemFunction036(to, bytes); }
";

/// Replaces `ptxas`: copies the cubin that a variable names.
const PTXAS: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "--version")) return puts("Cuda compilation tools, release 13.0, V13.0.88") < 0;
    FILE *from = fopen(getenv("CUBIN"), "rb"), *to = fopen("a.cubin", "wb");
    if (!from || !to) return 1;
    for (int byte; (byte = fgetc(from)) != EOF;) fputc(byte, to);
    return fclose(to);
}
"#;

/// PTX, and its machine code for sm_90.
const PTX: &str = "kernels/prebuilt/cuda__blas1.cu.ptx";
const CUBIN: &str = "kernel-registry-image/tests/images/blas1.sm_90.cubin";

pub(crate) fn windows(options: &Options) -> Outcome {
    install_target()?;
    lint()?;
    if !options.check {
        install_packages()?;
        let wine = Wine::new()?;
        let outcome = run_all(&wine);
        wine.end();
        outcome?;
    }
    println!("not run:");
    LEFT_OUT.iter().for_each(|(what, why)| println!("  {what}: {why}"));
    Ok(())
}

fn run_all(wine: &Wine) -> Outcome {
    run_tests(wine)?;
    BUILDS.iter().try_for_each(|(name, args, folder)| check_program(wine, name, args, folder))?;
    check_command(wine)
}

/// Installs the standard library for Windows if it's missing.
fn install_target() -> Outcome {
    let sysroot = succeeds(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]))?;
    if Path::new(sysroot.trim()).exists() {
        return Ok(());
    }
    run(Command::new("rustup").args(["target", "add", TARGET])).map_err(|error| {
        format!("Rust's standard library for {TARGET} is missing, and could not be installed: {error}").into()
    })
}

fn install_packages() -> Outcome {
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if is_there(GCC) && is_there("wine") {
        return Ok(());
    }
    let mut apt = Command::new("apt-get");
    run(apt.args(["update", "-qq"]))?;
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["install", "-y", "-qq", "--no-install-recommends"]);
    run(apt.args(DEBIAN))
}

fn lint() -> Outcome {
    let clippy = || {
        let mut cargo = cargo();
        cargo.args(["clippy", "--quiet", "--locked", "--target", TARGET]);
        cargo
    };
    let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
    run(clippy().args(packages).args(["--all-targets", "--", "-D", "warnings"]))?;
    run(clippy().args(["--package", "kernel-registry", "--all-features", "--", "-D", "warnings"]))?;
    for package in REFUSED {
        let output = cargo().args(["check", "--quiet", "--target", TARGET, "--package", package]).output()?;
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() || !message.contains("on Linux only") {
            return Err(format!("{package} does not say that it is for Linux only: {message}").into());
        }
    }
    Ok(())
}

fn run_tests(wine: &Wine) -> Outcome {
    let mut test = cargo();
    test.args(["test", "--locked", "--target", TARGET, "--tests", "--no-fail-fast"]);
    run(wine.for_command(test.args(PACKAGES.iter().flat_map(|package| ["--package", package]))))
}

/// Builds the program, and checks that no kernel is lost, neither when it runs nor in its file, with and
/// without symbols.
fn check_program(wine: &Wine, name: &str, args: &[&str], folder: &str) -> Outcome {
    println!("== {PROGRAM}.exe, {name}");
    run(cargo().args(["build", "--quiet", "--locked", "--target", TARGET, "--package", PROGRAM]).args(args))?;
    let executable = target().join(TARGET).join(folder).join(PROGRAM).with_extension("exe");
    let printed = succeeds(&mut wine.run(&executable))?;
    if !printed.lines().eq(KERNELS) {
        return Err(format!("the program has these kernels: {printed}").into());
    }
    let copy = wine.folder.join("copy.exe");
    fs::copy(&executable, &copy)?;
    list(&copy)?;
    run(Command::new("x86_64-w64-mingw32-strip").arg(&copy))?;
    list(&copy)?;
    succeeds(kernels("check").arg(&copy))?;

    fs::write(&copy, without_an_initialiser(fs::read(&executable)?)?)?;
    let output = wine.run(&copy).output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    let is_noticed =
        message.contains("holds 7 kernels, but only 6 registered") && message.contains("\n  lost: `");
    if is_noticed { Ok(()) } else { Err(format!("a lost registration is not noticed: {message}").into()) }
}

/// Checks that the command reads programs and images on Windows, and refuses what is only for Linux.
fn check_command(wine: &Wine) -> Outcome {
    println!("== cargo-kernels.exe");
    run(cargo().args(["build", "--quiet", "--locked", "--target", TARGET, "--package", "cargo-kernels"]))?;
    let folder = target().join(TARGET).join("debug");
    let command = folder.join("cargo-kernels.exe");
    let program = folder.join("joined.exe");
    is_list(&succeeds(wine.run(&command).arg("list").arg(&program))?)?;
    for of_program in [["show", "--all"], ["check", "--json"]] {
        succeeds(wine.run(&command).args(of_program).arg(&program))?;
    }
    let declared = succeeds(wine.run(&command).args(["declare", IMAGE]))?;
    if !declared.contains("unsafe fn saxpy(") {
        return Err(format!("`cargo kernels declare` does not declare `saxpy`: {declared}").into());
    }
    for refused in ["sim", "audit"] {
        let output = wine.run(&command).args([refused, "--help"]).output()?;
        let message = String::from_utf8_lossy(&output.stderr);
        if output.status.success() || !message.contains("on Linux only") {
            return Err(
                format!("`cargo kernels {refused}` does not say that it is for Linux: {message}").into()
            );
        }
    }
    check_bake(wine, &command)?;
    check_new(wine, &command)?;
    check_doctor(wine, &command)
}

/// Checks `cargo kernels bake`: without a compiler it reports what is missing, and with one it writes machine
/// code.
fn check_bake(wine: &Wine, command: &Path) -> Outcome {
    let (folder, cubin) = (wine.folder.join("toolkit"), workspace().join(CUBIN));
    let ptxas = folder.join("bin/ptxas.exe");
    remove(&folder)?;
    fs::create_dir_all(folder.join("bin"))?;
    let source = folder.join("ptxas.c");
    fs::write(&source, PTXAS)?;
    run(Command::new(GCC).args(["-static-libgcc", "-o"]).arg(&ptxas).arg(&source))?;
    // A program with PTX, but without records.
    let program = folder.join("program.exe");
    let ptx = [&[0][..], &fs::read(workspace().join(PTX))?, &[0]].concat();
    fs::write(&program, [fs::read(&ptxas)?, ptx].concat())?;

    let bake = || {
        let mut bake = wine.run(command);
        bake.args(["bake", "--arch", "sm_90"]).arg(&program).env("CUBIN", &cubin).env("TERM", "dumb");
        bake
    };
    fails(&mut bake(), "there is neither `ptxas` nor nvJitLink")?;
    for compiled in [1, 0] {
        let printed = succeeds(bake().env("CUDA_HOME", &folder))?;
        let end = format!("1 piece of machine code, 26 KiB, {compiled} compiled now by ptxas 13.0.88\n");
        if !printed.ends_with(&end) {
            return Err(format!("`cargo kernels bake` does not say `{end}`: {printed}").into());
        }
    }
    Ok(())
}

/// Checks that a package made by `cargo kernels new` compiles, and reports that there is no driver.
fn check_new(wine: &Wine, command: &Path) -> Outcome {
    let folder = wine.folder.join("made");
    remove(&folder)?;
    fs::create_dir_all(&folder)?;
    let new = |name: &str, checkout: &Path| -> Outcome<String> {
        let mut new = wine.run(command);
        new.args(["new", "--vcs", "none", "--path"]).arg(checkout).arg(folder.join(name));
        succeeds(&mut new)?;
        Ok(fs::read_to_string(folder.join(name).join("Cargo.toml"))?)
    };
    // Wine maps this machine's root to drive Z.
    let checkout = format!("Z:{}", workspace().display());
    let manifest = new("absolute", Path::new(&checkout))?;
    let path = format!("path = \"{checkout}/kernel-registry\"");
    if !manifest.contains(&path) {
        return Err(format!("the manifest has not `{path}`: {manifest}").into());
    }
    new("made", Path::new("."))?;
    let mut build = cargo();
    build.args(["build", "--quiet", "--offline", "--target", TARGET, "--manifest-path"]);
    build.arg(folder.join("made/Cargo.toml")).env("CARGO_TARGET_DIR", std::path::absolute(target())?);
    run(build.env("KERNEL_REGISTRY_COMPILER", "prebuilt"))?;
    let made = target().join(TARGET).join("debug/made.exe");
    fails(&mut wine.run(&made), "install NVIDIA's driver")
}

/// Checks that `cargo kernels doctor` reports that there is no driver, and doesn't offer anything that is
/// only for Linux.
fn check_doctor(wine: &Wine, command: &Path) -> Outcome {
    let output = wine.run(command).arg("doctor").current_dir(workspace()).output()?;
    let printed = String::from_utf8(output.stdout)?;
    let is_refused = printed.contains("nvcuda.dll") && !printed.contains("cargo kernels sim");
    if is_refused && !output.status.success() {
        return Ok(());
    }
    Err(format!("`cargo kernels doctor` does not say that there is no driver: {printed}").into())
}

/// Runs a command that must fail with these words.
fn fails(command: &mut Command, words: &str) -> Outcome {
    let output = command.current_dir(workspace()).output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && message.contains(words) {
        return Ok(());
    }
    Err(format!("{command:?} does not fail with `{words}` ({}): {message}", output.status).into())
}

/// Returns this machine's `cargo kernels`.
fn kernels(command: &str) -> Command {
    let mut cargo = cargo();
    cargo.args(["run", "--quiet", "--locked", "--package", "cargo-kernels", "--", command]);
    cargo
}

fn list(executable: &Path) -> Outcome {
    is_list(&succeeds(kernels("list").arg(executable))?)
}

/// Checks that a list has kernel-registry and all kernels.
fn is_list(list: &str) -> Outcome {
    let has = |kernel: &&str| list.lines().any(|line| line.starts_with(&format!("{kernel} ")));
    let is_whole = list.contains("7 kernels, kernel-registry 0.1.0 (rustc ") && KERNELS.iter().all(has);
    if is_whole { Ok(()) } else { Err(format!("this is not the list of all kernels: {list}").into()) }
}

/// Replaces the last initialiser before `main` by a function that does nothing, as if the linker had dropped
/// it.
fn without_an_initialiser(mut bytes: Vec<u8>) -> Outcome<Vec<u8>> {
    let file = PeFile64::parse(&*bytes)?;
    let section = |name| file.section_by_name(name).ok_or(format!("the executable has no section `{name}`"));
    let (text, initialisers) = (section(".text")?, section(".CRT")?);
    // The processor's instruction `ret`.
    let ret = text.data()?.iter().position(|byte| *byte == 0xc3).ok_or("no function returns")?;
    let function = text.address() + ret as u64;
    let (offset, _) = initialisers.file_range().ok_or("the section `.CRT` is empty")?;
    // The list of C++ constructors comes first, between zeros.
    let is_entry = |entry: &[u8]| entry.iter().any(|byte| *byte != 0);
    let entries = initialisers.data()?.chunks_exact(8);
    let last = entries.skip(1).position(|entry| !is_entry(entry)).ok_or("the list has no end")?;
    let at = usize::try_from(offset)? + 8 * last;
    bytes[at..at + 8].copy_from_slice(&function.to_le_bytes());
    Ok(bytes)
}

/// Runs a command in the workspace that must succeed, and returns its output.
fn succeeds(command: &mut Command) -> Outcome<String> {
    let Output { status, stdout, stderr } = command.current_dir(workspace()).output()?;
    if status.success() {
        return Ok(String::from_utf8(stdout)?);
    }
    Err(format!("{command:?} failed ({status}): {}", String::from_utf8_lossy(&stderr)).into())
}

/// Wine with a separate prefix.
struct Wine {
    folder: PathBuf,
}

impl Wine {
    fn new() -> Outcome<Self> {
        let wine = Wine { folder: std::path::absolute(target())?.join("windows") };
        let system = wine.prefix().join("drive_c/windows/system32");
        let primitives = system.join("bcryptprimitives.dll");
        if primitives.exists() {
            return Ok(wine);
        }
        remove(&wine.folder)?;
        fs::create_dir_all(&system)?;
        // Wine's libraries need this one before wine has created its prefix.
        fs::copy("/usr/x86_64-w64-mingw32/lib/zlib1.dll", system.join("zlib1.dll"))?;
        succeeds(wine.for_command(Command::new("wine").args(["wineboot", "--init"])))?;
        if !primitives.exists() {
            let source = wine.folder.join("primitives.c");
            fs::write(&source, BCRYPT_PRIMITIVES)?;
            let mut gcc = Command::new(GCC);
            gcc.args(["-shared", "-static-libgcc", "-o"]).arg(&primitives).arg(&source).arg("-ladvapi32");
            run(&mut gcc)?;
        }
        Ok(wine)
    }

    fn prefix(&self) -> PathBuf {
        self.folder.join("wine")
    }

    /// Returns a command that runs an executable.
    fn run(&self, executable: &Path) -> Command {
        let mut command = Command::new("wine");
        self.for_command(command.arg(executable));
        command
    }

    /// Makes cargo run tests with wine, without a window or messages.
    fn for_command<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", "wine").env("WINEPREFIX", self.prefix());
        command.env("WINEDEBUG", "-all").env("WINEDLLOVERRIDES", "mscoree=;mshtml=").env_remove("DISPLAY")
    }

    /// Ends wine's server, which would otherwise keep running for a while.
    fn end(&self) {
        let _ = self.for_command(&mut Command::new("wineserver")).arg("--kill").status();
    }
}
