//! `cargo xtask bundle`: packs the programs and tests that need a GPU, for machines with a GPU but without
//! Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::driver_tests;
use crate::run::{Outcome, cargo, entries, remove, run, stem, target, workspace};
use crate::toolkit;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder to write, which is replaced if it exists [default: target/bundle]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The packages whose programs are packed, in running order.
const PACKAGES: [&str; 3] = ["examples", "tests", "benches"];

/// Programs that are left out: the first two build other programs, which needs Rust, and the others read files that were
/// made for one GPU, or that are in the repository.
const LEFT_OUT: [&str; 4] = ["compile", "warm", "baked", "read_ptx"];

/// A program that builds another program, which is packed in its place and takes the same options.
const GENERATOR: &str = "first_launches";

/// The options of the built program.
const GENERATED: &str = "--seed 1 --kernels 500";

/// A program with nvcc-linked kernels. It prints `LEFT OUT` if it was built without nvcc.
const NVCC_LINKED: &str = "linked";

/// The runs of a program: arguments and expected exit code.
type Runs = &'static [(&'static str, u8)];

/// Returns the runs of a program.
fn runs(program: &str) -> Runs {
    match program {
        // These programs deadlock cold and finish warm.
        "persistent" | "two_kernels" | "stream_fence" | "not_enough" | "sealed" | "two_grids"
        | "carve_out" | "freed_memory" | "library_call" | NVCC_LINKED => &[("--cold", 3), ("", 0)],
        "fits" => &[("--pairs 500 --seed 1", 0), ("--two --pairs 200 --seed 1", 0)],
        "census" => &[("--jobs 6", 0), ("--jobs 6 --warmed", 0), ("--jobs 6 --guarded", 0)],
        GENERATOR => &[(GENERATED, 0)],
        "audit" => &[("--command tool/kernel-audit", 0)],
        "stress" => &[("--seconds 20", 0)],
        _ => &[("", 0)],
    }
}

/// Programs that the script skips on the simulated driver, because they measure, take long there, or run
/// machine code.
const ONLY_ON_GPUS: [&str; 7] = ["audit", "launch", "census", "fits", "hardware", GENERATOR, NVCC_LINKED];

/// The archive of the programs. They're large, and compress well together.
const ARCHIVE: &str = "programs.tar.xz";

/// The most bytes of the archive, chosen low because GPU machines may have slow networks.
const MOST_BYTES: u64 = 60 << 20;

/// The seconds after which a program is killed and counts as failed.
const LONGEST: u32 = 900;

pub(crate) fn bundle(options: &Options) -> Outcome {
    let folder = options.out.clone().unwrap_or_else(|| target().join("bundle"));
    let folder = std::path::absolute(folder)?;
    let mut programs = programs()?;

    let mut build = cargo();
    build.args(["build", "--release", "--locked"]);
    PACKAGES.iter().for_each(|package| {
        build.args(["--package", package]);
    });
    programs.iter().for_each(|program| {
        build.args(["--bin", program]);
    });
    run(&mut build)?;
    let release = std::path::absolute(target())?.join("release");
    let linked = Command::new(release.join(NVCC_LINKED)).output()?;
    if String::from_utf8_lossy(&linked.stderr).starts_with("LEFT OUT") {
        println!("left out: {NVCC_LINKED}, because it was built without nvcc");
        programs.retain(|program| program != NVCC_LINKED);
    }
    let tests = driver_tests::build()?;
    let files = programs.iter().map(|name| (name.clone(), release.join(name))).chain(tests.clone());

    remove(&folder)?;
    let plain = folder.join("programs");
    fs::create_dir_all(&plain)?;
    let mut sizes = Vec::new();
    for (name, path) in files {
        let stripped = plain.join(&name);
        let path = if name == GENERATOR { generated(&path)? } else { path };
        run(Command::new("strip").arg("-s").arg("-o").arg(&stripped).arg(path))?;
        sizes.push((fs::metadata(&stripped)?.len(), name));
    }
    let archive = folder.join(ARCHIVE);
    let mut pack = Command::new("tar");
    // xz, because its window is large enough for the code that several programs share.
    pack.env("XZ_OPT", "-T0").arg("-C").arg(&plain).arg("-cJf").arg(&archive).arg(".");
    run(&mut pack)?;
    fs::remove_dir_all(&plain)?;
    frameworks(&folder)?;
    let script = folder.join("run.sh");
    let tests: Vec<String> = tests.into_iter().map(|(name, _)| name).collect();
    fs::write(&script, run_sh(&programs, &tests))?;
    run(Command::new("chmod").arg("+x").arg(&script))?;

    let packed = fs::metadata(&archive)?.len();
    if packed > MOST_BYTES {
        sizes.sort_by(|a, b| b.cmp(a));
        let sizes: String =
            sizes.iter().map(|(size, name)| format!("\n{:>7} KiB  {name}", size >> 10)).collect();
        return Err(format!("the bundle has {} MiB, and may have 60; unpacked: {sizes}", packed >> 20).into());
    }
    println!("{} programs, {} MiB: {}", sizes.len(), packed >> 20, script.display());
    Ok(())
}

/// The folder of framework programs, in the bundle and in the tests.
const FRAMEWORKS: &str = "frameworks";

/// The part of the script that runs the frameworks under `kernel-audit`, if they're installed.
const RUN_FRAMEWORKS: &str = "\
if python3 -c 'import torch, triton, cupy, jax' 2>/dev/null; then
    on_gpu expect 0 frameworks/run.py tool/kernel-audit
else
    echo 'left out: frameworks/run.py, because PyTorch, Triton, CuPy and JAX are not all there'
fi
";

/// Packs `kernel-audit` with its hooks, and the framework programs that run under it.
fn frameworks(folder: &Path) -> Outcome {
    let mut pack = cargo();
    pack.args(["run", "--release", "--locked", "--package", "kernel-audit", "--features", "command"]);
    run(pack.args(["--", "pack"]).arg(folder.join("tool")))?;
    let programs = folder.join(FRAMEWORKS);
    fs::create_dir_all(&programs)?;
    let files = entries(&workspace().join("tests").join(FRAMEWORKS))?;
    // Skips the cache folder that Python writes next to imported programs.
    for file in files.into_iter().filter(|file| file.is_file()) {
        fs::copy(&file, programs.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Makes the generator build its program, and returns the program's path.
fn generated(generator: &Path) -> Outcome<PathBuf> {
    let mut command = Command::new(generator);
    command.args(GENERATED.split(' ')).arg("--build");
    command.env("CUDA_HOME", toolkit::install()?.home).env("KERNEL_REGISTRY_COMPILER", "nvcc");
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", output.status).into());
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

/// Returns the names of the programs.
fn programs() -> Outcome<Vec<String>> {
    let mut programs = Vec::new();
    for package in PACKAGES {
        let names = entries(&workspace().join(package).join("src/bin"))?.into_iter().map(|path| stem(&path));
        programs.extend(names.filter(|name| !LEFT_OUT.contains(&name.as_str())));
    }
    Ok(programs)
}

/// Returns the script that runs `programs`, and each test of the test programs `tests` in a separate process.
fn run_sh(programs: &[String], tests: &[String]) -> String {
    let mut script = format!(
        r#"#!/usr/bin/env bash
# Runs every program of this folder, on a machine with a GPU. Prints a line for each, with its exit code. The output of the
# programs goes to files in `logs`, or in the folder given as argument. Fails if a program does not end as it should.
# With KERNEL_REGISTRY_SIM=1 those run that can run on the simulated driver.
cd "$(dirname "${{BASH_SOURCE[0]}}")" || exit 1
tar -xJf {ARCHIVE} 2>/dev/null || python3 -m tarfile -e {ARCHIVE} . || exit 1
logs="${{1:-logs}}"
mkdir -p "$logs" || exit 1
failed=0

# Runs a command unless the driver is the simulated one.
on_gpu() {{
    if [[ "${{KERNEL_REGISTRY_SIM-}}" == 1 ]]; then
        echo "left out: $*, because the driver is the simulated one"
    else
        "$@"
    fi
}}

# Runs a program. Arguments: the right exit code, the program and its arguments.
expect() {{
    local right="$1" log code begun
    shift
    log="$logs/$(printf '%s' "$*" | tr -c 'A-Za-z0-9_-' _).log"
    begun="$(date +%s)"
    timeout --kill-after=10 {LONGEST} "./$@" >"$log" 2>&1
    code=$?
    if ((code == right)); then
        printf 'ok    %-28s exit code %d, %d s\n' "$*" "$code" "$(($(date +%s) - begun))"
    else
        printf 'FAIL  %-28s exit code %d and not %d: see %s\n' "$*" "$code" "$right" "$log"
        failed=1
    fi
}}

"#
    );
    for name in programs {
        for (arguments, right) in runs(name) {
            let where_to_run = if ONLY_ON_GPUS.contains(&name.as_str()) { "on_gpu " } else { "" };
            script += format!("{where_to_run}expect {right} {name} {arguments}").trim_end();
            script.push('\n');
        }
    }
    script += driver_tests::EACH_TEST;
    for name in tests {
        script += &format!("on_gpu each_test {name}\n");
    }
    script + RUN_FRAMEWORKS + "exit $failed\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the script with the programs `persistent` and `other` and the test program `driver`, which have
    /// these texts. Returns whether it succeeded, and its output.
    fn ends(persistent: &str, other: &str, tests: &str) -> (bool, String) {
        ends_on("0", persistent, other, tests)
    }

    fn ends_on(simulator: &str, persistent: &str, other: &str, tests: &str) -> (bool, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            let done = Command::new("chmod").arg("+x").arg(&path).status().expect("chmod");
            assert!(done.success());
        };
        let programs = ["persistent".to_owned(), "other".to_owned()];
        write("run.sh", &run_sh(&programs, &["driver".to_owned()]));
        write("driver", tests);
        write("persistent", persistent);
        write("other", other);
        let mut tar = Command::new("tar");
        tar.current_dir(folder.path()).args(["-cJf", ARCHIVE, "--remove-files"]);
        tar.args(["persistent", "other", "driver"]);
        assert!(tar.status().expect("tar").success());
        let mut script = Command::new(folder.path().join("run.sh"));
        let output = script.env("KERNEL_REGISTRY_SIM", simulator).output().expect("bash");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    const DEADLOCKS_COLD: &str = "#!/bin/sh\n[ \"$1\" = --cold ] && exit 3\nexit 0\n";
    const DEADLOCKS: &str = "#!/bin/sh\nexit 3\n";
    const SUCCEEDS: &str = "#!/bin/sh\nexit 0\n";
    const TESTS: &str = "#!/bin/sh\n\
        case \"$KERNEL_REGISTRY_SIM $*\" in\n\
            '0 --list --format terse') printf 'one: test\\na::two: test\\n\\n2 tests, 0 benchmarks\\n' ;;\n\
            '0 --exact one' | '0 --exact a::two') ;;\n\
            *) exit 1 ;;\n\
        esac\n";

    #[test]
    fn a_program_that_deadlocks_cold_runs_twice() {
        let (success, lines) = ends(DEADLOCKS_COLD, SUCCEEDS, TESTS);
        assert!(success, "{lines}");
        assert_eq!(lines.matches("ok ").count(), 5, "{lines}");
    }

    #[test]
    fn the_simulator_runs_what_it_can() {
        let (success, lines) = ends_on("1", DEADLOCKS_COLD, SUCCEEDS, DEADLOCKS);
        assert!(success && lines.contains("left out: each_test driver"), "{lines}");
        assert_eq!(lines.matches("ok ").count(), 3, "{lines}");
        let script = run_sh(&["audit".to_owned()], &[]);
        assert!(script.contains("\non_gpu expect 0 audit --command tool/kernel-audit\n"), "{script}");
    }

    #[test]
    fn an_unexpected_exit_code_is_named() {
        let (success, lines) = ends(DEADLOCKS, SUCCEEDS, TESTS);
        assert!(!success && lines.contains("exit code 3 and not 0: see logs/persistent"), "{lines}");
        let (success, lines) = ends(SUCCEEDS, SUCCEEDS, TESTS);
        assert!(
            !success && lines.contains("exit code 0 and not 3: see logs/persistent_--cold.log"),
            "{lines}"
        );
        let (success, lines) = ends(DEADLOCKS_COLD, DEADLOCKS, TESTS);
        assert!(!success && lines.contains("FAIL  other"), "{lines}");
    }

    #[test]
    fn each_test_runs_alone_and_without_the_simulator() {
        let (success, lines) =
            ends(DEADLOCKS_COLD, SUCCEEDS, &TESTS.replace("0 --exact one", "1 --exact one"));
        assert!(!success && lines.contains("FAIL  driver --exact one"), "{lines}");
        let (success, lines) = ends(DEADLOCKS_COLD, SUCCEEDS, SUCCEEDS);
        assert!(!success && lines.contains("FAIL  driver"), "{lines}");
    }
}
