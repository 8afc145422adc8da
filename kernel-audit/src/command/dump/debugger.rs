//! Lets cuda-gdb join a process: it writes a core dump of the process's GPUs, reads the stacks of the threads, and leaves.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::host::{self, Thread};
use super::programs::{self, LONGEST, Outputs};
use super::target::{MAY_DEBUG, Target};
use crate::command::failure::Failure;

const DEBUGGER: &str = "cuda-gdb";

/// What cuda-gdb wrote, apart from the core dump.
pub(super) struct Joined {
    pub(super) threads: Vec<Thread>,
    /// Why there's no core dump, if there is none.
    pub(super) why_not: String,
}

/// Lets cuda-gdb write the core dump of a process to a file, which the process itself creates.
pub(super) fn join(process: &Target, file: &Path) -> Result<Joined, Failure> {
    let refused = |why: String| Failure::NotJoined { process: process.number, why };
    let debugger = find().ok_or_else(|| {
        refused(format!(
            "that takes {DEBUGGER}, which is neither in `PATH` nor in `CUDA_HOME`: install the CUDA toolkit's, or only its package cuda-gdb"
        ))
    })?;
    let file = quoted(file).ok_or_else(|| refused(format!("cuda-gdb can't write to {}", file.display())))?;
    let core = format!("generate-core-file --no-cpu --cuda-lightweight --cuda-core-file {file}");
    let mut command = Command::new(debugger);
    // Without `-nx`, files in the current folder could give commands.
    command.args(["-nx", "-batch", "-p", &process.number.to_string()]);
    command.args(["-ex", &core, "-ex", &host::command(), "-ex", "detach"]);
    // NVIDIA's manual asks for the variable to be the same in both.
    match &process.temporary {
        Some(temporary) => command.env("TMPDIR", temporary),
        None => command.env_remove("TMPDIR"),
    };
    // Its messages are looked at, and paths can have any characters. Its Python obeys variables of the user's Python.
    command.env("LC_ALL", "C.UTF-8").env_remove("PYTHONPATH").env_remove("PYTHONHOME");
    match programs::run(&mut command, process.number)? {
        Some(Outputs { standard, error }) => {
            let threads = host::threads_of(&standard);
            Ok(Joined { threads, why_not: why_not(&String::from_utf8_lossy(&error)) })
        }
        None => Err(refused(format!("{DEBUGGER} took longer than {} s, and was ended", LONGEST.as_secs()))),
    }
}

/// Returns a path as cuda-gdb's commands take it.
fn quoted(path: &Path) -> Option<String> {
    let path = path.to_str().filter(|path| !path.contains(char::is_control))?;
    Some(format!("\"{}\"", path.replace('\\', r"\\").replace('"', r#"\""#)))
}

/// Returns why there is no core dump, by what cuda-gdb says: it goes on after an error, and each of its next commands fails,
/// too.
fn why_not(said: &str) -> String {
    const CAUSE: &str = "warning: Cannot create GPU core dump";
    const OTHERS: [&str; 5] = [
        "warning:",
        "You can't do that without a process",
        "The program is not being run",
        "Python scripting is not supported",
        "Error while executing Python code",
    ];
    // A source file that it doesn't find.
    const SOURCE: &str = ": No such file or directory.";
    let is_other = |line: &str| {
        line.trim().is_empty() || line.ends_with(SOURCE) || OTHERS.iter().any(|other| line.starts_with(other))
    };
    let is_cause = |line: &&str| line.starts_with(CAUSE) || !is_other(line);
    let line = said.lines().rfind(is_cause).unwrap_or("it said nothing");
    let line: String = line.chars().filter(|c| !c.is_control()).take(300).collect();
    let right = if line.starts_with("ptrace") {
        format!(" You may not debug this process: {MAY_DEBUG}")
    } else {
        String::new()
    };
    format!("{DEBUGGER} wrote no core dump: {line}{right}")
}

/// Returns the path of cuda-gdb.
pub(super) fn find() -> Option<PathBuf> {
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let toolkits = toolkits.chain([PathBuf::from("/usr/local/cuda")]);
    programs::find(DEBUGGER, toolkits.map(|home| home.join("bin")))
}
