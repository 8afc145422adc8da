//! Runs the stories, on a GPU or else on the simulated driver, which explains each deadlock.

use std::process::Command;

/// The exit code, and what is on standard output and standard error.
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
        // Kernels that wait for room on the device are not explained.
        let waits_for_room =
            [env!("CARGO_BIN_EXE_two_grids"), env!("CARGO_BIN_EXE_carve_out")].contains(&program);
        let explained =
            waits_for_room || err.contains("simulated CUDA driver: DEADLOCK: ") && err.contains("waits: ");
        assert!(!err.contains("SIMULATED: ") || explained, "{program}: {err}");
    }
}

/// It runs on GPUs only: the simulated driver has no runtime library.
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
fn the_others_complete() {
    for program in [
        env!("CARGO_BIN_EXE_quickstart"),
        env!("CARGO_BIN_EXE_loading_mode"),
        env!("CARGO_BIN_EXE_handle_lifetime"),
    ] {
        let (code, out, err) = run(program, &[]);
        assert_eq!(code, Some(0), "{program}: {out}{err}");
    }
}
