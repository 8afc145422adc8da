//! Tests that programs in unusual situations behave under `cargo kernels audit` as without it, and that lost records are reported.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tests::guide::{blocks, page};
use tests::{cargo_kernels_command, fails, left_out, scratch_folder};

/// The beginning of the Python programs: a context, a library with two kernels, and host work in a stream.
const PYTHON: &str = r#"
import ctypes, os, resource, signal, sys, threading, time
cuda = ctypes.CDLL('libcuda.so.1')
PTX = b'''.version 8.0
.target sm_75
.address_size 64
.visible .entry late(.param .u64 out) { ret; }
.visible .entry later(.param .u64 out) { ret; }
'''
def make(function, *arguments):
    handle = ctypes.c_void_p()
    result = getattr(cuda, function)(ctypes.byref(handle), *arguments)
    assert result == 0, (function, result)
    return handle
def run(kernel, stream=None):
    out = ctypes.c_uint64()
    args = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(out), ctypes.c_void_p))
    return cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, None)
assert cuda.cuInit(0) == 0
context = make('cuDevicePrimaryCtxRetain', 0)
assert cuda.cuCtxSetCurrent(context) == 0
library = make('cuLibraryLoadData', PTX, None, None, 0, None, None, 0)
late, later = make('cuLibraryGetKernel', library, b'late'), make('cuLibraryGetKernel', library, b'later')
def busy(seconds, stream=None):
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: time.sleep(seconds))
    assert cuda.cuLaunchHostFunc(stream, call, None) == 0
    return call
"#;

/// Returns the audit of a program on the simulated driver, or `None` if Python is not installed.
fn audit(options: &[&str], program: &str) -> Option<Command> {
    if Command::new("python3").arg("--version").output().is_err() {
        left_out("python3 is not installed", "REQUIRE_PYTHON");
        return None;
    }
    let mut command = cargo_kernels_command();
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CUDA") || name.starts_with("KERNEL_REGISTRY_SIM") {
            command.env_remove(&*name);
        }
    }
    command.args(["audit", "--sim", "--offline", "--fail-on-findings"]).args(options);
    command.args(["--", "python3", "-c"]).arg(format!("{PYTHON}{program}"));
    Some(command)
}

fn output(mut command: Command) -> (Output, String, String) {
    let output = command.output().expect("the tool runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

fn report(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("the report")).expect("JSON")
}

#[test]
fn short_threads_in_one_slot_are_no_hang() {
    let program = "
def work():
    cuda.cuCtxSetCurrent(context)
    cuda.cuStreamSynchronize(None)
for _ in range(12):
    kept = busy(0.08)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
";
    let Some(command) = audit(&["--hang-after", "0.5"], program) else { return };
    let (output, _, said) = output(command);
    assert!(output.status.success() && !said.contains("HANG"), "{said}");
}

#[test]
fn explaining_a_hang_ends_no_capture() {
    let program = "
waiting, captured = make('cuStreamCreate', 1), make('cuStreamCreate', 1)
assert run(late, captured) == 0 and cuda.cuStreamSynchronize(captured) == 0
kept = busy(0.9, waiting)
assert cuda.cuStreamBeginCapture_v2(captured, 0) == 0 and run(late, captured) == 0
thread = threading.Thread(target=lambda: cuda.cuCtxSetCurrent(context) or cuda.cuStreamSynchronize(waiting))
thread.start()
thread.join()
print(cuda.cuStreamEndCapture(captured, ctypes.byref(ctypes.c_void_p())))
";
    let Some(command) = audit(&["--hang-after", "0.2"], program) else { return };
    let (_, out, said) = output(command);
    assert!(said.contains("HANG"), "{said}");
    assert_eq!(out, "0", "the capture is valid");
}

/// The time that it takes is not what makes it a hang.
#[test]
fn a_wait_for_long_work_does_not_end_the_program() {
    let program = "
kept = busy(0.8)
cuda.cuStreamSynchronize(None)
print('went on')
";
    let Some(command) = audit(&["--hang-after", "0.2", "--on-hang", "abort"], program) else { return };
    let (_, out, said) = output(command);
    assert_eq!(out, "went on", "{said}");
}

#[test]
fn a_hang_can_end_the_program() {
    let program = "
kept = busy(60)
cuda.cuStreamSynchronize(None)
print('not reached')
";
    let Some(command) = audit(&["--hang-after", "0.2", "--on-hang", "abort"], program) else { return };
    let (output, out, said) = output(command);
    assert_eq!((output.status.signal(), &*out), (Some(6), ""), "{said}");
    let (live, report) = said.split_once("AUDIT of process").expect("a report");
    assert!(
        live.contains("kernel-audit: HANG for ") && live.contains("  calls   `cuStreamSynchronize`\n"),
        "{said}"
    );
    assert!(live.contains("so it is ended after 2.0 s, not now."), "{said}");
    assert!(report.contains("! HANG at ") && report.contains(": explained above\n"), "{report}");
    assert!(
        report.contains(", ended by `--on-hang abort`\n") && !report.contains("said to be ready"),
        "{report}"
    );
}

#[test]
fn a_call_that_returns_after_all_is_no_hang() {
    let program = "
kept = busy(0.5)
cuda.cuStreamSynchronize(None)
print('done')
";
    let page = scratch_folder().join("report.html");
    let options = ["--hang-after", "0.2", "--html", page.to_str().expect("a path in UTF-8")];
    let Some(command) = audit(&options, program) else { return };
    let (_, out, said) = output(command);
    assert_eq!(out, "done");
    let (_, report) = said.split_once("AUDIT of process").expect("a report");
    assert!(report.contains("! WAIT at ") && report.contains(": explained above\n"), "{report}");
    assert!(!report.contains("HANG") && !report.contains("never said to be ready"), "{report}");
    let page = fs::read_to_string(page).expect("a page");
    assert!(
        page.contains("The program waited for ")
            && page.contains("<dd><code>cuStreamSynchronize</code></dd>"),
        "{page}"
    );
    assert!(!page.contains("hung") && !page.contains("kernel_registry_audit_ready"), "{page}");
}

/// Runs the example in docs/audit-sections.md, with a launch and a deferred free in place of its comment.
#[test]
fn python_begins_and_ends_a_section_as_the_documentation_says() {
    let audits = page("docs/audit-sections.md");
    let python = blocks(&audits).into_iter().find(|block| block.text.contains("section = begin("));
    let python = python.expect("the example of a section").text;
    let (before, after) = python.split_once("# Launch `worker`").expect("what the program does");
    let (_, after) = after.split_once('\n').expect("more lines");
    let program = format!(
        "
memory, stream = ctypes.c_uint64(), make('cuStreamCreate', 1)
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64)) == 0
{before}
assert section != 0 and run(late, stream) == 0 and cuda.cuMemFree_v2(memory) == 0
{}",
        after.replace("end(section)", "print(end(section))")
    );
    let Some(command) = audit(&[], &program) else { return };
    let (_, out, said) = output(command);
    // The example prints the number of deferred calls.
    assert_eq!(out.lines().next(), Some("1"), "{said}");
    assert!(said.contains("cuMemFree_v2"), "{said}");
}

#[test]
fn threads_of_the_audit_take_no_signals() {
    let program = "
# Each thread of the audit sets its own name soon after its start.
time.sleep(0.2)
status = [open(f'/proc/self/task/{thread}/status').read() for thread in os.listdir('/proc/self/task')]
own = [text for text in status if 'kernel-registry' in text]
blocked = [int(text.split('SigBlk:')[1].split()[0], 16) for text in own]
print(len(own), all(signals >> signal.SIGUSR1 - 1 & 1 for signals in blocked))
";
    let Some(command) = audit(&["--ready-after", "60"], program) else { return };
    let (output, out, said) = output(command);
    assert_eq!((output.status.code(), &*out), (Some(0), "2 True"), "{said}");
}

#[test]
fn a_program_that_resets_all_signals_survives_a_hang() {
    let program = "
for _ in range(2):
    kept = busy(0.6)
    assert cuda.cuStreamSynchronize(None) == 0
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError): pass
";
    let Some(command) = audit(&["--hang-after", "0.2"], program) else { return };
    let (output, _, said) = output(command);
    assert_eq!(output.status.code(), Some(12), "{said}");
}

#[test]
fn a_refusal_that_cannot_be_printed_ends_no_program() {
    let program = "
os.dup2(os.open('/dev/full', os.O_WRONLY), 2)
cuda.kernel_registry_audit_ready()
print(run(late))
";
    let Some(command) = audit(&["--after-ready", "refuse"], program) else { return };
    let (output, out, said) = output(command);
    assert_eq!((output.status.code(), &*out), (Some(12), "800"), "{said}");
    // The command's own messages that cannot be printed end nothing either.
    let full = fs::File::create("/dev/full").expect("Linux has it");
    let Some(mut command) = audit(&[], "sys.exit(200)") else { return };
    assert_eq!(command.stderr(full).status().expect("the tool runs").code(), Some(200));
}

#[test]
fn the_finding_that_ended_the_program_is_reported() {
    let json = scratch_folder().join("report.json");
    let program = "
cuda.kernel_registry_audit_ready()
run(late)
";
    let options = ["--after-ready", "abort", "--json", json.to_str().expect("UTF-8")];
    let Some(command) = audit(&options, program) else { return };
    let (output, _, said) = output(command);
    assert_eq!(output.status.signal(), Some(6), "{said}");
    assert_eq!(report(&json)["findings"], 1);
}

#[test]
fn loaded_kernels_stay_loaded_when_other_contexts_end() {
    let program = "
module = make('cuModuleLoadData', PTX)
make('cuModuleGetFunction', module, b'late')
other = make('cuDevicePrimaryCtxRetain', 1)
made = make('cuCtxCreate_v4', None, 0, 0)
assert cuda.cuCtxSetCurrent(context) == 0
assert run(late) == 0
cuda.kernel_registry_audit_ready()
assert cuda.cuDevicePrimaryCtxRelease_v2(1) == 0
assert cuda.cuCtxDestroy_v2(made) == 0
print(run(late), cuda.cuModuleGetFunction(ctypes.byref(ctypes.c_void_p()), module, b'late'))
";
    let Some(mut command) = audit(&["--after-ready", "refuse"], program) else { return };
    command.env("KERNEL_REGISTRY_SIM_DEVICES", "2");
    let (output, out, said) = output(command);
    assert_eq!((output.status.code(), &*out), (Some(0), "0 0"), "{said}");
}

#[test]
fn a_thread_whose_context_is_gone_gets_no_other_one() {
    let program = "
begin, end = cuda.kernel_registry_audit_section_begin, cuda.kernel_registry_audit_section_end
begin.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
begin.restype, end.argtypes, end.restype = ctypes.c_uint64, [ctypes.c_uint64], ctypes.c_uint64
def lose(function, argument):
    thread = threading.Thread(target=lambda: getattr(cuda, function)(argument))
    thread.start()
    thread.join()
def allocate():
    memory = ctypes.c_uint64()
    return memory, cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64))
stream, (memory, result) = make('cuStreamCreate', 1), allocate()
assert run(late) == result == 0
made = make('cuCtxCreate_v2', 0, 0)
assert run(late) == 0
lose('cuCtxDestroy_v2', made)
print(run(later), allocate()[1])
section = begin(b'worker', context, stream, 2)
print(cuda.cuMemFree_v2(memory), end(section), allocate()[1])
made = make('cuCtxCreate_v2', 0, 0)
assert cuda.cuCtxSetCurrent(context) == 0
lose('cuDevicePrimaryCtxReset_v2', 0)
print(run(later), allocate()[1])
";
    let Some(command) = audit(&[], program) else { return };
    let (_, out, said) = output(command);
    // 709 is CUDA_ERROR_CONTEXT_IS_DESTROYED, and 1 is the number of frees that the section deferred.
    assert_eq!(out.lines().collect::<Vec<_>>(), ["709 709", "0 1 709", "709 709"], "{said}");
}

#[test]
fn a_child_of_a_ready_process_has_its_own_start() {
    let json = scratch_folder().join("report.json");
    let program = "
cuda.kernel_registry_audit_ready()
child = os.fork()
if child == 0:
    cuda.cuStreamSynchronize(None)
    os._exit(0)
os.waitpid(child, 0)
";
    let Some(command) = audit(&["--json", json.to_str().expect("UTF-8")], program) else { return };
    let (output, _, said) = output(command);
    assert!(output.status.success(), "{said}");
    let report = report(&json);
    let processes = report["processes"].as_array().expect("a list");
    let ready = processes.iter().filter(|process| process["ready_ms"].is_number()).count();
    assert_eq!((processes.len(), ready), (2, 1), "{report:#}");
}

#[test]
fn streams_that_come_and_go_are_all_counted() {
    let json = scratch_folder().join("report.json");
    let program = "
for _ in range(6000):
    stream = make('cuStreamCreate', 0)
    assert run(late, stream) == 0 and cuda.cuStreamDestroy_v2(stream) == 0
";
    let Some(command) = audit(&["--json", json.to_str().expect("UTF-8")], program) else { return };
    let (output, _, said) = output(command);
    assert!(output.status.success(), "{said}");
    let samples = &report(&json)["processes"][0]["activity"];
    let launches =
        samples.as_array().expect("a list").iter().filter_map(|sample| sample["launches"].as_u64());
    assert_eq!(launches.sum::<u64>(), 6000);
}

#[test]
fn functions_for_per_thread_streams_are_those_that_the_driver_has() {
    let program = "
address, status = ctypes.c_void_p(), ctypes.c_int()
asked = cuda.cuGetProcAddress_v2(b'cuStreamSynchronize', ctypes.byref(address), 12000, ctypes.c_uint64(2), ctypes.byref(status))
print(asked, ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address.value)(None))
";
    let Some(command) = audit(&[], program) else { return };
    let (_, out, said) = output(command);
    assert_eq!(out, "0 0", "{said}");
}

#[test]
fn a_record_without_room_makes_the_command_fail() {
    let program = "
cuda.kernel_registry_audit_ready()
print(run(late))
";
    // The limit on the size of files acts as a full disk does. SIGXFSZ is ignored, because it would end the program.
    let Some(command) = audit(&[], program) else { return };
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -f 2000 && exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    let (output, out, said) = output(limited);
    assert_eq!((output.status.code(), &*out), (Some(1), "0"), "{said}");
    assert!(said.contains("it is empty, because there was no room for it on the disk"), "{said}");
    assert!(said.contains("error: 1 record could not be read") && !said.contains("no call"), "{said}");
}

#[test]
fn unwritable_outputs_are_reported_before_the_program_runs() {
    let folder = scratch_folder();
    let file = folder.join("file");
    fs::write(&file, "").expect("the folder is there");
    let missing = folder.join("missing/report");
    let inside = file.join("records");
    for (option, path) in
        [("--json", &missing), ("--html", &missing), ("--trace", &missing), ("--records", &inside)]
    {
        let Some(command) = audit(&[option, path.to_str().expect("UTF-8")], "print('it ran')") else {
            return;
        };
        let (output, out, said) = output(command);
        assert_eq!((output.status.code(), &*out), (Some(1), ""), "{option}: {said}");
        assert!(fails(output, 1).contains("cannot be written"), "{said}");
    }
}

#[test]
fn a_cache_that_the_loader_cannot_search_is_passed_over() {
    let separated = scratch_folder().join("a:b");
    fs::create_dir(&separated).expect("the folder is there");
    let Some(mut command) = audit(&[], "print('it ran')") else { return };
    command.env("XDG_CACHE_HOME", &separated).env("TMPDIR", &separated);
    let (output, out, said) = output(command);
    assert_eq!((output.status.code(), &*out), (Some(0), "it ran"), "{said}");
}

#[test]
fn a_folder_named_like_a_record_is_left_out() {
    let folder = scratch_folder();
    fs::create_dir(folder.join("folder.rec")).expect("the folder is there");
    let Some(command) = audit(&["--records", folder.to_str().expect("UTF-8")], "") else { return };
    let _ = output(command);
    let mut merge = cargo_kernels_command();
    let (output, out, said) = output({
        merge.args(["audit", "merge"]).arg(&folder);
        merge
    });
    assert!(output.status.code() == Some(1) && out.contains("AUDIT of process"), "{said}");
    assert!(said.contains("folder.rec` is left out: "), "{said}");
}

#[test]
fn the_command_is_packed_without_the_network() {
    let folder = scratch_folder();
    let output = cargo_kernels_command().args(["audit", "pack", "--offline"]).arg(&folder).output();
    let output = output.expect("the tool runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(folder.join("cargo-kernels").is_file());
}
