//! Tests `cargo kernels audit`: programs run unchanged under the hooks, and the report names the kernels that they load late.

/// Ends a test if Python is not installed.
macro_rules! needs_python {
    () => {
        if !crate::has_python() {
            return tests::left_out("python3 is not installed", "REQUIRE_PYTHON");
        }
    };
}

mod answers;
mod baked;
mod compiled;
mod demo;
mod devices;
mod exit;
mod faults;
mod forks;
mod hangs;
mod messages;
mod neighbours;
mod others;
mod pages;
mod parent;
mod preload;
mod preload_changes_nothing;
mod python_lines;
mod ready;
mod recording;
mod show;
mod stretches;
mod workers;

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tests::{Build, cargo_kernels_command, scratch_folder};

/// Returns the command on the simulated driver, in an environment without variables of CUDA.
fn simulated() -> Command {
    let mut command = cargo_kernels_command();
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CUDA") || name.starts_with("KERNEL_REGISTRY_SIM") {
            command.env_remove(&*name);
        }
    }
    command.args(["audit", "--sim", "--offline"]);
    command
}

/// Audits a program on the simulated driver, and fails on findings. Returns the program's output, and the report as JSON.
fn audit(options: &[&str], program: &[&str]) -> (Output, Value) {
    let folder = scratch_folder();
    let json = folder.join("report.json");
    let mut command = simulated();
    command.args(["--fail-on-findings", "--json"]).arg(&json).args(options).arg("--").args(program);
    let output = command.output().expect("the tool runs");
    let report = std::fs::read(&json).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    (output, serde_json::from_slice(&report).expect("JSON"))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8").trim_end()
}

/// Returns the events of one kind, of all processes.
fn events<'a>(report: &'a Value, kind: &str) -> Vec<&'a Value> {
    let processes = report["processes"].as_array().expect("a list");
    let events = processes.iter().flat_map(|process| process["events"].as_array().expect("a list"));
    events.filter(|event| event["kind"] == kind).collect()
}

fn has_python() -> bool {
    Command::new("python3").arg("--version").output().is_ok()
}

/// The beginning of the Python programs, which creates a context and loads a library with kernels.
const PYTHON: &str = r#"
import ctypes, os, signal
cuda = ctypes.CDLL('libcuda.so.1')
PTX = b'''.version 8.0
.target sm_75
.address_size 64
.visible .entry late(.param .u64 out) { ret; }
.visible .entry later(.param .u64 out) { ret; }
'''
def start():
    context, library, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, None, None, 0) == 0
    return library
def launch(library, name):
    kernel, out = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, name) == 0
    args = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(out), ctypes.c_void_p))
    return cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, args, None)
library = start()
"#;

fn python(program: &str) -> String {
    format!("{PYTHON}{program}")
}

#[test]
fn a_program_needs_no_dashes_and_json_can_be_printed() {
    let output = simulated().args(["--json", "-", "echo", "--json", "x"]).output().expect("it runs");
    let printed = text(&output.stdout);
    let (program, json) = printed.split_once('\n').expect("two outputs");
    assert_eq!(program, "--json x");
    assert!(serde_json::from_str::<Value>(json).is_ok(), "{json}");
}

#[test]
fn a_program_of_cudarc_alone_has_no_finding() {
    let program = Build::default().executable("cudarc-only");
    let (output, report) = audit(&[], &[program.to_str().expect("a path in UTF-8")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!events(&report, "image").is_empty());
    let process = &report["processes"][0];
    assert!(process["launches"].as_u64() > Some(0) && process["ended"] == true, "{process}");
}

/// A server that starts new workers all the time fills no disk.
#[test]
fn the_record_of_a_process_that_has_ended_takes_little_of_the_disk() {
    needs_python!();
    let records = scratch_folder();
    let folder = records.to_str().expect("UTF-8");
    let program = python("assert launch(library, b'late') == 0");
    let wait = "python3 -c \"$1\" && for i in $(seq 300); do test $(du -k \"$0\"/*.rec | cut -f 1) -lt 3000 && break; sleep 0.1; done; du -k \"$0\"/*.rec";
    let (output, report) = audit(&["--records", folder], &["sh", "-c", wait, folder, &program]);
    let size = text(&output.stdout).split_whitespace().next().expect("a size").to_owned();
    assert!(size.parse::<u32>().expect("a number") < 3000, "{size} kB: {}", text(&output.stderr));
    assert_eq!(events(&report, "load").len(), 1, "{report:#}");
}

#[test]
fn each_process_has_a_record_and_one_that_is_killed_too() {
    needs_python!();
    let program = python(
        "
child = os.fork()
if child == 0:
    version = ctypes.c_int()
    cuda.cuStreamSynchronize(None)
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child, 0)
assert launch(library, b'late') == 0
",
    );
    let (output, report) = audit(&[], &["python3", "-c", &program]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let processes = report["processes"].as_array().expect("a list");
    let ended: Vec<_> = processes.iter().map(|process| process["ended"].as_bool()).collect();
    assert!(ended == [Some(true), Some(false)] || ended == [Some(false), Some(true)], "{report:#}");
}

/// A supervisor kills a worker before its call counts as one that hangs.
#[test]
fn a_killed_process_was_last_seen_in_its_call() {
    needs_python!();
    let killed = |seconds: u32, hang_after: &str| {
        let kill =
            format!("threading.Timer({seconds}, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()");
        let wait = "assert cuda.cuStreamSynchronize(stream) == 0";
        let program = python(&format!("{}\nimport threading\nspin()\n{kill}\n{wait}", preload::SPINNING));
        audit(&["--hang-after", hang_after], &["python3", "-c", &program])
    };
    let (output, report) = killed(1, "60");
    let (said, process) = (text(&output.stderr), &report["processes"][0]);
    assert_eq!((output.status.signal(), &report["findings"]), (Some(9), &0.into()), "no finding: {said}");
    let last = &process["in_progress"][0];
    assert_eq!(
        (&process["ended"], &last["call"]),
        (&false.into(), &"cuStreamSynchronize".into()),
        "{process:#}"
    );
    assert!(last["took_ms"].as_f64() > Some(500.0), "{last}");
    assert!(said.contains("  last seen in `cuStreamSynchronize` for "), "{said}");

    // A call that hangs is said to hang, and a process that ended by itself is in none.
    let (output, _) = killed(3, "0.5");
    let said = text(&output.stderr);
    assert!(said.contains("! HANG at ") && !said.contains("last seen in"), "{said}");
    let (output, report) = audit(&[], &["python3", "-c", &python("assert launch(library, b'late') == 0")]);
    assert_eq!(report["processes"][0]["in_progress"], Value::Array(Vec::new()), "{report:#}");
    assert!(!text(&output.stderr).contains("last seen in"), "{}", text(&output.stderr));
}

#[test]
fn functions_from_cu_get_proc_address_are_watched() {
    needs_python!();
    let program = python(
        "
def asked(name, version, flags=0):
    address, status = ctypes.c_void_p(), ctypes.c_int()
    assert cuda.cuGetProcAddress_v2(name, ctypes.byref(address), version, ctypes.c_uint64(flags), ctypes.byref(status)) == 0
    return address.value
def exported(name):
    return ctypes.cast(getattr(cuda, name), ctypes.c_void_p).value
print(asked(b'cuLaunchKernel', 12000) == exported('cuLaunchKernel'),
      asked(b'cuMemFree', 12000) == exported('cuMemFree_v2'),
      asked(b'cuGetProcAddress', 12000) == exported('cuGetProcAddress_v2'))
",
    );
    let (output, _) = audit(&[], &["python3", "-c", &program]);
    assert_eq!(text(&output.stdout), "True True True", "{}", text(&output.stderr));
}

#[test]
fn functions_of_modules_are_loaded_when_they_are_taken() {
    needs_python!();
    let program = python(
        "
def module():
    module = ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    return module
def take(module):
    function = ctypes.c_void_p()
    result = cuda.cuModuleGetFunction(ctypes.byref(function), module, b'late')
    assert result or cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, args, None) == 0
    # While a kernel runs, cuModuleGetFunction loads nothing, and the first launch would load.
    assert cuda.cuCtxSynchronize() == 0
    return result
out = ctypes.c_uint64()
args = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(out), ctypes.c_void_p))
one, other = module(), module()
assert take(one) == take(other) == 0 and launch(library, b'later') == 0
cuda.kernel_registry_audit_ready()
assert cuda.cuModuleUnload(other) == 0
# The audit remembers loaded kernels: they are not late.
assert take(one) == 0 and launch(library, b'later') == 0
print(cuda.cuModuleGetFunction(ctypes.byref(ctypes.c_void_p()), one, b'later'))
",
    );
    let (output, report) = audit(&["--after-ready", "refuse"], &["python3", "-c", &program]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(12), "800"), "{}", text(&output.stderr));
    let loads: Vec<_> = events(&report, "load").iter().map(|load| load["call"].as_str()).collect();
    let take = Some("cuModuleGetFunction");
    assert_eq!(loads, [take, take, Some("cuLaunchKernel")]);
    let load = events(&report, "load")[0];
    let loaded = &events(&report, "image")[0]["subject"];
    let image = &load["subject"]["image"];
    assert!(image["bytes"].as_u64() > Some(100) && image["format"] == "PTX", "{image}");
    assert_eq!((&image["bytes"], &image["origin"]), (&loaded["bytes"], &loaded["origin"]));
    assert_ne!(image["library"], "");
}

#[test]
fn a_launch_that_enlarges_the_stack_is_late() {
    needs_python!();
    let program = python(
        "
FRAME = (b'.version 8.0 .target sm_75 .address_size 64 .visible .entry framed(.param .u64 out)'
    b'{ .local .align 4 .b8 frame[4096]; .reg .u32 %r; .reg .u64 %a, %o; mov.u32 %r, %tid.x;'
    b'mul.wide.u32 %a, %r, 4; mov.u64 %o, frame; add.u64 %o, %o, %a; st.local.u32 [%o], %r; ret; }')
framed = ctypes.c_void_p()
assert cuda.cuLibraryLoadData(ctypes.byref(framed), FRAME, None, None, 0, None, None, 0) == 0
kernel, function = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuLibraryGetKernel(ctypes.byref(kernel), framed, b'framed') == 0
assert cuda.cuKernelGetFunction(ctypes.byref(function), kernel) == 0
cuda.kernel_registry_audit_ready()
# The kernel is loaded, but needs a larger stack.
print(launch(framed, b'framed'))
",
    );
    let (output, report) = audit(&[], &["python3", "-c", &program]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(12), "0"), "{}", text(&output.stderr));
    let resized: Vec<_> = events(&report, "resize")
        .iter()
        .map(|event| (event["subject"].clone(), event["finding"].as_bool()))
        .collect();
    let stack = json!({ "type": "limit", "limit": "stack", "bytes": 4096, "kernel": "framed" });
    assert_eq!(resized, [(stack, Some(true))]);

    let (output, _) = audit(&["--after-ready", "refuse"], &["python3", "-c", &program]);
    assert_eq!(text(&output.stdout), "800", "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("needs a stack of 4096 bytes and enlarges it from 1024"), "{said}");
}

#[test]
fn a_launch_that_fails_loads_nothing() {
    needs_python!();
    let program = python(
        "
cuda.kernel_registry_audit_ready()
assert cuda.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None) != 0
",
    );
    let (output, report) = audit(&["--slow", "1000"], &["python3", "-c", &program]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(events(&report, "load"), Vec::<&Value>::new());
}

#[test]
fn a_driver_that_is_closed_and_opened_again_is_watched() {
    needs_python!();
    let program = "
import _ctypes, ctypes
for name in ['libcuda.so', 'libcuda.so.1', 'libcuda.so.1', 'libcuda.so']:
    driver = ctypes.CDLL(name)
    print(hasattr(driver, 'kernel_registry_audit_ready'), end=' ')
    # The real driver stays loaded, so the loader must not find it by its name.
    _ctypes.dlclose(driver._handle)
";
    let (output, _) = audit(&[], &["python3", "-c", program]);
    assert_eq!(text(&output.stdout).trim_end(), "True True True True", "{}", text(&output.stderr));
}

#[test]
fn a_kernel_that_is_loaded_can_be_taken_from_its_module() {
    needs_python!();
    let program = python(
        "
module, function = ctypes.c_void_p(), ctypes.c_void_p()
assert launch(library, b'late') == 0 and cuda.cuCtxSynchronize() == 0
cuda.kernel_registry_audit_ready()
assert cuda.cuLibraryGetModule(ctypes.byref(module), library) == 0
print(*[cuda.cuModuleGetFunction(ctypes.byref(function), module, name) for name in [b'late', b'later']])
",
    );
    let (output, _) = audit(&["--after-ready", "refuse"], &["python3", "-c", &program]);
    assert_eq!(text(&output.stdout), "0 800", "{}", text(&output.stderr));
}

#[test]
fn a_refusal_printed_to_a_closed_pipe_ends_no_program() {
    needs_python!();
    let program = python(
        "
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
reads, writes = os.pipe()
os.close(reads)
os.dup2(writes, 2)
cuda.kernel_registry_audit_ready()
print(launch(library, b'late'), flush=True)
",
    );
    let (output, _) = audit(&["--after-ready", "refuse"], &["python3", "-c", &program]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(12), "800"), "{}", text(&output.stderr));
}

#[test]
fn a_kernel_is_loaded_in_each_context() {
    needs_python!();
    let program = python(
        "
assert launch(library, b'late') == 0
other = ctypes.c_void_p()
assert cuda.cuCtxCreate_v4(ctypes.byref(other), None, 0, 0) == 0
assert launch(library, b'late') == 0
assert launch(library, b'late') == 0
",
    );
    let (output, report) = audit(&[], &["python3", "-c", &program]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let contexts: Vec<_> = events(&report, "load").iter().map(|load| load["context"].as_u64()).collect();
    assert!(contexts.len() == 2 && contexts[0] != contexts[1], "{contexts:?}");
}

#[test]
fn events_that_do_not_fit_the_record_are_counted() {
    needs_python!();
    let program = python("assert launch(library, b'late') == 0 and launch(library, b'later') == 0");
    let (output, report) = audit(&["--events", "2", "--slow", "10000"], &["python3", "-c", &program]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let process = &report["processes"][0];
    assert_eq!(
        (process["events"].as_array().map(Vec::len), &process["events_dropped"]),
        (Some(2), &1.into())
    );
    let samples = process["activity"].as_array().expect("a list").iter();
    assert_eq!(samples.filter_map(|sample| sample["launches"].as_u64()).sum::<u64>(), 2, "{process:#}");
}

/// A service that waits for the GPU in each request makes slow calls as long as it runs.
#[test]
fn slow_calls_leave_room_for_loads() {
    needs_python!();
    let calls = "for _ in range(60): cuda.cuStreamSynchronize(None)";
    let program = python(&format!("{calls}\nassert launch(library, b'late') == 0"));
    let (output, report) = audit(&["--events", "40", "--slow", "0"], &["python3", "-c", &program]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let loads = events(&report, "load");
    assert!(loads.iter().any(|event| event["subject"]["symbol"] == "late"), "{loads:#?}");
    assert!(report["processes"][0]["events_dropped"].as_u64() > Some(30), "{report:#}");
}

/// Listing a slow call takes longer than many a call.
#[test]
fn slow_calls_are_listed_as_far_as_that_costs_little() {
    needs_python!();
    let program = python("for _ in range(20_000): cuda.cuStreamSynchronize(None)");
    let (output, report) = audit(&["--slow", "0"], &["python3", "-c", &program]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let (listed, unlisted) = (events(&report, "slow").len(), &report["processes"][0]["slow_unlisted"]);
    let unlisted = unlisted.as_u64().expect("a number");
    assert!(listed > 20 && unlisted > 5_000 && listed as u64 + unlisted >= 20_000, "{listed} {unlisted}");
    assert!(said.contains(&format!("{unlisted} more slow calls were only counted")), "{said}");
}

#[test]
fn threads_launch_while_their_process_is_forked() {
    needs_python!();
    let program = python(
        "
import threading
context = ctypes.c_void_p()
assert cuda.cuCtxGetCurrent(ctypes.byref(context)) == 0
def work(number):
    assert cuda.cuCtxSetCurrent(context) == 0
    for _ in range(20):
        assert launch(library, [b'late', b'later'][number % 2]) == 0
threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
for thread in threads: thread.start()
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        cuda.cuStreamSynchronize(None)
        os._exit(0)
    children.append(child)
for child in children: assert os.waitpid(child, 0)[1] == 0
for thread in threads: thread.join()
",
    );
    let (output, report) = audit(&[], &["python3", "-W", "ignore", "-c", &program]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let processes = report["processes"].as_array().expect("a list");
    let launches: Vec<_> = processes.iter().filter_map(|process| process["launches"].as_u64()).collect();
    assert_eq!((launches.len(), launches.iter().sum::<u64>()), (9, 64 * 20));
    let names: HashSet<_> =
        events(&report, "load").iter().map(|load| load["subject"]["symbol"].as_str()).collect();
    assert_eq!(names, HashSet::from([Some("late"), Some("later")]));
}

#[test]
fn an_audited_program_is_not_audited_twice() {
    let command = env!("CARGO_BIN_EXE_hardware");
    let tool = cargo_kernels_command();
    let tool = tool.get_program().to_str().expect("a path in UTF-8");
    let (output, _) = audit(&[], &[tool, "kernels", "audit", "--sim", "--offline", "--", command]);
    assert!(text(&output.stderr).contains("this process is audited already"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_program_that_is_interrupted_is_reported() {
    // A terminal sends SIGINT to both processes, and a supervisor sends SIGTERM to the command only.
    for (program, signal) in
        [("kill -INT $PPID; kill -INT $$", 2), ("sleep 1; kill -TERM $PPID; sleep 10", 15)]
    {
        let (output, _) = audit(&[], &["sh", "-c", program]);
        assert_eq!(output.status.signal(), Some(signal), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("AUDIT: no call to the driver was seen"));
    }
}

#[test]
fn many_threads_are_watched() {
    let seconds = tests::limit(3).as_secs().to_string();
    let (output, report) = audit(&[], &[env!("CARGO_BIN_EXE_stress"), "--seconds", &seconds]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(report["processes"][0]["launches"].as_u64() > Some(1000));
}

#[test]
fn a_program_without_cuda_is_reported_as_such() {
    let (output, report) = audit(&[], &["true"]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("AUDIT: no call to the driver was seen"));
    assert_eq!(report["processes"], Value::Array(Vec::new()));

    let (output, _) = audit(&[], &["sh", "-c", "exit 42"]);
    assert_eq!(output.status.code(), Some(42));
}

#[test]
fn unreadable_records_are_left_out_and_named() {
    let folder = scratch_folder();
    let records = folder.to_str().expect("a path in UTF-8");
    let program = format!("echo no record > {records}/1.rec");
    let (output, _) = audit(&["--records", records], &["sh", "-c", &program]);
    let said = text(&output.stderr);
    assert!(said.contains("1.rec` is left out: it is not a whole record of an audit"), "{said}");
    assert!(Path::new(records).join("1.rec").exists());
}

#[test]
fn records_of_earlier_programs_do_not_count() {
    needs_python!();
    let folder = scratch_folder();
    let options = ["--records", folder.to_str().expect("a path in UTF-8"), "--ready-after", "0"];
    let late = python("import time\ntime.sleep(0.3)\nassert launch(library, b'late') == 0\n");
    let (output, report) = audit(&options, &["python3", "-c", &late]);
    assert_eq!(output.status.code(), Some(12), "{}", text(&output.stderr));
    assert_eq!(report["processes"].as_array().map(Vec::len), Some(1));
    let (output, report) = audit(&options[..2], &["true"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(report["processes"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_report_to_a_link_is_written_to_its_target() {
    let folder = scratch_folder();
    let (file, link) = (folder.join("file"), folder.join("link"));
    std::fs::write(&file, "").expect("the folder is there");
    std::os::unix::fs::symlink(&file, &link).expect("the folder is there");
    let full = std::fs::File::create("/dev/full").expect("Linux has it");
    let mut command = cargo_kernels_command();
    command.args(["audit", "--sim", "--offline", "--json"]).arg(&link).args(["--", "true"]);
    let status = command.stderr(full).status().expect("the tool runs");
    assert!(status.success(), "{status}");
    assert!(link.is_symlink(), "devices such as /dev/stdout are not replaced either");
    assert!(std::fs::read_to_string(file).expect("the report").contains("processes"));
}

#[test]
fn times_are_numbers_of_seconds() {
    for time in ["--ready-after=-1", "--ready-after=nan", "--hang-after=inf"] {
        let mut command = cargo_kernels_command();
        let output = command.args(["audit", "--sim", time, "--", "true"]).output().expect("the tool runs");
        assert_eq!(output.status.code(), Some(2), "{time}");
        assert!(text(&output.stderr).contains("write it as 2.5"), "{}", text(&output.stderr));
    }
    for time in ["--hang-after=0", "--hang-after=1e-12"] {
        let mut command = cargo_kernels_command();
        let output = command.args(["audit", "--sim", time, "--", "true"]).output().expect("the tool runs");
        assert_eq!(output.status.code(), Some(2), "{time}");
        assert!(text(&output.stderr).contains("it must be more than 0"), "{}", text(&output.stderr));
    }
}

/// Returns whether the audit reads Python's frames in any thread.
fn has_open_python() -> bool {
    let version =
        Command::new("python3").arg("--version").output().map(|output| text(&output.stdout).to_owned());
    version.is_ok_and(|version| (11..=15).any(|minor| version.starts_with(&format!("Python 3.{minor}."))))
}
