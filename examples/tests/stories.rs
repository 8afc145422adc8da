//! Runs the examples on a GPU, or on the simulated driver, which explains each deadlock.

use std::process::Command;

/// Runs a program. Returns the exit code, the standard output and the standard error output.
fn run(program: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(program).args(arguments).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_deadlocks_cold_completes_warm() {
    for program in [
        env!("CARGO_BIN_EXE_two_kernels"),
        env!("CARGO_BIN_EXE_persistent"),
        env!("CARGO_BIN_EXE_stream_fence"),
        env!("CARGO_BIN_EXE_not_enough"),
        env!("CARGO_BIN_EXE_sealed"),
        env!("CARGO_BIN_EXE_two_grids"),
        env!("CARGO_BIN_EXE_carve_out"),
        env!("CARGO_BIN_EXE_freed_memory"),
        env!("CARGO_BIN_EXE_library_call"),
    ] {
        let (code, out, err) = run(program, &[]);
        assert_eq!(code, Some(0), "{program}: {out}{err}");
        let (code, out, err) = run(program, &["--cold"]);
        assert_eq!(code, Some(3), "{program}: {out}{err}");
        assert!(out.contains("DEADLOCK: "), "{program}: {out}");
        // The simulated driver does not explain kernels that wait for room on the device.
        let waits_for_room =
            [env!("CARGO_BIN_EXE_two_grids"), env!("CARGO_BIN_EXE_carve_out")].contains(&program);
        let explained =
            waits_for_room || err.contains("simulated CUDA driver: DEADLOCK: ") && err.contains("waits: ");
        assert!(!err.contains("SIMULATED: ") || explained, "{program}: {err}");
    }
}

/// Tests only that `linked` says why it does not run. It runs on GPUs only, because the simulated driver has no runtime library.
#[test]
fn linked_kernels_need_nvcc() {
    let (code, _, err) = run(env!("CARGO_BIN_EXE_linked"), &[]);
    if err.starts_with("LEFT OUT: this was built without nvcc") {
        assert_eq!(code, Some(2), "{err}");
    } else {
        eprintln!("LEFT OUT: `linked` was built with nvcc, and runs on a GPU only");
    }
}

#[test]
fn the_quickstart_completes() {
    let (code, out, err) = run(env!("CARGO_BIN_EXE_quickstart"), &[]);
    assert_eq!(code, Some(0), "{out}{err}");
}
