//! Tests that need a process of their own: a driver is what it is for as long as a process lives.

use std::env;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a test of this program, which is ignored otherwise, in a process with these variables, and returns what it wrote.
/// That it fails, or does not end, is a panic.
pub fn run(test: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env::current_exe().expect("a program knows where it is"));
    command.args([test, "--exact", "--ignored", "--nocapture"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in env::vars() {
        if name.starts_with("KERNEL_REGISTRY_SIM") || name.starts_with("CUDA_") {
            command.env_remove(name);
        }
    }
    let mut child = command.envs(variables.iter().copied()).spawn().expect("it is a program");
    let begun = Instant::now();
    while child.try_wait().expect("it is a child").is_none() && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(2));
    }
    // If it has ended that does nothing.
    let _ = child.kill();
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it has ended");
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success() && stdout.contains("1 passed"), "{variables:?}: {status}\n{stdout}{stderr}");
    stdout + &stderr
}
