//! Tests that what a Python program does is named by Python's file, line and function.

use tests::{left_out, scratch_folder};

use super::{audit, events, has_open_python, python, text};

#[test]
fn python_is_named_with_file_line_and_function() {
    if !has_open_python() {
        return left_out("python3 is not CPython 3.11 to 3.15", "REQUIRE_PYTHON");
    }
    let script = scratch_folder().join("serve.py");
    let program = python(
        r#"
def forward(name):
    return launch(library, name)
def deep(frames):
    return forward(b'later') if frames == 0 else deep(frames - 1)
cuda.kernel_registry_audit_ready()
assert forward(b'late') == 0
assert deep(200) == 0
"#,
    );
    std::fs::write(&script, &program).expect("a file");
    let (output, report) = audit(&[], &["python3", script.to_str().expect("UTF-8")]);
    let loads = events(&report, "load");
    assert_eq!(loads.len(), 2, "{}", text(&output.stderr));
    let line = program.lines().position(|line| line.contains("cuda.cuLaunchKernel(")).expect("a launch") + 1;
    for load in &loads {
        assert_eq!(load["caller"], format!("serve.py:{line} launch"), "{load:#}");
        assert!(load["text"].as_str().expect("a text").lines().count() < 80, "{load:#}");
    }
    let frames: Vec<_> = loads[0]["text"].as_str().expect("a text").lines().take(3).collect();
    assert!(frames[1].contains("serve.py:") && frames[1].ends_with(" forward"), "{frames:?}");
    assert!(frames[2].ends_with(" <module>"), "{frames:?}");
}

/// Runs with every interpreter that the variable names, or with the interpreter on the path.
#[test]
fn python_that_holds_the_interpreter_is_named_in_every_version() {
    let interpreters = std::env::var("PYTHONS").unwrap_or_else(|_| "python3".to_owned());
    needs_python!();
    let script = scratch_folder().join("holds.py");
    let program = python(
        r#"
def forward():
    try:
        raise ValueError('kept')
    except ValueError:
        assert launch(library, b'late') == 0
        import sys
        assert sys.exc_info()[0] is ValueError
cuda.kernel_registry_audit_ready()
forward()
import threading
context = ctypes.c_void_p()
assert cuda.cuCtxGetCurrent(ctypes.byref(context)) == 0
def other():
    assert cuda.cuCtxSetCurrent(context) == 0
    assert launch(library, b'later') == 0
thread = threading.Thread(target=other)
thread.start()
thread.join()
print('done')
"#,
    );
    let program = program.replace("ctypes.CDLL(", "ctypes.PyDLL(");
    std::fs::write(&script, &program).expect("a file");
    for interpreter in interpreters.split(' ') {
        let (output, report) = audit(&[], &[interpreter, script.to_str().expect("UTF-8")]);
        assert_eq!(text(&output.stdout), "done", "{interpreter}: {}", text(&output.stderr));
        let callers: Vec<_> =
            events(&report, "load").iter().map(|load| load["caller"].as_str().expect("a text")).collect();
        assert!(
            callers.len() == 2 && callers.iter().all(|caller| caller.starts_with("holds.py:")),
            "{interpreter}: {callers:?}"
        );
    }
}
