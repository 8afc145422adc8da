//! Tests that the audit records what one run loads late, and preloads it in the next run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use kernel_audit::preload::images;
use serde_json::Value;
use tests::{cargo_kernels_command, scratch_folder};

use super::{audit, events, python, text};

/// A program that says that it is ready, launches `late` and `later` from a library, and then loads a module with a function `late`.
pub(super) const LATE: &str = r#"
cuda.kernel_registry_audit_ready()
assert launch(library, b'late') == 0
assert launch(library, b'later') == 0
module, function = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'late') == 0
print('done')
"#;

/// The beginning of programs with a kernel that spins until `flag` is set. `spin()` launches this kernel in a stream of its own.
pub(super) const SPINNING: &str = r"
SPIN = b'''.version 8.0
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 flag) { .reg .b64 %a; .reg .b32 %r; .reg .pred %p; ld.param.u64 %a, [flag];
again: ld.volatile.global.u32 %r, [%a]; setp.eq.u32 %p, %r, 0; @%p bra again; ret; }
'''
spinning, host, stream, kernel = (ctypes.c_void_p() for _ in range(4))
assert cuda.cuLibraryLoadData(ctypes.byref(spinning), SPIN, None, None, 0, None, None, 0) == 0
assert cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(4), 2) == 0
flag = ctypes.c_uint32.from_address(host.value)
flag.value = 0
assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
assert cuda.cuLibraryGetKernel(ctypes.byref(kernel), spinning, b'spin') == 0
def spin():
    args = (ctypes.c_void_p * 1)(ctypes.addressof(host))
    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, None) == 0
";

pub(super) fn options<'a>(option: &'a str, file: &'a Path) -> [&'a str; 2] {
    [option, file.to_str().unwrap()]
}

pub(super) fn preloaded(report: &Value) -> Vec<&Value> {
    report["processes"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|process| process["preloaded"].as_array().unwrap())
        .collect()
}

pub(super) fn findings((output, report): &(Output, Value)) -> u64 {
    assert_eq!(text(&output.stdout), "done", "{}", text(&output.stderr));
    report["findings"].as_u64().unwrap()
}

/// A Python program, and the file in which one run records the preload of the next run.
struct Program {
    file: PathBuf,
    text: String,
}

impl Program {
    fn new(text: &str) -> Self {
        Program { file: scratch_folder().join("late.preload"), text: python(text) }
    }

    fn run(&self, options: &[&str]) -> (Output, Value) {
        audit(options, &["python3", "-c", &self.text])
    }

    fn record(&self) -> (Output, Value) {
        self.run(&options("--record", &self.file))
    }

    fn preload(&self) -> (Output, Value) {
        self.run(&options("--preload", &self.file))
    }

    fn recorded(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }
}

#[test]
fn late_loads_are_preloaded_in_the_next_run() {
    needs_python!();
    let mut program = Program::new(LATE);
    let first = program.record();
    assert_eq!(findings(&first), 4, "{}", text(&first.0.stderr));
    let recorded = program.recorded();
    assert_eq!(recorded.matches("\n    late\n").count(), 2, "{recorded}");
    assert!(recorded.contains("\n    later\n") && recorded.contains("\nmodule "), "{recorded}");

    assert!(text(&first.0.stderr).contains("late.preload` has 3 kernels of 2 images for `--preload`"));

    let page = scratch_folder().join("page.html");
    let second = program.run(&[options("--preload", &program.file), options("--html", &page)].concat());
    assert_eq!(findings(&second), 0, "{}", text(&second.0.stderr));
    assert_eq!(second.0.status.code(), Some(0));
    assert!(fs::read_to_string(&page).unwrap().contains("<h2>Preloaded</h2>"));
    let loads = preloaded(&second.1);
    assert!(loads.iter().all(|event| event["result"] == 0), "{loads:#?}");
    assert!(
        ["late", "later"].iter().all(|name| loads.iter().any(|event| event["subject"]["symbol"] == *name))
            && loads.iter().any(|event| event["subject"]["type"] == "image")
    );
    let loaded = events(&second.1, "image");
    assert!(loaded.is_empty(), "the program got the preloaded images: {loaded:#?}");

    // The file and its copies of images are moved to another folder.
    let moved = scratch_folder().join("moved.preload");
    fs::rename(&program.file, &moved).unwrap();
    fs::rename(images(&program.file), images(&moved)).unwrap();
    program.file = moved;
    assert_eq!(findings(&program.preload()), 0);

    // A run without late loads records again what `--preload` names.
    let again = scratch_folder().join("again.preload");
    let both = [options("--preload", &program.file), options("--record", &again)].concat();
    assert_eq!(findings(&program.run(&both)), 0);
    // The new file does not need the image copies that belong to the old file.
    fs::remove_dir_all(images(&program.file)).unwrap();
    program.file = again;
    assert_eq!(findings(&program.preload()), 0);
    let words = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split(" /").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(words(&program.recorded()), words(&recorded));
}

#[test]
fn all_loads_of_a_program_that_is_never_ready_are_recorded() {
    needs_python!();
    let program = Program::new(&LATE.replace("cuda.kernel_registry_audit_ready()", ""));
    assert_eq!(findings(&program.record()), 0);
    let recorded = program.recorded();
    assert!(recorded.contains("never said to be ready, so all that it loaded"), "{recorded}");
    let second = program.preload();
    assert_eq!(findings(&second), 0);
    let late = second.1["processes"][0]["events"].as_array().unwrap();
    let loads = late.iter().filter(|event| event["kind"] == "load" || event["kind"] == "image");
    assert_eq!(loads.count(), 0, "{late:#?}{recorded}");
}

/// A program that compiles at run time can make images that differ in one constant only.
#[test]
fn images_that_differ_in_one_byte_are_both_preloaded() {
    needs_python!();
    let folder = scratch_folder();
    let program = Program::new(
        r#"
cuda.kernel_registry_audit_ready()
for value in [b'7', b'8']:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    code = PTX + b'.visible .entry one() { ret; }\n' * 0 + b'// ' + b'-' * 20000 + value + b'-' * 20000
    assert cuda.cuModuleLoadData(ctypes.byref(module), code) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'late') == 0
print('done')
"#,
    );
    // A preload can also be made from kept records.
    assert_eq!(findings(&program.run(&options("--records", &folder))), 4);
    let merge = options("--record", &program.file);
    let merged = cargo_kernels_command()
        .args(["audit", "merge", "--fail-on-findings"])
        .arg(&folder)
        .args(merge)
        .output()
        .unwrap();
    assert_eq!(merged.status.code(), Some(12), "{}", text(&merged.stderr));
    fs::remove_dir_all(&folder).unwrap();
    let recorded = program.recorded();
    assert_eq!(recorded.matches("\nmodule ").count(), 2, "{recorded}");
    assert_eq!(findings(&program.preload()), 0, "{recorded}");
}

/// The hash of a long image covers only parts of the image, so different images can have the same hash.
#[test]
fn images_of_one_hash_are_both_preloaded() {
    needs_python!();
    let program = Program::new(
        r#"
cuda.kernel_registry_audit_ready()
length, offset = 1 << 20, 10 * (1 << 14) + 9000
for value in [b'7', b'8', b'7']:
    library = ctypes.c_void_p()
    code = (PTX + b'// ').ljust(length, b'-')
    code = code[:offset] + value + code[offset + 1:]
    assert cuda.cuLibraryLoadData(ctypes.byref(library), code, None, None, 0, None, None, 0) == 0
    assert launch(library, b'late') == 0
print('done')
"#,
    );
    assert_eq!(findings(&program.record()), 6);
    let recorded = program.recorded();
    let images = recorded.lines().filter(|line| !line.starts_with("ptx "));
    let hashes: Vec<_> = images.filter_map(|line| line.split_once("library ")?.1.split(' ').next()).collect();
    assert!(hashes.len() == 2 && hashes[0] == hashes[1], "{recorded}");
    let second = program.preload();
    assert_eq!(findings(&second), 0, "{recorded}{}", text(&second.0.stderr));
}

/// A module that two contexts load is loaded once in each.
#[test]
fn modules_are_counted_for_each_context() {
    needs_python!();
    let program = Program::new(
        r#"
cuda.kernel_registry_audit_ready()
def load():
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'late') == 0
load()
context = ctypes.c_void_p()
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
load()
print('done')
"#,
    );
    assert_eq!(findings(&program.record()), 4);
    let recorded = program.recorded();
    assert!(!recorded.contains(" x module"), "{recorded}");
    assert_eq!(findings(&program.preload()), 0, "{recorded}");
}

/// A new context can have the address of a destroyed context. The preloads of the destroyed context must not count for the new context.
#[test]
fn a_context_that_was_reset_is_preloaded_again() {
    needs_python!();
    let program = Program::new(
        r#"
def load():
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'late') == 0
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, (ctypes.c_void_p * 1)(ctypes.addressof(ctypes.c_uint64())), None) == 0
cuda.kernel_registry_audit_ready()
load()
assert cuda.cuDevicePrimaryCtxReset_v2(0) == 0
start()
load()
print('done')
"#,
    );
    program.record();
    let recorded = program.recorded();
    let second = program.preload();
    assert_eq!(text(&second.0.stdout), "done", "{recorded}{}", text(&second.0.stderr));
}

#[test]
fn an_image_that_is_loaded_again_and_again_is_preloaded_as_often() {
    needs_python!();
    let program = Program::new(
        r#"
cuda.kernel_registry_audit_ready()
for _ in range(3):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'late') == 0
    assert cuda.cuModuleUnload(module) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), b'nothing') != 0
print('done')
"#,
    );
    assert_eq!(findings(&program.record()), 7);
    let recorded = program.recorded();
    assert!(recorded.lines().any(|line| line.starts_with("3 x module ")), "{recorded}");
    assert!(!recorded.contains("prime"), "these kernels need nothing: {recorded}");
    let second = program.preload();
    assert_eq!(findings(&second), 1, "the image that the driver refuses: {}", text(&second.0.stderr));
}

#[test]
fn files_and_libraries_in_a_context_are_preloaded_too() {
    needs_python!();
    let image = scratch_folder().join("image.ptx");
    let program = Program::new(&format!(
        r#"
open({image:?}, 'wb').write(PTX)
cuda.kernel_registry_audit_ready()
module, function = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuModuleLoad(ctypes.byref(module), {image:?}.encode()) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'late') == 0
assert cuda.cuLibraryGetModule(ctypes.byref(module), library) == 0
print('done')
"#
    ));
    let first = program.record();
    let recorded = program.recorded();
    assert_eq!(findings(&first), 3, "{recorded}");
    assert!(recorded.contains("\n    *\n"), "{recorded}");
    assert_eq!(findings(&program.preload()), 0, "{recorded}");
}

#[test]
fn a_program_that_loads_an_image_twice_gets_two_and_may_unload_both() {
    needs_python!();
    let program = Program::new(
        r#"
cuda.kernel_registry_audit_ready()
libraries = [library] + [ctypes.c_void_p() for _ in range(2)]
for other in libraries[1:]:
    assert cuda.cuLibraryLoadData(ctypes.byref(other), PTX, None, None, 0, None, None, 0) == 0
assert len({other.value for other in libraries}) == 3
for other in libraries:
    assert launch(other, b'late') == 0
assert cuda.cuCtxSynchronize() == 0
for other in libraries:
    assert cuda.cuLibraryUnload(other) == 0
    assert cuda.cuLibraryUnload(other) != 0
assert cuda.cuLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, None, None, 0) == 0
assert launch(library, b'later') == 0
other = ctypes.c_void_p()
assert cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 0) == 0
assert launch(library, b'late') == 0
print('done')
"#,
    );
    findings(&program.record());
    let (output, _) = program.preload();
    assert_eq!(text(&output.stdout), "done", "{}", text(&output.stderr));
}

/// A load with an option other than BINARY_IS_PRESERVED is not preloaded, because an option can be a table that the driver fills in.
#[test]
fn a_library_with_options_is_loaded_by_the_driver() {
    needs_python!();
    let [file, other] = ["plain.preload", "options.preload"].map(|name| scratch_folder().join(name));
    let load = |options: &str| {
        python(&format!(
            "
options = [{options}]
names, values = (ctypes.c_uint32 * 2)(*options), (ctypes.c_void_p * 2)(1, 1)
cuda.kernel_registry_audit_ready()
assert cuda.cuLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, names, values, len(options)) == 0
assert launch(library, b'late') == 0
print('done')
"
        ))
    };
    findings(&audit(&options("--record", &file), &["python3", "-c", &load("")]));
    // Option 1 is BINARY_IS_PRESERVED, and option 0 is HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE.
    for (own, by_driver) in [("1", 0), ("0", 2), ("1, 0", 2), ("77", 2)] {
        let run = audit(&options("--preload", &file), &["python3", "-c", &load(own)]);
        assert_eq!(findings(&run), by_driver, "{own}: {}", text(&run.0.stderr));
    }
    findings(&audit(&options("--record", &other), &["python3", "-c", &load("0")]));
    let recorded = fs::read_to_string(&other).unwrap();
    assert!(!recorded.contains("\nlibrary ") && recorded.contains(", or with options, or"), "{recorded}");
}

#[test]
fn a_program_can_ask_for_the_preload_and_its_second_context_is_preloaded_too() {
    needs_python!();
    let file = scratch_folder().join("call.preload");
    let program = |call: &str| {
        python(&format!(
            "{call}
cuda.kernel_registry_audit_ready()
assert launch(library, b'late') == 0
other = ctypes.c_void_p()
assert cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 0) == 0
{call}
assert launch(library, b'late') == 0
print('done')
"
        ))
    };
    let without = program("");
    assert_eq!(findings(&audit(&options("--record", &file), &["python3", "-c", &without])), 2);
    assert_eq!(findings(&audit(&options("--preload", &file), &["python3", "-c", &without])), 0);

    let called = program("assert cuda.kernel_registry_audit_preload() == 1");
    let options = [&options("--preload", &file)[..], &["--preload-at", "call"]].concat();
    assert_eq!(findings(&audit(&options, &["python3", "-c", &called])), 0);
    // Without the call nothing is preloaded.
    assert_eq!(findings(&audit(&options, &["python3", "-c", &without])), 2);
}

#[test]
fn threads_and_contexts_share_what_is_preloaded() {
    needs_python!();
    let (file, command) = (scratch_folder().join("threads.preload"), ["python3", "tests/audit/contexts.py"]);
    let before = findings(&audit(&options("--record", &file), &command));
    for _ in 0..3 {
        let run = audit(&options("--preload", &file), &command);
        // Some late loads remain: one thread says that the program is ready before other threads have their contexts.
        assert!(findings(&run) * 10 < before, "{}: {}", before, text(&run.0.stderr));
        let failed: Vec<_> = preloaded(&run.1).into_iter().filter(|event| event["result"] != 0).collect();
        assert!(failed.is_empty(), "{failed:#?}");
    }
}

#[test]
fn refused_loads_are_recorded_too() {
    needs_python!();
    let program = Program::new(
        r#"
module, function = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
cuda.kernel_registry_audit_ready()
cuda.cuModuleGetFunction(ctypes.byref(function), module, b'late')
launch(library, b'later')
print('done')
"#,
    );
    let refuse = |option| program.run(&[option, program.file.to_str().unwrap(), "--after-ready", "refuse"]);
    assert_eq!(findings(&refuse("--record")), 2);
    assert_eq!(findings(&refuse("--preload")), 0);
}

#[test]
fn a_stale_preload_is_reported_and_the_program_goes_on() {
    needs_python!();
    let program = Program::new(LATE);
    findings(&program.record());
    let recorded = program.recorded();

    // Each text has one wrong line: a kernel that the image lacks, or a file that changed, is gone, is too short or is a device. Each
    // text also has a stack limit that no GPU has.
    let image = recorded.lines().find(|line| line.starts_with("library ")).unwrap();
    let path = image.splitn(5, ' ').nth(4).unwrap();
    let text_of = |lines: &str| {
        format!("kernel-registry preload 1\n{lines}\nprime printf assert heap\nstack 18446744073709551615\n")
    };
    for (lines, why) in [
        (format!("{image}\n    late\n    gone"), "CUDA_ERROR_NOT_FOUND"),
        (format!("library 0000000000000001 64 0x0 {path}"), "has changed since it was recorded"),
        ("library 0000000000000001 64 0x0 /no/such/file".to_owned(), "no such file"),
        (format!("library 0000000000000001 64 0xffffffffffffffff {path}"), "shorter"),
        ("library 0000000000000001 64 0x0 /dev/zero".to_owned(), "shorter"),
    ] {
        fs::write(&program.file, text_of(&lines)).unwrap();
        let run = program.preload();
        findings(&run);
        let failed: Vec<_> = preloaded(&run.1).into_iter().filter(|event| event["result"] != 0).collect();
        assert!(
            failed.iter().any(|event| event["reason"].as_str().unwrap().contains(why)),
            "{why}: {failed:#?}"
        );
        assert!(text(&run.0.stderr).contains("not preloaded"), "{}", text(&run.0.stderr));
    }

    // A damaged file and a missing file are errors.
    fs::write(&program.file, "library 1 2 3").unwrap();
    let none = scratch_folder().join("none.preload");
    for (file, why) in [(&program.file, "line 1 is `library 1 2 3`"), (&none, "there is no file `")] {
        let run = program.run(&options("--preload", file));
        assert_eq!((findings(&run), run.0.status.code()), (4, Some(12)));
        let said = text(&run.0.stderr);
        assert!(said.contains("warning: nothing is preloaded: ") && said.contains(why), "{said}");
    }
}

#[test]
fn preloads_are_merged() {
    let folder = scratch_folder();
    let [first, second, both] = ["a.preload", "b.preload", "all.preload"].map(|name| folder.join(name));
    fs::write(&first, "kernel-registry preload 1\nlibrary 01 64 0x0 /x.so\n    one\nstack 64\n").unwrap();
    fs::write(&second, "kernel-registry preload 1\nlibrary 01 64 0x0 /x.so\n    two\nprime heap\n").unwrap();
    let mut command = cargo_kernels_command();
    command.args(["audit", "merge", "--record"]).arg(&both).args([&first, &second]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let merged = "kernel-registry preload 1\nlibrary 0000000000000001 64 0x0 /x.so\n    one\n    two\nstack 64\nprime heap\n";
    assert_eq!(fs::read_to_string(&both).unwrap(), merged);
}
