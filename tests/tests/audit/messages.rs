//! Tests that the command reports what it could not do: print a message, create a record, store a finding, start a thread, or make a folder.

use std::fs;

use serde_json::Value;
use tests::scratch_folder;

use super::others::packed;
use super::preload::options;
use super::{audit, python, simulated, text};

#[test]
fn a_file_opened_as_descriptor_2_gets_no_message() {
    needs_python!();
    // The file is opened as descriptor 2 before the library of the hooks is loaded.
    let data = scratch_folder().join("data");
    let program = python(
        "
cuda.kernel_registry_audit_ready()
print(launch(library, b'late'))
",
    );
    for how in ["os.O_RDWR", "os.O_WRONLY | os.O_APPEND"] {
        let reused =
            format!("import os\nos.close(2)\nos.dup2(os.open({data:?}, {how} | os.O_CREAT), 2)\n{program}");
        let (output, _) = audit(&["--after-ready", "refuse"], &["python3", "-c", &reused]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(12), "800"));
        assert_eq!(fs::read_to_string(&data).unwrap(), "");
        let said = text(&output.stderr);
        assert_eq!(said.matches("kernel-audit: REFUSED").count(), 1, "the command says it: {said}");
    }
}

#[test]
fn a_process_without_a_record_makes_the_command_fail() {
    needs_python!();
    // A process may run as another user, or in another root. Here the folder of the records is gone.
    for instead in ["", "open(folder, 'w')\n"] {
        let folder = scratch_folder().join("records");
        let moved =
            format!("import os\nfolder = {folder:?}\nos.rename(folder, folder + '.moved')\n{instead}");
        let program = python("cuda.kernel_registry_audit_ready()\nassert launch(library, b'late') == 0");
        let mut command = simulated();
        command.arg("--fail-on-findings").args(options("--records", &folder)).args([
            "python3",
            "-c",
            &(moved + &program),
        ]);
        let output = command.output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("warning: process ") && said.contains(" has no record in `"), "{said}");
    }
}

#[test]
fn findings_that_do_not_fit_the_record_count_as_findings() {
    needs_python!();
    let program = python(
        "
assert launch(library, b'late') == 0
cuda.kernel_registry_audit_ready()
assert launch(library, b'later') == 0
",
    );
    let (output, report) = audit(&["--events", "2", "--slow", "10000"], &["python3", "-c", &program]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), &report["findings"]), (Some(12), &1.into()), "{said}");
    assert_eq!(report["processes"][0]["findings_dropped"], 1, "{report:#}");
    assert!(said.contains("1 of these are findings"), "{said}");
}

/// A Python program that forbids its process to start threads, as a container may do.
const NO_THREADS: &str = "
import ctypes, platform, struct
# The simulated driver starts its thread before that is forbidden.
assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0
clone = {'x86_64': 56, 'aarch64': 220}[platform.machine()]
CLONE3, ALLOW, AGAIN = 435, 0x7fff0000, 0x0005000b
lines = [(0x20, 0, 0, 0), (0x15, 2, 0, clone), (0x15, 1, 0, CLONE3), (6, 0, 0, ALLOW), (6, 0, 0, AGAIN)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in lines))
class Filter(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('code', ctypes.c_void_p)]
libc = ctypes.CDLL(None)
filter = Filter(len(lines), ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == libc.prctl(22, 2, ctypes.byref(filter)) == 0
";

#[test]
fn a_process_that_cannot_start_threads_makes_the_command_fail() {
    needs_python!();
    let program = format!("{NO_THREADS}{}", python("print('done')"));
    let mark = scratch_folder().join("ready");
    let (output, report) = audit(&options("--ready-file", &mark), &["python3", "-c", &program]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), "done"), "{said}");
    assert!(
        said.contains("a thread could not be started") && said.contains("hangs are not explained"),
        "{said}"
    );
    assert_eq!(report["processes"][0]["lacks_thread"], Value::Bool(true), "{report:#}");
}

/// In a container, the folder of temporary files can be read-only.
#[test]
fn records_need_no_temporary_folder() {
    let audited = |options: &[&str]| {
        let output = packed().env("TMPDIR", "/dev/null/none").args(options).args(["echo", "done"]).output();
        let output = output.expect("the tool runs");
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    for options in [&[][..], &options("--records", &scratch_folder().join("records"))] {
        let (code, printed, said) = audited(options);
        assert_eq!((code, printed.as_str()), (Some(0), "done"), "{said}");
    }
}
