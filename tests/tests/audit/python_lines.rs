//! Tests that what a Python program does is named by Python's file, line and function.

use std::fs;

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
    fs::write(&script, &program).expect("a file");
    let (output, report) = audit(&[], &["python3", script.to_str().expect("UTF-8")]);
    let loads = events(&report, "load");
    assert_eq!(loads.len(), 2, "{}", text(&output.stderr));
    let line = program.lines().position(|line| line.contains("cuda.cuLaunchKernel(")).expect("a launch") + 1;
    for load in &loads {
        assert_eq!(load["caller"], format!("serve.py:{line} launch"), "{load:#}");
        assert!(load["stack"].as_str().expect("a text").lines().count() < 80, "{load:#}");
    }
    let frames: Vec<_> = loads[0]["stack"].as_str().expect("a text").lines().take(3).collect();
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
    fs::write(&script, &program).expect("a file");
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

/// Makes functions all the time, calls them, and frees them while they are looked at. The file, the function and the lines of each have the
/// same number, so that a frame of parts that don't belong together is noticed. A class is called, too, which newer versions of CPython do by
/// a frame of their own.
const MAKES_FUNCTIONS: &str = r#"
import sys, threading, time
end = time.monotonic() + 4
sys.setswitchinterval(1e-4)
class Called:
    def __init__(self):
        self.total = sum(range(20000))
def made(number):
    lines = number % 7 + 1
    body = f'    total += sum(range({number % 50 + 2000}))\n' * lines
    source = f'def made{number}(total):\n{body}    return total\n'
    space = {}
    exec(compile(source, f'/made/{"é" * (number % 3)}{number}.py', 'exec'), space)
    return space.pop(f'made{number}')
def make(number):
    while time.monotonic() < end:
        made(number)(1)
        Called()
        number += 10
def mark():
    for _ in range(40):
        cuda.kernel_registry_audit_mark(b'stretch')
        time.sleep(0.1)
threads = [threading.Thread(target=make, args=(first,)) for first in range(3)]
threads.append(threading.Thread(target=mark))
for thread in threads: thread.start()
make(3)
for thread in threads: thread.join()
"#;

/// Returns whether a frame, such as `/srv/serve.py:7 Server.run`, can be one of that program.
fn is_possible(frame: &str) -> bool {
    let parts = frame.split_once(' ').and_then(|(place, function)| Some((place.rsplit_once(':')?, function)));
    let Some(((file, line), function)) = parts else { return false };
    let line: usize = line.parse().expect("a line");
    if let Some(number) = file.strip_prefix("/made/").and_then(|file| file.strip_suffix(".py")) {
        let number = number.trim_start_matches('é');
        let lines = number.parse::<usize>().map_or(0, |number| number % 7 + 3);
        return (1..=lines).contains(&line)
            && (function == "<module>" || function == format!("made{number}"));
    }
    let source = fs::read_to_string(file).unwrap_or_default();
    let name = function.rsplit('.').next().unwrap_or_default();
    file.starts_with("<frozen ")
        || (1..=source.lines().count()).contains(&line)
            && (name.starts_with('<') || source.contains(&format!("def {name}(")))
}

/// Once a thread goes on, what it was in may be freed, and other objects get its memory.
#[test]
fn python_frames_of_what_was_freed_are_not_invented() {
    if !has_open_python() {
        return left_out("python3 is not CPython 3.11 to 3.15", "REQUIRE_PYTHON");
    }
    let script = scratch_folder().join("makes.py");
    fs::write(&script, python(MAKES_FUNCTIONS)).expect("a file");
    let (output, report) = audit(&["--first", "60"], &["python3", script.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stretches = report["processes"][0]["stretches"].as_array().expect("a list");
    let spent = stretches.iter().flat_map(|stretch| stretch["spent"].as_array().expect("a list"));
    let stacks = spent.flat_map(|spent| spent["stack"].as_str().expect("a text").lines());
    // Frames of machine code have no line.
    let is_python = |frame: &&str| frame.split(' ').next().is_some_and(|place| place.contains(':'));
    let frames: Vec<_> = stacks.filter(is_python).collect();
    assert!(frames.iter().filter(|frame| frame.contains("/made/")).count() > 5, "{frames:?}");
    let invented: Vec<_> = frames.iter().filter(|frame| !is_possible(frame)).collect();
    assert!(invented.is_empty(), "of {}: {invented:#?}", frames.len());
}

/// What Python frees when it ends can take longer than a request.
#[test]
fn a_stretch_ends_when_python_begins_to_end() {
    needs_python!();
    let program = python(
        "
import time
def burn(seconds, now=time.monotonic):
    end = now() + seconds
    while now() < end: pass
class Freed:
    def __del__(self, burn=burn): burn(1)
freed = Freed()
cuda.kernel_registry_audit_ready()
burn(0.2)
print('done')
",
    );
    let (output, report) = audit(&["--first", "60"], &["python3", "-c", &program]);
    assert_eq!(text(&output.stdout), "done", "{}", text(&output.stderr));
    let took = report["processes"][0]["stretches"][0]["took_ms"].as_f64().expect("a time");
    assert!((200.0..600.0).contains(&took), "{took}: {}", text(&output.stderr));
}
