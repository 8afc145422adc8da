//! Starts this executable again for each row, and waits for that process with a time limit.

use std::env;
use std::io;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::recording::{Manner, Mode, Outcome};

/// The time that a child gets in addition to ten times the limit of resident work. Even the slowest driver on
/// a busy machine needs less to start, and to continue after the resident kernel's end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Environment variables that change which operations block.
const DISTURBING: [&str; 3] =
    ["CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_DATA_LOADING"];

/// Runs a row in a separate process. Returns an error if this executable can't be started.
pub(crate) fn outcome(row: &str, mode: Mode, manner: Manner, limit: Duration) -> io::Result<Outcome> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--child", row, "--mode", &mode.to_string(), "--limit", &limit.as_secs().to_string()]);
    command.env("CUDA_MODULE_LOADING", mode.to_string().to_uppercase());
    match manner {
        Manner::Cold => {}
        Manner::Warmed => drop(command.arg("--warmed")),
        Manner::Guarded => drop(command.arg("--guarded")),
    }
    for name in DISTURBING {
        command.env_remove(name);
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let timeout = TIMEOUT + 10 * limit;
    let (output, in_time) = wait(child, timeout)?;
    Ok(if in_time { read(&output) } else { failed(format!("no answer after {timeout:?}")) })
}

/// Waits for a process, and kills it at the time limit.
fn wait(mut child: Child, timeout: Duration) -> io::Result<(Output, bool)> {
    let begun = Instant::now();
    let in_time = loop {
        if child.try_wait()?.is_some() {
            break true;
        }
        if begun.elapsed() > timeout {
            child.kill()?;
            break false;
        }
        thread::sleep(Duration::from_millis(2));
    };
    // Rows print little, so the pipe already holds all output.
    Ok((child.wait_with_output()?, in_time))
}

/// Reads the result from the last line that a process printed, because kernels may have printed earlier ones.
fn read(output: &Output) -> Outcome {
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().and_then(|line| serde_json::from_str(line).ok());
    last.unwrap_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let words = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing");
        failed(format!("ended with {}, and said: {words}", output.status))
    })
}

fn failed(error: String) -> Outcome {
    Outcome { error: Some(error), ..Outcome::ERROR }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;
    use crate::recording::Verdict;

    fn output(status: i32, stdout: &str, stderr: &str) -> Output {
        let status = ExitStatus::from_raw(status);
        Output { status, stdout: stdout.into(), stderr: stderr.into() }
    }

    #[test]
    fn the_result_is_the_last_line() {
        let printed = "printed by a kernel\n\n{\"result\":\"runs\",\"host_ms\":0.5}\n";
        let outcome = read(&output(0, printed, ""));
        assert_eq!((outcome.verdict, outcome.host_ms), (Verdict::Runs, Some(0.5)));
    }

    #[test]
    fn a_process_that_broke_off_is_an_error() {
        let outcome = read(&output(11, "printed by a kernel\n", "first\nlast words\n\n"));
        let error = outcome.error.unwrap();
        assert_eq!(outcome.verdict, Verdict::Error);
        assert!(error.contains("signal: 11") && error.ends_with("said: last words"), "{error}");
    }
}
