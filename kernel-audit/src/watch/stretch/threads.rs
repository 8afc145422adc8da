//! Lists the threads of this process, and which of them run.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A thread that runs, or waits for a disk.
pub(super) struct Running {
    pub(super) number: u32,
    /// Whether it waits for a disk.
    pub(super) waits: bool,
    /// The signals that the thread blocks, of the first 31.
    blocked: u64,
}

impl Running {
    /// Returns whether the thread blocks this signal, of the first 31.
    pub(super) fn blocks(&self, signal: i32) -> bool {
        self.blocked >> (signal - 1) & 1 == 1
    }
}

/// Lists the threads of the program that run, without those of the audit.
pub(super) fn running() -> Vec<Running> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads
        .filter_map(|entry| {
            let number = std::str::from_utf8(entry.file_name().as_bytes()).ok()?.parse().ok()?;
            read(number, &entry.path().join("stat"))
        })
        .collect()
}

fn read(number: u32, path: &Path) -> Option<Running> {
    let mut text = [0; 1024];
    let length = File::open(path).ok()?.read(&mut text).ok()?;
    parse(number, &text[..length])
}

/// Parses the line of a thread: its number, its name in brackets, its state, and numbers.
fn parse(number: u32, line: &[u8]) -> Option<Running> {
    let name = line.iter().position(|byte| *byte == b'(')? + 1;
    let end = line.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(line.get(end + 1..)?).ok()?.split_ascii_whitespace();
    let is_own = line.get(name..end)? == b"kernel-registry";
    let waits = match fields.next()? {
        "R" => false,
        "D" => true,
        _ => return None,
    };
    /// The fields between the state and the blocked signals.
    const BETWEEN: usize = 28;
    let running = Running { number, waits, blocked: fields.nth(BETWEEN)?.parse().ok()? };
    (!is_own).then_some(running)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_is_told_by_its_line() {
        let line = |name: &str, state: &str| {
            format!(
                "7 ({name}) {state} 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 9 9 9 9 1 1 0 0 0 0 4194304 4096 0 0 0"
            )
        };
        let parsed = |name, state| parse(7, line(name, state).as_bytes());
        let runs = parsed(") R (", "R").expect("it runs");
        assert!(runs.blocks(libc::SIGURG) && !runs.blocks(libc::SIGINT));
        assert!(parsed("a", "D").is_some_and(|thread| thread.waits) && parsed("a", "S").is_none());
        assert!(parsed("kernel-registry", "R").is_none() && parse(7, b"7 (a").is_none());
        let own = crate::watch::process::system::thread_number();
        assert!(running().iter().any(|thread| thread.number == own));
    }
}
