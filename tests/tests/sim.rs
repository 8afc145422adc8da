//! Tests `cargo kernels sim`, which runs unmodified programs on the simulated driver.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use object::{Object, ObjectSymbol};
use tests::guide::page;
use tests::{Build, cargo_kernels_command, left_out, scratch_folder};

/// Runs a program by `cargo kernels sim` with these options.
fn sim(options: &[&str], program: &[&str]) -> Output {
    command(options, program).output().expect("the tool runs")
}

fn command(options: &[&str], program: &[&str]) -> Command {
    let mut command = cargo_kernels_command();
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CUDA") || name.starts_with("KERNEL_REGISTRY_SIM") {
            command.env_remove(&*name);
        }
    }
    // The build works offline, because the workspace has downloaded all dependencies.
    command.args(["sim", "--offline"]).args(options).arg("--").args(program);
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8").trim_end()
}

/// Runs a program that must succeed, and returns its output.
fn printed(options: &[&str], program: &[&str]) -> String {
    let output = sim(options, program);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout).to_owned()
}

/// Returns the folder where the loader finds the driver.
fn folder(options: &[&str]) -> PathBuf {
    let path = printed(options, &["sh", "-c", "echo $LD_LIBRARY_PATH"]);
    path.split(':').next().expect("there is a first one").into()
}

/// Returns the driver functions that a file contains or, with `exported`, exports.
fn functions(file: &Path, exported: bool) -> BTreeSet<String> {
    let bytes = fs::read(file).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let symbols: Vec<_> =
        if exported { object.dynamic_symbols().collect() } else { object.symbols().collect() };
    assert!(!symbols.is_empty());
    let defined = symbols.iter().filter(|symbol| symbol.is_definition() && symbol.is_global());
    let names = defined.map(|symbol| symbol.name().unwrap().to_owned());
    names.filter(|name| exported || name.starts_with("cu")).collect()
}

#[test]
fn a_program_of_cudarc_alone_computes() {
    let program = Build::default().executable("cudarc-only");
    let printed = printed(&["--devices", "2"], &[program.to_str().unwrap()]);
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.len(), 2, "{printed}");
    assert!(lines.iter().all(|line| line.ends_with(": [2, 4, 6, 8]")), "{printed}");
}

#[test]
fn the_checks_for_gpus_pass_on_the_simulated_driver() {
    let printed = printed(&[], &[env!("CARGO_BIN_EXE_hardware")]);
    assert!(printed.ends_with(" checks, 0 failed"), "{printed}");
}

#[test]
fn python_finds_the_driver() {
    if Command::new("python3").arg("--version").output().is_err() {
        return left_out("python3 is not installed", "REQUIRE_PYTHON");
    }
    const PROGRAM: &str = "\
import ctypes
cuda = ctypes.CDLL('libcuda.so.1')
version = ctypes.c_int()
name = ctypes.create_string_buffer(256)
print(cuda.cuInit(0), cuda.cuDriverGetVersion(ctypes.byref(version)), cuda.cuDeviceGetName(name, 256, 0))
print(version.value, hasattr(cuda, 'cuLibraryLoadData'), hasattr(cuda, 'cuFuncIsLoaded'))
print(name.value.decode())
";
    let printed = printed(&["--driver", "12.3"], &["python3", "-c", PROGRAM]);
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines[..2], ["0 0 0", "12030 True False"], "{printed}");
    assert!(!lines[2].is_empty());
}

#[test]
fn one_line_says_what_is_simulated() {
    // The line is printed once for several processes.
    let output = sim(&["--driver", "12.4", "--devices", "2"], &["sh", "-c", "sh -c true; sh -c true"]);
    let said = text(&output.stderr);
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("SIMULATED: ")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].contains("CUDA 12.4") && lines[0].contains("2 x "), "{said}");
    assert!(page("docs/guide/ci.md").contains(&format!("\n{}\n", lines[0])), "{said}");

    let output = sim(&["--devices", "0"], &["true"]);
    assert!(text(&output.stderr).ends_with("no device"), "{}", text(&output.stderr));
}

#[test]
fn exit_codes_and_signals_are_those_of_the_program() {
    assert_eq!(sim(&[], &["sh", "-c", "exit 42"]).status.code(), Some(42));
    const TERMINATED: i32 = 15;
    assert_eq!(sim(&[], &["sh", "-c", "kill -TERM $$"]).status.signal(), Some(TERMINATED));
    let output = sim(&[], &["no-such-program"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("error: `no-such-program` cannot be run: "));
    assert_eq!(sim(&[], &[env!("CARGO_MANIFEST_DIR")]).status.code(), Some(126));
}

/// Building the driver takes half a minute. Here it can't be built.
#[test]
fn a_program_that_is_missing_is_found_before_the_driver_is_built() {
    let mut command = command(&[], &["no-such-program"]);
    let output = command.env("CARGO", "/no/such/cargo").output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).starts_with("error: `no-such-program` cannot be run: "),
        "{}",
        text(&output.stderr)
    );
}

/// Outside of packages the command builds in the cache directory. Here that is the target directory, to avoid another build.
#[test]
fn without_a_package_the_driver_is_built_in_the_cache() {
    let packages = folder(&[]).ancestors().nth(3).expect("it is in the target directory").to_owned();
    let mut command = command(&[], &["sh", "-c", "echo $LD_LIBRARY_PATH"]);
    let output = command.current_dir("/").env("XDG_CACHE_HOME", &packages).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let library = text(&output.stdout).split(':').next().unwrap();
    assert!(Path::new(library).starts_with(packages), "{library}");
}

#[test]
fn a_build_that_fails_says_what_it_needs() {
    let mut command = command(&[], &["echo", "it ran"]);
    let output = command.env("CARGO", "false").env("XDG_CACHE_HOME", scratch_folder()).output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    assert!(text(&output.stderr).contains("error: kernel-registry-sim did not build"));
    assert_eq!(text(&output.stdout), "");
}

/// The loader would take this path for two folders, and find NVIDIA's driver or none.
#[test]
fn a_folder_that_the_library_path_cannot_hold_is_refused() {
    for separator in [':', ';'] {
        let target = scratch_folder().join(format!("of{separator}two"));
        let mut command = command(&[], &["echo", "it ran"]);
        // Without the check, the build would fail with another message.
        let output = command.env("CARGO_TARGET_DIR", &target).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.starts_with("error: the simulated driver cannot be in `")
                && said.contains(&format!("`{separator}` ends")),
            "{said}"
        );
        assert!(said.ends_with("set `CARGO_TARGET_DIR` to a folder without it"), "{said}");
        assert_eq!(text(&output.stdout), "");
        assert!(!target.exists());
    }
}

#[test]
fn options_are_not_guessed() {
    for options in [&["--device", "2"][..], &["--driver", "12"], &["--deadlock", "no"], &["--set", "ARCH"]] {
        let output = sim(options, &["echo", "it ran"]);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert_eq!(text(&output.stdout), "", "{options:?}");
    }
    assert_eq!(sim(&[], &[]).status.code(), Some(2));
}

#[test]
fn options_are_variables_of_the_program_and_win() {
    const PROGRAM: &str = "echo $KERNEL_REGISTRY_SIM_DEVICES $KERNEL_REGISTRY_SIM_ARCH $KERNEL_REGISTRY_SIM_DEADLOCK $KERNEL_REGISTRY_SIM_FAULTS";
    let options = ["--devices", "2", "--set", "ARCH=80", "--deadlock", "abort", "--set", "FAULTS=cuInit"];
    assert_eq!(printed(&options, &["sh", "-c", PROGRAM]), "2 80 abort cuInit");
    let mut command = command(&["--devices", "3"], &["sh", "-c", PROGRAM]);
    let output = command.env("KERNEL_REGISTRY_SIM_DEVICES", "4").output().unwrap();
    assert_eq!(text(&output.stdout), "3");
}

/// The program's own library path is searched after the driver's folder.
#[test]
fn the_programs_library_path_is_kept() {
    let mut command = command(&[], &["sh", "-c", "echo $LD_LIBRARY_PATH"]);
    let output = command.env("LD_LIBRARY_PATH", "/one:/two").output().unwrap();
    assert!(text(&output.stdout).ends_with(":/one:/two"), "{}", text(&output.stdout));
}

#[test]
fn a_driver_has_the_functions_of_its_version_and_no_other_symbol() {
    for (options, version) in
        [(&[][..], (13, 0)), (&["--driver", "12.4"], (12, 4)), (&["--driver", "11.8"], (11, 8))]
    {
        let there = kernel_registry_sim::functions().filter(|&(_, since)| since <= version);
        let mut expected: BTreeSet<_> = there.map(|(name, _)| name.to_owned()).collect();
        expected.insert("kernelRegistrySimulatedDriver".to_owned());
        let library = folder(options).join("libcuda.so.1");
        assert_eq!(functions(&library, true), expected, "{version:?}");
        assert_eq!(fs::canonicalize(library.with_extension("")).unwrap(), library);
    }
}

/// Only the library exports the driver's functions: otherwise programs that depend on `kernel-registry-sim` might
/// link to them.
#[test]
fn other_programs_do_not_get_the_symbols() {
    let file = Path::new(env!("CARGO_BIN_EXE_installs"));
    assert_eq!(functions(file, false), BTreeSet::new());
}

#[test]
fn a_process_has_one_driver() {
    let program = env!("CARGO_BIN_EXE_installs");
    // A driver that the process installs before it opens the library replaces the library.
    let early = printed(&["--devices", "2"], &[program]);
    assert!(early.starts_with("3 /memfd:libcuda.so") && !early.contains("for-"), "{early}");
    // A library that is already open is kept, with its own devices.
    let late = printed(&["--devices", "2"], &[program, "late"]);
    assert!(late.starts_with("2 /") && late.ends_with("/libcuda.so.1") && !late.contains("memfd"), "{late}");
}

/// The file name does not matter: the library's own name is `libcuda.so.1`.
#[test]
fn a_real_driver_that_is_open_cannot_be_replaced() {
    let library = scratch_folder().join("libcuda.so.580.95.05");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor/driver.rs");
    let mut rustc = tests::rustc();
    rustc.args([
        "--edition=2024",
        "--crate-type=cdylib",
        "--crate-name=cuda",
        "-Clink-arg=-Wl,-soname,libcuda.so.1",
    ]);
    assert!(rustc.arg("-o").arg(&library).arg(source).status().expect("rustc is there").success());
    let output = Command::new(env!("CARGO_BIN_EXE_installs")).env("LD_PRELOAD", &library).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    // `main` prints an error this way.
    assert_eq!(text(&output.stderr), format!("Error: {}", kernel_registry_sim::InstallError::AlreadyOpen));
}

#[test]
fn the_doctor_says_that_it_is_simulated() {
    let program = cargo_kernels_command();
    let output = sim(&[], &[program.get_program().to_str().unwrap(), "doctor", "--json"]);
    let facts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(facts["driver"]["simulated"], true);
}

/// Returns the words that run a kernel of the corpus of races.
fn of_corpus(kernel: &str) -> [String; 3] {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("races/kernels.py");
    ["python3".to_owned(), script.to_str().unwrap().to_owned(), kernel.to_owned()]
}

#[test]
fn a_signal_ends_the_command_and_the_program() {
    let folder = scratch_folder();
    let script = format!("echo $$ > {0}/pid; exec sleep 60", folder.display());
    let mut running = command(&["--races"], &["sh", "-c", &script]).spawn().unwrap();
    let pid = || fs::read_to_string(folder.join("pid")).ok()?.trim().parse::<i32>().ok();
    let program = loop {
        match pid() {
            Some(pid) => break pid,
            None => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    };
    Command::new("kill").arg(running.id().to_string()).status().unwrap();
    assert!(!running.wait().unwrap().success());
    let is_there =
        || fs::read_to_string(format!("/proc/{program}/stat")).is_ok_and(|stat| !stat.contains(") Z"));
    for _ in 0..500 {
        if !is_there() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the program {program} goes on");
}

#[test]
fn races_are_found_from_outside() {
    let run = |options: &[&str], kernel: &str| {
        let words = of_corpus(kernel);
        let output = sim(options, &words.each_ref().map(String::as_str));
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let (code, said) = run(&["--races"], "wrong_no_barrier");
    assert_eq!(code, Some(16), "{said}");
    assert!(
        said.contains("race on shared memory at ") && said.contains("`wrong_no_barrier`, block (0, 0, 0)"),
        "{said}"
    );
    assert!(said.contains("Remedy: call `__syncthreads()` between both"), "{said}");
    let (code, said) = run(&["--races"], "right_barrier");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with("no race was found, in one order: `--explore 1000` tries others"), "{said}");

    // A program that uses no driver passes for no other reason.
    let output = sim(&["--races"], &["true"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("nothing was watched"), "{}", text(&output.stderr));
}

#[test]
fn orders_are_explored_from_outside() {
    let folder = scratch_folder();
    let run = |variables: &[(&str, &str)], options: &[&str], kernel: &str| {
        let words = of_corpus(kernel);
        let mut command = command(options, &words.each_ref().map(String::as_str));
        let output = command.current_dir(&folder).envs(variables.iter().copied()).output().unwrap();
        (output.status.code(), text(&output.stderr).to_owned())
    };
    // In the usual order a flag orders the accesses by chance.
    assert_eq!(run(&[], &["--races"], "wrong_ring").0, Some(0));
    let (code, said) = run(&[], &["--explore", "100"], "wrong_ring");
    assert_eq!(code, Some(17), "{said}");
    let choice =
        "kernel `wrong_ring`, block 1, warp 0 goes before step 2 of kernel `wrong_ring`, block 0, warp 0";
    assert!(said.contains("RACE: race on global memory") && said.contains(choice), "{said}");
    let picture = fs::read_to_string(folder.join("python3.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("wrong_ring"), "{picture}");

    // The file repeats the order, and says so when the program isn't the same.
    let again = [("KERNEL_REGISTRY_SCHEDULE", "python3.schedule")];
    for _ in 0..3 {
        let (code, said) = run(&again, &["--explore", "1"], "wrong_ring");
        assert_eq!(code, Some(17), "{said}");
        assert!(
            said.contains("RACE: ") && said.contains("It fails in the order of `python3.schedule`"),
            "{said}"
        );
    }
    let (code, said) = run(&again, &["--explore", "1"], "right_barrier");
    assert_eq!(code, Some(17), "{said}");
    assert!(said.contains("the schedule doesn't fit: the program has changed"), "{said}");

    let (code, said) = run(&[], &["--explore", "100"], "right_barrier");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("it succeeded in all ") && said.ends_with(" schedules there are"), "{said}");
    let output = sim(&["--explore", "10"], &["true"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let output = sim(&["--explore", "10"], &["sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}
