//! Tests that a preload changes neither what a program prints nor whether it fails.

use std::fs;
use std::path::Path;
use std::process::Command;

use kernel_audit::preload::images;
use tests::scratch_folder;

use super::preload::{SPINNING, findings, options, preloaded};
use super::{audit, python, simulated, text};

/// Runs a program with `--record`, calls `between`, and runs the program with `--preload`. Checks that both runs print the same text,
/// and returns the text.
fn same(program: &str, between: impl FnOnce(&Path)) -> String {
    let (file, program) = (scratch_folder().join("same.preload"), python(program));
    let command = ["python3", "-c", &program, images(&file).to_str().unwrap()].map(str::to_owned);
    let command = command.each_ref().map(String::as_str);
    let (recorded, _) = audit(&options("--record", &file), &command);
    between(&file);
    let (output, report) = audit(&options("--preload", &file), &command);
    let loaded = preloaded(&report);
    assert!(loaded.iter().any(|event| event["result"] == 0), "{loaded:#?}{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), text(&recorded.stdout), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn image_files_may_change_while_the_program_runs() {
    needs_python!();
    // The program overwrites the digit in the preloaded image files. The kernel must still store the digit of its own image.
    let printed = same(
        r"
import glob, sys
def store(digit):
    code = b'.version 8.0\n.target sm_75\n.address_size 64\n.visible .entry store(.param .u64 out) { .reg .b64 %a; ld.param.u64 %a, [out]; st.global.u32 [%a], '
    code += digit + b'; ret; }\n'
    module, function, out, host = (ctypes.c_void_p() for _ in range(4))
    assert cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(4), 2) == 0
    for path in glob.glob(sys.argv[1] + '/*'):
        content = open(path, 'rb').read()
        with open(path, 'r+b') as file:
            file.write(content.replace(b', 1;', b', ' + digit + b';'))
            file.truncate(0 if digit == b'1' else None)
    assert cuda.cuModuleLoadData(ctypes.byref(module), code) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'store') == 0
    args = (ctypes.c_void_p * 1)(ctypes.addressof(host))
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, args, None) == 0
    assert cuda.cuCtxSynchronize() == 0
    return ctypes.c_uint32.from_address(host.value).value
print(store(b'2'), store(b'1'))
",
        |_| {},
    );
    assert_eq!(printed, "2 1");
}

/// Each load of an image has variables of its own, also if it gets a copy that was preloaded: two at a time, one after the other, more
/// than there are copies, as a library, and in the next primary context.
#[test]
fn each_copy_begins_with_its_own_variables() {
    needs_python!();
    let printed = same(
        r"
code = b'.version 8.0\n.target sm_75\n.address_size 64\n.global .u32 counter = 5;\n.visible .entry count(.param .u64 out) { .reg .b64 %a; .reg .b32 %n; ld.global.u32 %n, [counter]; add.u32 %n, %n, 1; st.global.u32 [counter], %n; ld.param.u64 %a, [out]; st.global.u32 [%a], %n; ret; }\n'
host = ctypes.c_void_p()
assert cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(4), 2) == 0
def load():
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), code) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'count') == 0
    return module, function
def load_library():
    library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuLibraryLoadData(ctypes.byref(library), code, None, None, 0, None, None, 0) == 0
    assert cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, b'count') == 0
    return library, kernel
def count(image):
    args = (ctypes.c_void_p * 1)(ctypes.addressof(host))
    assert cuda.cuLaunchKernel(image[1], 1, 1, 1, 1, 1, 1, 0, None, args, None) == 0
    assert cuda.cuCtxSynchronize() == 0
    return ctypes.c_uint32.from_address(host.value).value
two = [load(), load()]
print(count(two[0]), count(two[0]), count(two[1]))
for module, _ in two:
    assert cuda.cuModuleUnload(module) == 0
kept = [load() for _ in range(66)]
print({count(image) for image in kept}, count(kept[0]))
two = [load_library(), load_library()]
print(count(two[0]), count(two[0]), count(two[1]))
assert cuda.cuLibraryUnload(two[0][0]) == 0
print(count(load_library()))
assert cuda.cuMemFreeHost(host) == 0
assert cuda.cuDevicePrimaryCtxReset_v2(0) == 0 and cuda.cuDevicePrimaryCtxRelease_v2(0) == 0
start()
assert cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(4), 2) == 0
print(count(load()))
",
        |_| {},
    );
    assert_eq!(printed, "6 7 6\n{6} 7\n6 7 6\n6\n6");
}

#[test]
fn a_preload_does_not_freeze_limits() {
    needs_python!();
    let printed = same(
        r"
PRINTF, HEAP = 1, 2
print(cuda.cuCtxSetLimit(PRINTF, ctypes.c_size_t(8 << 20)))
assert launch(library, b'late') == 0
print(cuda.cuCtxSetLimit(HEAP, ctypes.c_size_t(64 << 20)))
for limit in [PRINTF, HEAP]:
    size = ctypes.c_size_t()
    cuda.cuCtxGetLimit(ctypes.byref(size), limit)
    print(size.value)
",
        |file| {
            let recorded = fs::read_to_string(file).unwrap();
            assert!(recorded.contains("\nprintf 8388608\nheap 67108864\n"), "{recorded}");
            fs::write(file, format!("{recorded}prime printf assert heap\n")).unwrap();
        },
    );
    assert_eq!(printed, "0\n0\n8388608\n67108864");
}

/// The program loads and unloads modules with much memory, one after the other.
#[test]
fn a_preload_takes_no_memory_that_the_program_needs() {
    needs_python!();
    let printed = same(
        r"
address, free, total = (ctypes.c_size_t() for _ in range(3))
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(total.value // 2)))
cuda.kernel_registry_audit_ready()
code = PTX + b'.visible .global .align 4 .b8 large[2147483648];\n'
for _ in range(40):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), code) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'late') == 0
    assert cuda.cuModuleUnload(module) == 0
",
        |_| {},
    );
    assert_eq!(printed, "0");
}

#[test]
fn a_context_is_made_beside_a_kernel_that_does_not_end() {
    needs_python!();
    let printed = same(
        &format!(
            "{SPINNING}{}",
            r"
spin()
context = ctypes.c_void_p()
print(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0), flush=True)
flag.value = 1
print(cuda.cuCtxPopCurrent_v2(ctypes.byref(context)), cuda.cuStreamSynchronize(stream), launch(library, b'late'))
"
        ),
        |_| {},
    );
    assert_eq!(printed, "0\n0 0 0");
}

#[test]
fn a_long_compilation_is_not_reported_as_a_hang() {
    needs_python!();
    let file = scratch_folder().join("compiled.preload");
    let program = python(
        r"
for number in range(6):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), PTX + b'// %4d' % number + b' ' * 1000) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'late') == 0
",
    );
    let run = |option| {
        let mut command = simulated();
        command.env("KERNEL_REGISTRY_SIM_JIT", "300ms").args(options(option, &file));
        command.args(["--hang-after", "1", "--on-hang", "abort", "python3", "-c", &program]).output().unwrap()
    };
    for option in ["--record", "--preload"] {
        let output = run(option);
        assert_eq!(output.status.code(), Some(0), "{option}: {}", text(&output.stderr));
    }
}

#[test]
fn a_preload_leaves_room_for_findings() {
    needs_python!();
    let file = scratch_folder().join("long.preload");
    let lines = (1..100).map(|number| format!("library {number:016x} 64 0x0 /no/such/file\n"));
    fs::write(&file, format!("kernel-registry preload 1\n{}", lines.collect::<String>())).unwrap();
    let program =
        python("cuda.kernel_registry_audit_ready()\nassert launch(library, b'late') == 0\nprint('done')");
    let options = [&options("--preload", &file)[..], &["--events", "40"]].concat();
    let run = audit(&options, &["python3", "-c", &program]);
    assert_eq!(findings(&run), 1, "{}", text(&run.0.stderr));
    let rest = &preloaded(&run.1).into_iter().next_back().unwrap()["subject"];
    assert!(rest["type"] == "more" && rest["count"].as_u64() > Some(50), "{rest}");
}

/// The program opens a library by a relative path, and then changes its working directory.
#[test]
fn a_library_opened_by_a_relative_path_is_found_again() {
    needs_python!();
    let folder = scratch_folder();
    let source = folder.join("image.c");
    fs::write(
        &source,
        "const char image[] = \".version 8.0\\n.target sm_75\\n.address_size 64\\n.visible .entry its() { ret; }\\n\";\n",
    )
    .unwrap();
    let built =
        Command::new("cc").args(["-shared", "-o"]).arg(folder.join("libimage.so")).arg(&source).status();
    assert!(built.expect("there is a C compiler").success());
    let (file, program) = (
        folder.join("moved.preload"),
        python(&format!(
            r"
os.chdir({folder:?})
code = ctypes.CDLL('./libimage.so')
os.chdir('/')
cuda.kernel_registry_audit_ready()
module, function = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuModuleLoadData(ctypes.byref(module), ctypes.byref(ctypes.c_char.in_dll(code, 'image'))) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'its') == 0
print('done')
"
        )),
    );
    let command = ["python3", "-c", &program];
    assert_eq!(findings(&audit(&options("--record", &file), &command)), 2);
    let recorded = fs::read_to_string(&file).unwrap();
    assert!(recorded.contains(folder.join("libimage.so").to_str().unwrap()), "{recorded}");
    assert_eq!(findings(&audit(&options("--preload", &file), &command)), 0, "{recorded}");
}

#[test]
fn a_call_that_ends_no_context_forgets_nothing() {
    needs_python!();
    let file = scratch_folder().join("null.preload");
    let program = python(
        "assert cuda.cuCtxDestroy_v2(None) != 0\ncuda.kernel_registry_audit_ready()
other = ctypes.c_void_p()
assert cuda.cuLibraryLoadData(ctypes.byref(other), PTX, None, None, 0, None, None, 0) == 0
assert launch(other, b'late') == 0\nprint('done')",
    );
    let command = ["python3", "-c", &program];
    assert_eq!(findings(&audit(&options("--record", &file), &command)), 2);
    let recorded = fs::read_to_string(&file).unwrap();
    assert_eq!(findings(&audit(&options("--preload", &file), &command)), 0, "{recorded}");
}
