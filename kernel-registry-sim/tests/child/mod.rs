//! Runs tests in child processes, because a process cannot change the configuration of its driver.

use std::env;
use std::process::{Command, Output};

/// Runs an ignored test of this test executable in a child process with these environment variables, and returns its
/// output. Panics if the test fails or takes more than five minutes.
pub fn run(test: &str, variables: &[(&str, &str)]) -> String {
    let program = env::current_exe().expect("a program knows where it is");
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "300"]).arg(program).args([test, "--exact", "--ignored", "--nocapture"]);
    for (name, _) in env::vars() {
        if name.starts_with("KERNEL_REGISTRY_SIM_") || name.starts_with("CUDA_") {
            command.env_remove(name);
        }
    }
    let output = command.envs(variables.iter().copied()).output().expect("coreutils are there");
    let Output { status, stdout, stderr } = output;
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success() && stdout.contains("1 passed"), "{variables:?}: {status}\n{stdout}{stderr}");
    stdout + &stderr
}
