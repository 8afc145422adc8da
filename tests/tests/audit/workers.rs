//! Tests that workers of Python's multiprocessing are named by the program that started them.

use std::fs;

use serde_json::Value;
use tests::scratch_folder;

use super::{PYTHON, audit, text};

/// Starts a worker that starts another one. The program itself never calls the driver.
const PROGRAM: &str = "
import multiprocessing, sys
def work(more):
    start()
    if more:
        run(work, more - 1)
def run(work, more):
    worker = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(more,))
    worker.start()
    worker.join()
    assert worker.exitcode == 0
if __name__ == '__main__':
    run(work, 1)
";

#[test]
fn workers_have_the_command_of_the_program() {
    needs_python!();
    let file = scratch_folder().join("serve.py");
    let start = PYTHON.replace("library = start()", "");
    fs::write(&file, format!("{start}{PROGRAM}")).expect("the folder is there");
    let file = file.to_str().expect("UTF-8");
    for method in ["spawn", "forkserver"] {
        let (output, report) = audit(&[], &["python3", file, method]);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        let processes: &[Value] = report["processes"].as_array().expect("a list");
        assert_eq!(processes.len(), 2, "{said}");
        for process in processes {
            let of_program = |its: &str| its.ends_with(&format!("python3 {file} {method}"));
            assert!(process["worker_of"].as_str().is_some_and(of_program), "{process}");
            assert_eq!(process["name"], format!("worker {}", process["process"]));
            assert!(process["command"].as_str().is_some_and(|its| its.contains(" multiprocessing.")));
        }
        assert_eq!(said.matches("AUDIT of worker ").count(), 2, "{said}");
        assert!(said.contains("serve.py") && !said.contains("multiprocessing"), "{said}");
    }
    let (_, report) = audit(&[], &["python3", "-c", PYTHON]);
    let process = &report["processes"][0];
    let name = format!("process {}", process["process"]);
    assert_eq!((&process["worker_of"], &process["name"]), (&"".into(), &name.into()));
}
