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

#[test]
fn a_file_says_that_all_processes_are_ready() {
    needs_python!();
    let file = scratch_folder().join("ready");
    let path = file.to_str().unwrap();
    let ready = format!("import time\nopen({path:?}, 'w')\ntime.sleep(0.3)\n");
    // The second process begins when the file exists already.
    let program = python(&(ready + "assert launch(library, b'late') == 0"));
    let command = ["sh", "-c", "python3 -c \"$0\" && python3 -c \"$0\"", &program];
    let (output, report) = audit(&["--ready-file", path], &command);
    assert_eq!(output.status.code(), Some(12), "{}", text(&output.stderr));
    for process in [0, 1] {
        let process = &report["processes"][process];
        assert!(process["ready_ms"].is_number(), "{process:#}");
        let late = process["events"].as_array().unwrap().iter().filter(|event| event["finding"] == true);
        assert!(
            late.map(|event| &event["subject"]["symbol"]).any(|subject| subject == "late"),
            "{process:#}"
        );
    }

    // The next run removes the file of the last run when it begins, but only if the file is empty.
    let (output, report) = audit(&["--ready-file", path], &["python3", "-c", &python("")]);
    assert!(output.status.success() && report["processes"][0]["ready_ms"].is_null(), "{report:#}");
    fs::write(&file, "not a mark").unwrap();
    let output = simulated().args(["--ready-file", path, "true"]).output().unwrap();
    assert!(text(&output.stderr).contains("is no empty file"), "{}", text(&output.stderr));
    assert!(file.exists());
}
