//! Runs the examples without a GPU: `CUDA_VISIBLE_DEVICES` hides the GPUs of this machine. Each example has to print one line and exit
//! with 2.

use std::process::Command;

/// Runs a program. Returns the exit code and the lines on standard error.
fn run(program: &str, arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    let output = Command::new(program).args(arguments).env("CUDA_VISIBLE_DEVICES", "").output();
    let output = output.expect("it starts");
    let lines = String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect();
    (output.status.code(), lines)
}

#[test]
fn without_a_gpu_an_example_prints_one_line() {
    for program in [
        env!("CARGO_BIN_EXE_persistent"),
        env!("CARGO_BIN_EXE_two_kernels"),
        env!("CARGO_BIN_EXE_stream_fence"),
        env!("CARGO_BIN_EXE_not_enough"),
    ] {
        for arguments in [&[][..], &["--cold"]] {
            let (code, lines) = run(program, arguments);
            assert_eq!((code, lines.len()), (Some(2), 1), "{program}: {lines:?}");
        }
    }
}
