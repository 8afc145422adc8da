//! Tests that machine code is loaded in place of the PTX from which it was compiled. The simulator's linker makes text of text, so these tests change that
//! text to see which of both was loaded.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use kernel_audit::preload::{Preload, baked_file};
use kernel_registry_command::bake::{Entry, read, write};
use kernel_registry_cuda::fatbin;
use serde_json::Value;
use tests::scratch_folder;

use super::preload::options;
use super::{audit, events, python, simulated, text};

/// Loads the same PTX as a module, as a module with options, and as a library, and prints what its kernel stores.
const PROGRAM: &str = r"
host = ctypes.c_void_p()
assert cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(4), 2) == 0
CODE = b'.version 8.0\n.target sm_75\n.address_size 64\n.visible .entry store(.param .u64 out) { .reg .b64 %a; ld.param.u64 %a, [out]; st.global.u32 [%a], 1; ret; }\n'
def stored(function):
    args = (ctypes.c_void_p * 1)(ctypes.addressof(host))
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, args, None) == 0
    assert cuda.cuCtxSynchronize() == 0
    return ctypes.c_uint32.from_address(host.value).value
def module(*options):
    numbers = (ctypes.c_uint * len(options))(*(option for option, _ in options))
    values = (ctypes.c_void_p * len(options))(*(value for _, value in options))
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadDataEx(ctypes.byref(module), CODE, len(options), numbers, values) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'store') == 0
    return stored(function)
def as_library():
    library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuLibraryLoadData(ctypes.byref(library), CODE, None, None, 0, None, None, 0) == 0
    assert cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, b'store') == 0
    return stored(kernel)
log = ctypes.create_string_buffer(100)
LOG, LOG_SIZE, REGISTERS, DEBUG = 3, 4, 0, 11
print(module(), module((LOG, ctypes.addressof(log)), (LOG_SIZE, 100)), module((REGISTERS, 64)), module((DEBUG, 1)), as_library())
";

/// Records the program, and returns the file.
fn record() -> std::path::PathBuf {
    let file = scratch_folder().join("ptx.preload");
    let (output, report) = run("--record", &file);
    assert_eq!(text(&output.stdout), "1 1 1 1 1", "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("has machine code of 3 PTX images for sm_"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(loaded(&report), ["PTX"; 5]);
    file
}

fn run(option: &str, file: &Path) -> (std::process::Output, Value) {
    let program = python(PROGRAM);
    let options = options(option, file);
    audit(&options, &["python3", "-c", &program])
}

/// What was loaded: PTX, or machine code in its place.
fn loaded(report: &Value) -> Vec<&str> {
    let loaded = events(report, "image").into_iter().filter(|event| event["subject"]["bytes"] == 153);
    loaded.map(|event| event["subject"]["format"].as_str().unwrap()).collect()
}

/// Changes the machine code beside a preload: it stores 7.
fn change(file: &Path, other: impl Fn(&mut Entry)) {
    let file = baked_file(file);
    let mut entries = read(&file).unwrap();
    for entry in &mut entries {
        let code = String::from_utf8(entry.code.clone()).unwrap();
        entry.code = code.replace(", 1;", ", 7;").into_bytes();
        other(entry);
    }
    write(&file, &entries).unwrap();
}

#[test]
fn machine_code_is_loaded_in_place_of_ptx() {
    needs_python!();
    let file = record();
    let preload = Preload::read(&file).unwrap();
    let mut with: Vec<_> = preload.ptx.iter().map(|ptx| &*ptx.options).collect();
    with.dedup();
    assert_eq!(with, ["", "maxrregcount=64"], "{preload}");
    change(&file, |_| {});
    let (output, report) = run("--preload", &file);
    // Code for a debugger is not kept.
    assert_eq!(text(&output.stdout), "7 7 7 1 7", "{}", text(&output.stderr));
    assert!(loaded(&report).contains(&"machine code for PTX"), "{:?}", loaded(&report));

    // A further recording keeps what is there.
    let both = file.to_str().unwrap();
    let program = python(PROGRAM);
    audit(&["--preload", both, "--record", both], &["python3", "-c", &program]);
    assert_eq!(Preload::read(&file).unwrap().ptx, preload.ptx);
    assert_eq!(text(&run("--preload", &file).0.stdout), "7 7 7 1 7");
}

/// Loads the fatbin in a file as a module and as a library, which runs on all devices, and prints what their kernels store.
const OF_FATBIN: &str = r"
import os
host = ctypes.c_void_p()
assert cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(4), 2) == 0
CODE = open(os.environ['FATBIN'], 'rb').read()
def stored(function):
    args = (ctypes.c_void_p * 1)(ctypes.addressof(host))
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, args, None) == 0
    assert cuda.cuCtxSynchronize() == 0
    return ctypes.c_uint32.from_address(host.value).value
module, function, library, kernel = (ctypes.c_void_p() for _ in range(4))
assert cuda.cuModuleLoadData(ctypes.byref(module), CODE) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'store') == 0
assert cuda.cuLibraryLoadData(ctypes.byref(library), CODE, None, None, 0, None, None, 0) == 0
assert cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, b'store') == 0
print(stored(function), stored(kernel))
";

#[test]
fn machine_code_is_loaded_in_place_of_a_fatbin_of_ptx() {
    needs_python!();
    let ptx = |target: &str, stored: u32| {
        format!(
            ".version 8.0\n.target {target}\n.address_size 64\n.visible .entry store(.param .u64 out) {{ .reg .b64 %a; ld.param.u64 %a, [out]; \
             st.global.u32 [%a], {stored}; ret; }}\n"
        )
    };
    let (older, newer, other) = (ptx("sm_75", 2), ptx("sm_80", 1), ptx("sm_120", 3));
    let newest: &str = ptx("sm_89", 2).leak();
    let part = |sm, text: &'static str| fatbin::Part {
        kind: fatbin::Kind::Ptx,
        sm,
        flags: 0,
        bytes: text.as_bytes(),
    };
    let [older, newer, other] = [older, newer, other].map(|text| &*text.leak());
    let fatbin = fatbin::write(&[part(75, older), part(120, other), part(80, newer)]);
    let path = tests::file("ptx.fatbin", &fatbin);
    let file = scratch_folder().join("fatbin.preload");
    let program = format!("import os; os.environ['FATBIN'] = {:?}\n{OF_FATBIN}", path.to_str().unwrap());
    let program = python(&program);
    let run = |option| audit(&options(option, &file), &["python3", "-c", &program]);
    let formats = |report: &Value| {
        let loaded = events(report, "image").into_iter();
        loaded.map(|event| event["subject"]["format"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (output, report) = run("--record");
    assert_eq!(text(&output.stdout), "1 1", "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("has machine code of 2 PTX images for sm_90"),
        "{}",
        text(&output.stderr)
    );
    // The first is that of the program in front.
    assert_eq!(formats(&report), ["PTX", "fatbin of PTX", "fatbin of PTX"]);
    change(&file, |_| {});
    let (output, report) = run("--preload");
    assert_eq!(text(&output.stdout), "7 7", "{}", text(&output.stderr));
    assert!(!formats(&report).contains(&"fatbin of PTX".to_owned()), "{:?}", formats(&report));
    // Which of the texts is compiled depends on the device.
    let run_on = |devices: &str, option| {
        let mut command = simulated();
        command.env("KERNEL_REGISTRY_SIM_DEVICES", devices).args(options(option, &file));
        let output = command.args(["--", "python3", "-c", &program]).output().unwrap();
        text(&output.stdout).to_owned()
    };
    assert_eq!(
        (run_on("l4", "--preload"), run_on("l4,a100", "--preload")),
        ("1 1".to_owned(), "1 1".to_owned())
    );
    fs::write(&path, fatbin::write(&[part(80, newer), part(89, newest)])).unwrap();
    assert_eq!(run_on("a100", "--record"), "1 1");
    change(&file, |_| {});
    assert_eq!(
        (run_on("a100", "--preload"), run_on("l4", "--preload")),
        ("7 7".to_owned(), "2 2".to_owned())
    );
    // Another text isn't the one that was recorded.
    fs::write(&path, fatbin::write(&[part(80, format!("{newer}\n//").leak())])).unwrap();
    let (output, _) = run("--preload");
    assert_eq!(text(&output.stdout), "1 1", "{}", text(&output.stderr));
}

#[test]
fn machine_code_that_cannot_be_trusted_or_used_changes_nothing() {
    needs_python!();
    let file = record();
    change(&file, |_| {});
    let baked = baked_file(&file);
    let unchanged = |words: &str| {
        let (output, _) = run("--preload", &file);
        assert_eq!(text(&output.stdout), "1 1 1 1 1", "{words}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(words), "{words}: {}", text(&output.stderr));
    };
    fs::set_permissions(&baked, Permissions::from_mode(0o666)).unwrap();
    unchanged("others may write it");
    fs::set_permissions(&baked, Permissions::from_mode(0o644)).unwrap();
    let whole = fs::read(&baked).unwrap();
    for at in [0, 20, 60, whole.len() - 5] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&baked, &damaged).unwrap();
        // Of an image whose code is damaged, only that one is compiled.
        let (output, _) = run("--preload", &file);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(
            text(&output.stderr).contains("the driver compiles PTX although"),
            "{at}: {}",
            text(&output.stderr)
        );
        assert_ne!(text(&output.stdout), "7 7 7 1 7");
    }
    fs::write(&baked, &whole).unwrap();
    change(&file, |entry| entry.code = b"no code".to_vec());
    unchanged("the driver refuses machine code in it");
    change(&file, |entry| entry.arch = "sm_50".to_owned());
    unchanged("it has no machine code for this GPU");
    fs::remove_file(&baked).unwrap();
    let made = Command::new("mkfifo").arg(&baked).status();
    assert!(made.unwrap().success());
    unchanged("it isn't a plain file");
    fs::remove_file(&baked).unwrap();
    let (output, _) = run("--preload", &file);
    assert_eq!(text(&output.stdout), "1 1 1 1 1", "{}", text(&output.stderr));
}

/// One of three images gets no machine code: the driver's linker refuses it.
#[test]
fn only_images_that_were_compiled_are_counted() {
    needs_python!();
    let file = scratch_folder().join("ptx.preload");
    let mut command = simulated();
    command
        .env("KERNEL_REGISTRY_SIM_FAULTS", "cuLinkComplete:1=CUDA_ERROR_INVALID_PTX")
        .arg("--record")
        .arg(&file);
    let output = command.args(["--", "python3", "-c", &python(PROGRAM)]).output().unwrap();
    let said = text(&output.stderr);
    assert!(
        said.contains("gets no machine code") && said.contains("has machine code of 2 PTX images"),
        "{said}"
    );
}

#[test]
fn no_machine_code_is_written_where_the_next_run_would_not_trust_it() {
    needs_python!();
    let file = scratch_folder().join("ptx.preload");
    fs::set_permissions(file.parent().unwrap(), Permissions::from_mode(0o777)).unwrap();
    let (output, _) = run("--record", &file);
    let said = text(&output.stderr);
    assert!(said.contains("without results of NVRTC and machine code"), "{said}");
    assert!(!said.contains("has machine code of") && !baked_file(&file).exists(), "{said}");
    assert!(!Preload::read(&file).unwrap().ptx.is_empty());
    let mut command = tests::cargo_kernels_command();
    let output = command.args(["audit", "bake", "--arch", "sm_90"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("others may write it"), "{}", text(&output.stderr));
}

#[test]
fn baking_for_other_gpus_says_what_it_needs() {
    needs_python!();
    let file = record();
    let bake = |options: &[&str]| {
        let mut command = tests::cargo_kernels_command();
        command.args(["audit", "bake"]).args(options);
        command
            .env("PATH", "/nonexistent")
            .env_remove("CUDA_HOME")
            .env_remove("CUDA_PATH")
            .env_remove("VIRTUAL_ENV");
        command.output().unwrap()
    };
    let output = bake(&[file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("--arch"), "{}", text(&output.stderr));
    let empty = tests::file("empty.preload", b"kernel-registry preload 1\nstack 1024\n");
    let output = bake(&[empty.to_str().unwrap(), "--arch", "sm_90"]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let output = bake(&[file.to_str().unwrap(), "--arch", "sm_90"]);
    if output.status.code() != Some(9) {
        // A toolkit of the machine, in its standard folder, has compiled it.
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(read(&baked_file(&file)).unwrap().iter().any(|entry| entry.arch == "sm_90"));
        return;
    }
    assert!(text(&output.stderr).contains("neither `ptxas` nor nvJitLink"), "{}", text(&output.stderr));
}
