//! Tests what `cargo kernels audit` answers when it cannot do what was asked: what is wrong, what to do, and an exit code other than 0.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tests::{cargo_kernels_command, fails, scratch_folder};

use super::others::packed;
use super::{audit, python, text};

fn answer(arguments: &[&str]) -> Output {
    cargo_kernels_command().arg("audit").args(arguments).output().expect("the tool runs")
}

#[test]
fn the_version_is_told() {
    for arguments in [&["--version"][..], &["audit", "--version"], &["audit", "-V"]] {
        let output = cargo_kernels_command().args(arguments).output().expect("the tool runs");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stdout).ends_with(env!("CARGO_PKG_VERSION")), "{}", text(&output.stdout));
    }
    // An option after the program belongs to the program.
    let output = packed().args(["echo", "--version"]).output().expect("the tool runs");
    assert!(text(&output.stdout).contains("echo") || text(&output.stdout) == "--version");
}

#[test]
fn watch_refuses_a_single_record() {
    let record = scratch_folder().join("1.rec");
    fs::write(&record, "").expect("a file");
    let said = fails(answer(&["watch", record.to_str().expect("UTF-8")]), 2);
    assert!(said.contains("1.rec` is a file: `watch` takes the folder of the records"), "{said}");
    assert!(said.contains("`merge "), "{said}");
    fails(answer(&["watch", "/no/such/folder"]), 3);
}

#[test]
fn a_library_that_the_loader_would_not_find_is_refused() {
    let packed = packed();
    let from = Path::new(packed.get_program()).parent().expect("a folder");
    let to = scratch_folder().join(OsStr::from_bytes(b"not-\xff-text"));
    fs::create_dir_all(to.join("sim")).expect("a folder");
    for file in ["cargo-kernels", "libkernel_registry_hooks.so", "sim/libcuda.so.1"] {
        fs::hard_link(from.join(file), to.join(file)).expect("the same file");
    }
    let mut command = Command::new(to.join("cargo-kernels"));
    let output = command.args(packed.get_args()).args(["echo", "it ran"]).output().expect("the tool runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text(&output.stdout).is_empty(), "{said}");
    assert!(said.contains("libkernel_registry_hooks.so") && said.contains("is not UTF-8"), "{said}");
}

#[test]
fn a_ready_file_in_a_missing_folder_is_refused() {
    let output = packed().args(["--ready-file", "/no/such/folder/ready", "echo", "it ran"]).output();
    let output = output.expect("the tool runs");
    assert_eq!(text(&output.stdout), "");
    let said = fails(output, 3);
    assert!(
        said.contains("there is no folder `/no/such/folder`") && said.contains("make it first"),
        "{said}"
    );
}

#[test]
fn merge_without_an_output_file_is_refused() {
    let preload = scratch_folder().join("a.preload");
    fs::write(&preload, "kernel-registry preload 1\nstack 64\n").expect("a file");
    let said = fails(answer(&["merge", preload.to_str().expect("UTF-8")]), 2);
    assert!(said.contains("a.preload` is merged into another file: name that by `--record FILE`"), "{said}");
}

/// If the name of the file is left out after `--record` or `--json`, the word that follows is the program.
#[test]
fn a_file_of_another_content_is_not_replaced() {
    let program = scratch_folder().join("serve.sh");
    let content = "#!/bin/sh\necho started\n";
    for (option, what) in [
        ("--record", "a preload"),
        ("--json", "a report as JSON"),
        ("--html", "a report as a page"),
        ("--trace", "a timeline"),
    ] {
        fs::write(&program, content).expect("a file");
        let output = packed().arg(option).arg(&program).args(["sh", "-c", "echo started"]).output();
        let output = output.expect("the tool runs");
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""), "{option}: {said}");
        let why = format!("serve.sh` cannot be written: it holds something else than {what}");
        assert!(said.contains(&why), "{option}: {said}");
        assert_eq!(fs::read_to_string(&program).expect("it is there"), content, "{option}");
    }
}

#[test]
fn earlier_reports_and_empty_files_are_replaced() {
    for option in ["--json", "--html", "--trace"] {
        let file = scratch_folder().join("report");
        fs::write(&file, "").expect("a file");
        let written = || {
            let output = packed().arg(option).arg(&file).arg("true").output().expect("the tool runs");
            assert!(output.status.success(), "{option}: {}", text(&output.stderr));
            fs::read_to_string(&file).expect("text")
        };
        let first = written();
        assert!(first.len() > 20 && first == written(), "{option}: {first}");
        let output = packed().args([option, "/dev/null", "true"]).output().expect("the tool runs");
        assert!(output.status.success(), "{option}: {}", text(&output.stderr));
    }
}

/// The shell opens the file, so the program's lines are in it when the report comes.
#[test]
fn a_report_to_the_standard_output_comes_behind_what_is_there() {
    let file = scratch_folder().join("output");
    fs::write(&file, "earlier\n").expect("a file");
    for (option, begin) in [("--json", "{\n"), ("--html", "<!doctype html>\n")] {
        let output = fs::File::options().append(true).open(&file).expect("a file");
        let status = packed()
            .args([option, "/dev/stdout", "echo", "line"])
            .stdout(output)
            .stderr(Stdio::null())
            .status();
        assert!(status.expect("the tool runs").success(), "{option}");
        let all = fs::read_to_string(&file).expect("text");
        assert!(all.starts_with("earlier\n") && all.contains(&format!("line\n{begin}")), "{option}: {all}");
    }
}

/// Here a limit for files takes the part of a full disk.
#[test]
fn a_report_without_room_leaves_the_earlier_one() {
    needs_python!();
    let (records, file) = (scratch_folder(), scratch_folder().join("report.json"));
    let (folder, file) = (records.to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
    let program = python("assert launch(library, b'late') == 0");
    audit(&["--records", folder], &["python3", "-c", &program]);
    let without_room = || {
        let tool = cargo_kernels_command();
        let mut shell = Command::new("sh");
        let limited = "trap '' XFSZ; ulimit -f 1; exec \"$@\"";
        shell.args(["-c", limited, "sh"]).arg(tool.get_program()).args(tool.get_args());
        let said =
            fails(shell.args(["audit", "merge", "--json", file, folder]).output().expect("it runs"), 1);
        assert!(said.contains("report.json` cannot be written: "), "{said}");
    };
    without_room();
    assert!(!Path::new(file).exists(), "no part of a report is left");
    assert!(answer(&["merge", "--json", file, folder]).status.success());
    let earlier = fs::read_to_string(file).expect("text");
    without_room();
    assert_eq!(fs::read_to_string(file).expect("text"), earlier);
}

#[test]
fn an_audit_option_after_the_program_is_pointed_out() {
    let said = |arguments: &[&str]| {
        let output = packed().args(arguments).output().expect("the tool runs");
        assert!(output.status.success() && text(&output.stdout).starts_with("-"), "{}", text(&output.stderr));
        text(&output.stderr).to_owned()
    };
    let note = "`--record` stands behind the program, so it is the program's";
    assert!(said(&["echo", "--record", "a.preload"]).contains(note));
    assert!(said(&["echo", "-x", "--record=a.preload"]).contains(note));
    // After `--` the note would be wrong, and options such as `--json` are common in other programs.
    assert!(!said(&["--", "echo", "--record", "a.preload"]).contains("stands behind"));
    assert!(!said(&["echo", "--json", "--recorder"]).contains("stands behind"));
}

#[test]
fn a_run_without_a_driver_call_fails_a_test_if_an_option_asked_for_one() {
    let file = scratch_folder().join("a");
    let file = file.to_str().expect("UTF-8");
    fs::write(format!("{file}.preload"), "kernel-registry preload 1\nstack 64\n").expect("a file");
    for asked in [
        &["--record", file][..],
        &["--preload", &format!("{file}.preload")],
        &["--after-ready", "refuse"],
        &["--ready-after", "1"],
        &["--ready-file", file],
        &["--on-hang", "abort"],
    ] {
        for (in_test, code, word) in [(&["--fail-on-findings"][..], 1, "error"), (&[], 0, "warning")] {
            let output = packed().args(in_test).args(asked).arg("true").output().expect("the tool runs");
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{asked:?}: {said}");
            let expected = format!("{word}: nothing was audited, and ");
            assert!(said.contains(&expected) && said.contains(asked[0]), "{asked:?}: {said}");
        }
        // The program's own exit code is kept.
        let output = packed().args(asked).args(["sh", "-c", "exit 42"]).output().expect("the tool runs");
        assert_eq!(output.status.code(), Some(42), "{asked:?}: {}", text(&output.stderr));
    }
    assert!(packed().arg("true").status().expect("the tool runs").success());
}

#[test]
fn damaged_records_make_merge_fail() {
    needs_python!();
    let program = python("assert launch(library, b'late') == 0");
    let records = scratch_folder();
    let folder = records.to_str().expect("UTF-8");
    let (output, _) = audit(&["--records", folder], &["python3", "-c", &program]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::write(records.join("damaged.rec"), "no record").expect("a file");
    let merged = answer(&["merge", folder]);
    assert_eq!(merged.status.code(), Some(1), "{}", text(&merged.stderr));
    assert!(text(&merged.stdout).contains("AUDIT of process"), "what can be read is reported");
}
