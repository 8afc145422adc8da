//! Runs child processes that measure once and print numbers. Each measurement needs a new process, because
//! loaded code stays loaded.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Result;

/// A process that can be started any number of times.
pub struct Child(Command);

impl Child {
    /// Prepares to run this program.
    pub fn new(program: &Path) -> Self {
        Child(Command::new(program))
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: &str) -> Self {
        self.0.arg(arg);
        self
    }

    /// Sets an environment variable, replacing an earlier value.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs the process, and returns the numbers on the line that it prints.
    pub fn numbers(&mut self, timeout: Duration) -> Result<Vec<f64>> {
        let text = self.output(timeout)?;
        Ok(text.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?)
    }

    /// Runs the process, and returns its output. Kills it if it takes longer than `timeout`.
    pub fn output(&mut self, timeout: Duration) -> Result<String> {
        let mut child = self.0.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        // Both pipes are read while it runs, because a process with much output would block otherwise.
        let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("a process has no output".into());
        };
        let errors = thread::spawn(move || {
            let mut errors = String::new();
            stderr.read_to_string(&mut errors).map(|_| errors)
        });
        let (done, finished) = mpsc::channel();
        let output = thread::spawn(move || {
            let mut text = String::new();
            let read = stdout.read_to_string(&mut text);
            // The receiver is gone if the process was killed.
            let _ = done.send(());
            read.map(|_| text)
        });
        let begun = Instant::now();
        if finished.recv_timeout(timeout).is_err() {
            child.kill()?;
        }
        let status = child.wait()?;
        let [text, errors] = [output, errors].map(JoinHandle::join);
        let text = text.map_err(|_| "the reader of a process panicked")??;
        let errors = errors.map_err(|_| "the reader of a process panicked")??;
        match status.success() {
            true => Ok(text),
            false => {
                let seconds = begun.elapsed().as_secs();
                Err(format!("{status} after {seconds} s: {}", errors.trim()).into())
            }
        }
    }
}

/// Describes the device and the driver in one line.
pub fn device() -> Result<String> {
    let child = Child::new(Path::new("nvidia-smi"));
    let mut child = child.arg("--query-gpu=name,driver_version").arg("--format=csv,noheader");
    let gpus = child.output(Duration::from_secs(20)).map_err(|error| format!("`nvidia-smi`: {error}"))?;
    let cores = thread::available_parallelism()?;
    Ok(format!("{}; {cores} cores", gpus.lines().next().unwrap_or("no GPU")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_many_errors_ends() {
        let mut child = Child::new(Path::new("sh")).arg("-c").arg("yes | head -c 1000000 >&2; echo 1 2");
        assert_eq!(child.numbers(Duration::from_secs(20)).unwrap(), [1.0, 2.0]);
    }
}
