//! Tests that a program says by a call or by a file that it is ready, and that loads after that are late.

use std::fs;

use tests::scratch_folder;

use super::{audit, events, python, simulated, text};

#[test]
fn a_late_load_after_ready_is_a_finding() {
    needs_python!();
    let program = python(
        "
assert launch(library, b'late') == 0
cuda.kernel_registry_audit_ready()
assert launch(library, b'late') == 0
print(launch(library, b'later'))
",
    );
    let (output, report) = audit(&[], &["python3", "-c", &program]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(12), "0"), "{}", text(&output.stderr));
    let loads = events(&report, "load");
    let loads: Vec<_> =
        loads.iter().map(|load| (load["subject"]["symbol"].as_str(), load["finding"].as_bool())).collect();
    assert_eq!(loads, [(Some("late"), Some(false)), (Some("later"), Some(true))]);

    // The launch returns 800, CUDA_ERROR_NOT_PERMITTED, and the program goes on.
    let (output, report) = audit(&["--after-ready", "refuse"], &["python3", "-c", &program]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(12), "800"));
    let said = text(&output.stderr);
    assert!(
        said.contains("REFUSED after the program was ready: `cuLaunchKernel` of kernel `later`"),
        "{said}"
    );
    assert_eq!(events(&report, "refused").len(), 1);
}

/// Loads during the start of a replacement worker are neither findings nor refused.
#[test]
fn a_file_says_that_processes_are_ready_which_have_started() {
    needs_python!();
    let file = scratch_folder().join("ready");
    let path = file.to_str().unwrap();
    // The second process begins when the file exists already.
    let ready = format!(
        "
import time
first = not os.path.exists({path:?})
if first:
    time.sleep(1)
    open({path:?}, 'w')
else:
    assert launch(library, b'late') == 0
time.sleep(0.5 if first else 4)
assert launch(library, b'later') == 800
"
    );
    let command = ["sh", "-c", "python3 -c \"$0\" && python3 -c \"$0\"", &python(&ready)];
    let (output, report) = audit(&["--ready-file", path, "--after-ready", "refuse"], &command);
    assert_eq!(output.status.code(), Some(12), "{}", text(&output.stderr));
    for process in [0, 1] {
        let process = &report["processes"][process];
        assert!(process["ready_ms"].is_number(), "{process:#}");
        let late = process["events"].as_array().unwrap().iter().filter(|event| event["finding"] == true);
        let late: Vec<_> = late.map(|event| &event["subject"]["symbol"]).collect();
        assert_eq!(late, ["later"], "{process:#}");
    }

    // The next run removes the file of the last run when it begins, but only if the file is empty.
    let (output, report) = audit(&["--ready-file", path], &["python3", "-c", &python("")]);
    assert!(output.status.success() && report["processes"][0]["ready_ms"].is_null(), "{report:#}");
    fs::write(&file, "not a mark").unwrap();
    let output = simulated().args(["--ready-file", path, "true"]).output().unwrap();
    assert!(text(&output.stderr).contains("is no empty file"), "{}", text(&output.stderr));
    assert!(file.exists());
}

/// The child of a server that is ready, such as a new worker, has its own start.
#[test]
fn a_forked_child_is_ready_when_it_says_so() {
    needs_python!();
    let before = python("").replace("library = start()", "");
    let program = before
        + "
cuda.kernel_registry_audit_ready()
worker = os.fork()
if worker == 0:
    library = start()
    assert launch(library, b'late') == 0
    cuda.kernel_registry_audit_ready()
    assert launch(library, b'later') == 800
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 7
";
    let (output, report) = audit(&["--after-ready", "refuse"], &["python3", "-c", &program]);
    assert_eq!(
        (output.status.code(), &report["findings"]),
        (Some(12), &1.into()),
        "{}",
        text(&output.stderr)
    );
}

/// A service that makes its context in its first request is ready before that.
#[test]
fn a_process_that_was_there_before_the_file_is_ready_before_its_first_call() {
    needs_python!();
    let file = scratch_folder().join("ready");
    let path = file.to_str().unwrap();
    let first_request = format!("import time\nopen({path:?}, 'w')\ntime.sleep(0.1)\nlibrary = start()");
    let program = python("assert launch(library, b'late') == 0").replace("library = start()", &first_request);
    let (output, report) = audit(&["--ready-file", path], &["python3", "-c", &program]);
    assert_eq!(
        (output.status.code(), &report["findings"]),
        (Some(12), &2.into()),
        "{}",
        text(&output.stderr)
    );
}
