//! Runs the stories without a GPU: `CUDA_VISIBLE_DEVICES` hides those of this machine.

use std::process::Command;

/// The exit code, and the lines on standard error.
fn run(program: &str, arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    let output = Command::new(program).args(arguments).env("CUDA_VISIBLE_DEVICES", "").output();
    let output = output.expect("it starts");
    let lines = String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect();
    (output.status.code(), lines)
}

#[test]
fn a_story_ends_with_one_sentence() {
    for program in [
        env!("CARGO_BIN_EXE_persistent"),
        env!("CARGO_BIN_EXE_two_kernels"),
        env!("CARGO_BIN_EXE_stream_fence"),
        env!("CARGO_BIN_EXE_not_enough"),
        env!("CARGO_BIN_EXE_loading_mode"),
        env!("CARGO_BIN_EXE_handle_lifetime"),
        env!("CARGO_BIN_EXE_benchmark"),
    ] {
        for arguments in [&[][..], &["--cold"]] {
            let (code, lines) = run(program, arguments);
            assert_eq!((code, lines.len()), (Some(2), 1), "{program}: {lines:?}");
        }
    }
}
