//! Finds the program of a worker that Python's multiprocessing started. The worker's own command line names only
//! multiprocessing, and its parent may never call the driver, so that no record has the program's.

use std::fs;
use std::path::PathBuf;
use std::process;

use crate::watch::process::system::stat;

/// The most ancestors to look at. Workers can start workers, and the fork server is one more process in between.
const ANCESTORS: usize = 16;

/// Returns the command line of the program, if `command` is that of a worker in an interpreter of its own. Workers
/// that the program forks have its command line anyway.
pub(crate) fn program(command: &[String]) -> Option<Vec<String>> {
    if !is_worker(command) {
        return None;
    }
    let interpreter = interpreter(process::id())?;
    let mut number = process::id();
    for _ in 0..ANCESTORS {
        number = parent(number)?;
        // Multiprocessing starts its own interpreter again. Anything else adopted a worker whose parent has ended.
        if self::interpreter(number)? != interpreter {
            return None;
        }
        let command = command_of(number)?;
        if !is_worker(&command) {
            return Some(command);
        }
    }
    None
}

/// Returns whether a command line is that of a worker, or of the fork server, from which workers are forked.
fn is_worker(command: &[String]) -> bool {
    const CODE: [&str; 2] = ["from multiprocessing.spawn import ", "from multiprocessing.forkserver import "];
    let is_code = |words: &[String]| words[0] == "-c" && CODE.iter().any(|code| words[1].starts_with(code));
    command.windows(2).any(is_code)
}

fn interpreter(process: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/exe")).ok()
}

fn parent(process: u32) -> Option<u32> {
    const PARENT: usize = 1;
    stat(process, PARENT)
}

fn command_of(process: u32) -> Option<Vec<String>> {
    let bytes = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let words = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut words: Vec<_> = words.collect();
    // A zero ends each word, also the last.
    words.pop_if(|word| word.is_empty());
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &str) -> Vec<String> {
        command.split('|').map(str::to_owned).collect()
    }

    #[test]
    fn workers_are_known_by_the_code_that_multiprocessing_gives_the_interpreter() {
        for worker in [
            "/usr/bin/python3|-c|from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=7)|--multiprocessing-fork",
            "python3|-X|dev|-c|from multiprocessing.forkserver import main; main(5, 7, ['__main__'])",
        ] {
            assert!(is_worker(&words(worker)), "{worker}");
        }
        for other in ["", "python3|serve.py", "python3|-c", "grep|from multiprocessing.spawn import x"] {
            assert!(!is_worker(&words(other)), "{other}");
        }
    }

    #[test]
    fn the_command_line_of_a_process_is_split_as_it_was() {
        let own: Vec<_> = std::env::args().collect();
        assert_eq!(command_of(process::id()), Some(own));
        assert_eq!(parent(process::id()), Some(std::os::unix::process::parent_id()));
    }

    /// This process was not started by multiprocessing, whatever the command line says.
    #[test]
    fn an_ancestor_that_runs_another_executable_is_not_the_program() {
        assert_eq!(program(&words("python3|-c|from multiprocessing.spawn import spawn_main")), None);
    }
}
