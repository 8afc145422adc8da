//! Tests of hangs and slow calls: the report explains which kernel a call waits for, and a hang ends the program if that is asked for.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use tests::{cargo_kernels_command, scratch_folder};

use super::neighbours::{PROGRAM, beside_driver, compiled, said};
use super::preload::options;
use crate::{audit, events, has_open_python, has_python, python, simulated, text};

#[test]
fn a_program_runs_unchanged_and_its_hang_is_explained() {
    let (output, report) = audit(&["--hang-after", "0.15"], &[env!("CARGO_BIN_EXE_hardware")]);
    let said = text(&output.stderr);
    assert!(text(&output.stdout).ends_with(" checks, 0 failed"), "{}{said}", text(&output.stdout));
    // One check of the program launches a cold kernel beside a resident kernel.
    let hangs = events(&report, "hang");
    let names = |event: &Value| {
        let explained = event["words"].as_str().expect("text");
        [
            "saxpy",
            "spin_until_flag",
            "a kernel is loaded only when nothing runs",
            "\n  cure ",
            "\n    at hardware",
        ]
        .iter()
        .all(|part| explained.contains(part))
    };
    assert!(hangs.iter().any(|event| names(event)), "{said}");
    assert_eq!(output.status.code(), Some(12), "a hang is a finding: {said}");
}

/// Returns after how many seconds a call counts as one that hangs. Where programs are slow, others take long, too.
fn hang_after() -> String {
    (tests::limit(1) / 5).as_secs_f64().to_string()
}

/// Checks that the first Ctrl-C goes to the program, and that the second ends the program and its children if they still run.
#[test]
fn ctrl_c_twice_ends_a_program_that_hangs() {
    if !has_python() {
        return;
    }
    let audit = simulated();
    let mut command = Command::new("python3");
    command.arg("tests/audit_terminal/in_terminal.py").arg(audit.get_program()).args(audit.get_args());
    for (name, value) in audit.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.args(["--hang-after", &hang_after(), "python3", "tests/audit_terminal/hangs.py"]);
    let begun = Instant::now();
    let output = command.output().expect("it runs");
    let said = text(&output.stdout).replace('\r', "");
    assert_eq!(output.status.signal(), Some(9), "{said}");
    assert!(begun.elapsed() < tests::limit(50), "the child was not waited for: {said}");
    let report = said.split_once("AUDIT of process").unwrap_or_else(|| panic!("a report: {said}")).1;
    for part in ["ended by Ctrl-C", "! HANG at ", ": explained above"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let (_, live) =
        said.split_once("kernel-audit: HANG for ").unwrap_or_else(|| panic!("while it hangs: {said}"));
    let words: Vec<_> = live.split_whitespace().collect();
    let words = words.join(" ");
    for part in [
        "calls `cuStreamSynchronize`",
        "beside `spin` runs in stream 0x",
        "kernel `late` was not loaded when thread",
        "while `spin` ran",
        "audit --sim --record late.preload python3 tests/audit_terminal/hangs.py",
        "or in the program: use this operation once",
    ] {
        assert!(words.contains(part), "{part}: {live}");
    }
    assert!(!words.contains("warm_all") && !words.contains("cudaFunc"), "it is in Python: {live}");
    assert!(!has_open_python() || words.contains("where hangs.py:"), "{live}");
    // The lines fit the terminal. Commands are not broken, because people copy them.
    let lines = live
        .lines()
        .take_while(|line| !line.starts_with("    at "))
        .filter(|line| !line.contains(".preload"));
    assert!(lines.clone().count() > 5 && lines.clone().all(|line| line.chars().count() <= 80), "{live}");
    assert!(said.contains("press Ctrl-C twice to end the program with a report"), "{said}");
}

#[test]
fn a_slow_call_names_the_kernel_that_it_waited_for() {
    needs_python!();
    let (output, report) = audit(&[], &["python3", "tests/audit_terminal/hangs.py", "frees"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "waiting for a kernel that ends is no finding: {said}");
    let free = events(&report, "slow").into_iter().find(|event| event["call"] == "cuMemFree_v2");
    let free = free.unwrap_or_else(|| panic!("a slow call: {report:#}"));
    assert_eq!((&free["resident"], &free["rule"]), (&"spin".into(), &"free".into()), "{free:#}");
    assert!(said.contains("while `spin` was resident"), "{said}");
}

/// The driver compiles a large module for many seconds, as it does candle's, while nothing runs that the load could wait for.
#[test]
fn a_driver_that_compiles_does_not_hang() {
    needs_python!();
    let script = scratch_folder().join("compiles.py");
    let load = "assert cuda.cuModuleLoadData(ctypes.byref(ctypes.c_void_p()), PTX) == 0\n";
    fs::write(&script, python(load)).expect("a file");
    let script = script.to_str().expect("UTF-8");
    let delayed = |hang_after, time| {
        let fault = format!("KERNEL_REGISTRY_SIM_FAULTS=cuModuleLoadData=+{time}ms");
        let (output, report) = audit(&["--hang-after", hang_after], &["env", &fault, "python3", script]);
        (output.status.code(), text(&output.stderr).to_owned(), events(&report, "hang").len())
    };
    let (code, said, hangs) = delayed("1", 3000);
    assert_eq!((code, hangs), (Some(0), 0), "{said}");
    assert!(said.contains("COMPILING for ") && said.contains("`cuModuleLoadData` of a PTX of"), "{said}");
    assert!(!said.contains("HANG") && said.matches("COMPILING").count() == 1, "{said}");
    // After ten times as long, it may be a hang.
    let (code, said, hangs) = delayed("0.2", 4000);
    assert_eq!((code, hangs), (Some(12), 1), "{said}");
    assert!(said.contains("COMPILING for ") && said.contains("HANG for "), "{said}");
}

/// Where the audit does not read the lines of all threads, Python writes these itself.
#[test]
fn a_hang_that_ends_a_python_program_comes_with_its_lines() {
    needs_python!();
    let options = ["--hang-after", &hang_after(), "--on-hang", "abort"];
    let (output, _) = audit(&options, &["python3", "tests/audit_terminal/hangs.py", "alone"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{said}");
    if has_open_python() {
        assert!(said.contains("  where   hangs.py:62 <module>"), "{said}");
    } else {
        assert!(said.contains("hangs.py\", line 62 in"), "{said}");
    }
}

/// Programs that read the JSON do not have to make the commands that people get.
#[test]
fn the_json_has_the_commands_that_end_a_hang() {
    needs_python!();
    let program = ["python3", "tests/audit_terminal/hangs.py", "alone"];
    let file = scratch_folder().join("it's.preload");
    let recorded = options("--record", &file);
    let abort = ["--hang-after", &hang_after(), "--on-hang", "abort"];
    for (more, count) in [(&[][..], 2), (&recorded, 1)] {
        let (output, report) = audit(&[&abort, more].concat(), &program);
        let said = text(&output.stderr);
        let commands = events(&report, "hang")[0]["commands"].as_array().expect("a list").clone();
        assert_eq!(commands.len(), count, "{commands:?}");
        for command in commands {
            let command = command.as_str().expect("a text");
            assert!(command.ends_with(&format!(" {}", program.join(" "))), "{command}");
            assert!(said.contains(&format!("\n            {command}\n")), "{command}: {said}");
        }
    }
}

/// Python has such a handler: it writes its lines, also to a full pipe that nobody reads.
#[test]
fn a_handler_that_does_not_return_does_not_keep_a_program_that_hangs() {
    let program = "
static void waits(int signal) { for (;;) pause(); }
int main(void) { signal(SIGABRT, waits); start(); puts(\"hangs\"); fflush(stdout); cuCtxSynchronize(); puts(\"went on\"); }";
    let (mut command, folder) = beside_driver(&["--hang-after", "0.3", "--on-hang", "abort"]);
    let program = compiled(&folder, "program", &format!("{PROGRAM}{program}"), &[]);
    let (output, said) = said(command.arg(program).env("DRIVER_WAITS", "50"));
    assert_eq!((output.status.signal(), text(&output.stdout)), (Some(6), "hangs"), "{said}");
}

#[test]
fn python_is_told_to_write_its_lines_only_where_a_hang_ends_it() {
    let value = |options: &[&str], users: Option<&str>| {
        let mut command = simulated();
        command.env_remove("PYTHONFAULTHANDLER").envs(users.map(|value| ("PYTHONFAULTHANDLER", value)));
        let output = command.args(options).args(["sh", "-c", "echo \"${PYTHONFAULTHANDLER-none}\""]).output();
        text(&output.expect("it runs").stdout).to_owned()
    };
    assert_eq!(value(&["--on-hang", "abort"], None), "1");
    assert_eq!(value(&[], None), "none");
    assert_eq!(value(&["--on-hang", "abort"], Some("")), "", "the user has turned it off");
}

/// Builds these programs of the examples, and returns their paths.
pub(super) fn built(stories: &[&str]) -> Vec<String> {
    // The whole workspace is built, because its tests have built these programs already with the features of the workspace.
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--workspace"]);
    let status = build.args(stories.iter().flat_map(|story| ["--bin", story])).status();
    assert!(status.expect("cargo runs").success());
    let path = |story: &&str| Path::new(env!("CARGO_BIN_EXE_hardware")).with_file_name(story);
    stories.iter().map(|story| path(story).to_str().expect("a path in UTF-8").to_owned()).collect()
}

#[test]
fn stories_are_explained_cold_and_have_no_finding_warm() {
    let stories: [(&str, &[&str]); 3] = [
        ("two_kernels", &["kernel `set_flag(", "was not loaded when", "`spin_until_flag("]),
        ("persistent", &["`cuKernelGetFunction` for `sscal(", "`worker("]),
        ("stream_fence", &["`cuModuleLoadData`", "what came last there is a wait for a word in memory"]),
    ];
    let programs = stories.map(|(story, _)| story);
    for ((story, words), program) in stories.into_iter().zip(built(&programs)) {
        let program = &*program;
        let (output, report) = audit(&["--hang-after", "0.2"], &[program, "--cold"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{story}: {said}");
        let hangs = events(&report, "hang");
        assert_eq!(hangs.len(), 1, "{story}: {hangs:#?}");
        for word in [words, &["  cure    "]].concat() {
            assert!(said.contains(word), "{story}: {word}: {said}");
        }

        // The stories other than `stream_fence` say that they are ready, and then launch a kernel that is not warm.
        if story != "stream_fence" {
            // The program frees memory at its end, which waits until the kernel gives up.
            let refuse = ["--after-ready", "refuse", "--hang-after", "60"];
            let (output, report) = audit(&refuse, &[program, "--cold"]);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{story}: an error, and no deadlock: {said}");
            assert!(said.contains("REFUSED after the program was ready: `cu"), "{story}: {said}");
            assert!(events(&report, "hang").is_empty(), "{story}: {said}");
        }

        let (output, report) = audit(&["--after-ready", "refuse"], &[program]);
        assert!(output.status.success(), "{story}: {}", text(&output.stderr));
        assert!(report["processes"][0]["ready_ms"].is_number(), "{story} is sealed: {report:#}");
    }
}

/// The calls that wait in the stories are late loads of kernel-registry, which load and unload modules.
#[test]
fn stories_complete_cold_once_they_are_preloaded() {
    for program in built(&["two_kernels", "persistent"]) {
        let file = scratch_folder().join("story.preload");
        let run = |option| audit(&options(option, &file), &[&program, "--cold"]).0;
        let cold = run("--record");
        assert_eq!(cold.status.code(), Some(3), "{}", text(&cold.stderr));
        let preloaded = run("--preload");
        assert!(preloaded.status.success(), "{}{}", text(&preloaded.stdout), text(&preloaded.stderr));
    }
}

/// In this program rank 1 loads a kernel late beside a resident kernel, and rank 0 waits for rank 1.
#[test]
fn ranks_that_hang_are_explained_together_while_they_do() {
    needs_python!();
    let (records, preload) = (scratch_folder(), scratch_folder().join("late.preload"));
    let folder = records.to_str().unwrap();
    let mut watching = cargo_kernels_command();
    watching.args(["audit", "watch", folder]).stdout(Stdio::piped());
    let watching = watching.spawn().expect("it runs");
    let mut running = simulated();
    running.args(["--hang-after", "1", "--records", folder, "--record"]).arg(&preload);
    running.args(["python3", "frameworks/ranks.py", "4"]).stderr(Stdio::piped());
    let mut running = running.spawn().expect("it runs");
    let mut said = String::new();
    let mut lines = BufReader::new(running.stderr.take().expect("it is piped")).lines();
    let together = "HANG across 2 processes: rank 1 cannot go on before its device is idle, and the others may wait for it.";
    for line in &mut lines {
        said += &(line.expect("text") + "\n");
        if said.contains(together) && said.matches("  rank ").count() == 2 {
            break;
        }
    }

    assert!(running.try_wait().expect("it runs").is_none(), "it was said while they hang: {said}");
    lines.for_each(|line| said += &(line.expect("text") + "\n"));
    assert_eq!(running.wait().expect("it ended").code(), Some(3), "{said}");

    for line in [
        "  rank 1: in `cuLaunchKernel` for `late` for ",
        ", while `persistent` runs",
        "  rank 0: in `cuStreamSynchronize` for ",
        ", while `all_reduce` runs",
        "  cure    without a change to the program: load at the start what this run records\n            ",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let watched = watching.wait_with_output().expect("it ended when they had");
    assert!(text(&watched.stdout).contains(together), "{}", text(&watched.stdout));
    assert_eq!(watched.status.code(), Some(12));

    let preload = preload.to_str().unwrap();
    let (output, report) = audit(&["--preload", preload], &["python3", "frameworks/ranks.py", "4"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(report["findings"], 0, "{}", text(&output.stderr));
}

/// Two ranks: rank 1 loads a kernel late while another is resident, and rank 0 blocks on rank 1 outside of the driver.
#[test]
fn the_rank_that_waits_without_the_driver_is_named_with_its_line() {
    needs_python!();
    let program = r#"
import ctypes, os, socket, sys
ours, theirs = socket.socketpair()
rank = 0 if os.fork() else 1
os.environ['RANK'] = str(rank)
cuda = ctypes.CDLL('libcuda.so.1')
HEAD = b'.version 8.0\n.target sm_75\n.address_size 64\n'
SPIN = HEAD + b""".visible .entry spin(.param .u64 flag) {
.reg .pred %p; .reg .b32 %r; .reg .b64 %a;
ld.param.u64 %a, [flag];
again: ld.volatile.global.u32 %r, [%a];
setp.eq.u32 %p, %r, 0;
@%p bra again;
ret; }
"""
LATE = HEAD + b'.visible .entry late(.param .u64 flag) { ret; }'
def new(function, *arguments):
    handle = ctypes.c_void_p()
    assert function(ctypes.byref(handle), *arguments) == 0
    return handle
def launch(library, name, stream):
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(argument), ctypes.c_void_p))
    kernel = new(cuda.cuLibraryGetKernel, library, name)
    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None) == 0
assert cuda.cuInit(0) == 0
assert cuda.cuCtxSetCurrent(new(cuda.cuDevicePrimaryCtxRetain, 0)) == 0
spins, late = (new(cuda.cuLibraryLoadData, image, None, None, 0, None, None, 0) for image in (SPIN, LATE))
flag = new(cuda.cuMemHostAlloc, ctypes.c_size_t(4), 2)
ctypes.c_uint32.from_address(flag.value).value = 0
argument = ctypes.c_uint64(flag.value)
streams = [new(cuda.cuStreamCreate, 1) for _ in range(2)]
def rank_main():
    if rank == 0:
        launch(late, b'late', streams[0])
        ours.recv(1)
    else:
        launch(spins, b'spin', streams[0])
        launch(late, b'late', streams[1])
        cuda.cuStreamSynchronize(streams[1])
rank_main()
"#;
    let script = scratch_folder().join("tp.py");
    fs::write(&script, program).expect("a file");
    let line = program.lines().position(|line| line.contains("ours.recv(1)")).expect("a line") + 1;
    let mut running = simulated();
    running.args(["--hang-after", "2", "timeout", "-k", "1", "20", "python3"]).arg(script);
    let output = running.output().expect("it runs");
    let said = text(&output.stderr);
    assert!(said.contains("HANG across 2 processes: rank 1 cannot go on"), "{said}");
    let named = format!(
        "  rank 0: in no call that hangs, at tp.py:{line} rank_main, in ours.recv; launched `late` last"
    );
    assert!(!has_open_python() || said.contains(&named), "{named}: {said}");
}
