//! Tests that the command ends as the program would without it, and that a program with a preload runs even if the audit can't.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use tests::{cargo_kernels_command, scratch_folder};

use super::{python, simulated, text};

/// Returns the command with a preload, in a container's environment: no driver, and nothing of the user's.
fn with_preload(preload: &str) -> Command {
    let mut command = cargo_kernels_command();
    command.args(["audit", "--offline", "--preload", preload]);
    command
}

#[test]
fn findings_change_the_exit_code_only_on_request() {
    needs_python!();
    let program = python("cuda.kernel_registry_audit_ready()\nassert launch(library, b'late') == 0");
    for (options, code) in [(&[][..], 0), (&["--fail-on-findings"], 12)] {
        let output = simulated().args(options).args(["python3", "-c", &program]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        let said = text(&output.stderr);
        assert!(said.contains("1 kernel was loaded after the program was ready"), "{said}");
    }
}

/// Whatever keeps the audit from its work, the program gets its arguments and signals, and its exit code is the command's.
#[test]
fn a_program_with_a_preload_runs_without_what_the_audit_needs() {
    let folder = scratch_folder();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("the folder is there");
        path.into_os_string().into_string().expect("UTF-8")
    };
    let preload = file("good.preload", "kernel-registry preload 1\nstack 64\n");
    let other = file("other", "not a report");
    let no_driver = &[][..];
    let cases = [
        (&*preload, no_driver, "there is no CUDA driver to watch"),
        ("/no/such.preload", no_driver, "there is no CUDA driver to watch"),
        (&preload, &["--sim", "--json", &other], "it holds something else than a report as JSON"),
        (&preload, &["--sim", "--json", "/no/such/report"], "`/no/such/report` cannot be written"),
        (&preload, &["--sim", "--record", "/no/such/a.preload"], "cannot be written"),
        (&preload, &["--sim", "--ready-file", "/no/such/ready"], "there is no folder `/no/such`"),
        (&preload, &["--sim", "--ready-file", &other], "is no empty file"),
        (&preload, &["--sim", "--records", &other], "cannot be written"),
    ];
    for (preload, options, why) in cases {
        let run = |program: &[&str]| {
            let mut command = with_preload(preload);
            command.args(options).arg("--").args(program).output().expect("it runs")
        };
        let output = run(&["sh", "-c", "echo \"$0 $PPID\"; exit 5", "argument"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{options:?}: {said}");
        assert!(text(&output.stdout).starts_with("argument "), "{said}");
        let expected = "warning: the program runs unwatched, and nothing is preloaded: ";
        assert!(said.starts_with(expected) && said.contains(why), "{options:?}: {said}");
        assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).status.signal(), Some(15));
        assert_eq!(run(&["/no/such/program"]).status.code(), Some(127));
    }
    // A test that asks for findings would pass without having looked for them.
    let output = with_preload(&preload).args(["--fail-on-findings", "true"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn a_preloaded_program_without_a_driver_call_succeeds() {
    let output = simulated().args(["--preload", "/no/such.preload", "true"]).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("warning: nothing was audited"), "{}", text(&output.stderr));
}

/// Service managers take SIGTERM as a clean end, and an exit code of 143 as a failure.
#[test]
fn a_signal_that_ends_the_program_ends_the_command() {
    for signal in [2, 9, 15] {
        let output = simulated().args(["sh", "-c", &format!("kill -{signal} $$")]).output().expect("it runs");
        assert_eq!(output.status.signal(), Some(signal), "{}", text(&output.stderr));
        let said = text(&output.stderr);
        assert!(said.contains(&format!("error: signal {signal} ended the program")), "{said}");
    }
}
