//! Lets cuda-gdb write a core dump of a process's GPUs. The process goes on afterwards.

use std::env;
use std::fs;
use std::io::{self, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry_command::Failure as Shared;

use super::target::{MAY_DEBUG, Target};
use crate::command::failure::Failure;

const DEBUGGER: &str = "cuda-gdb";

/// How long cuda-gdb may take to join. With PyTorch it takes ten seconds.
const LONGEST: Duration = Duration::from_secs(120);

/// Between two looks at it.
const SHORT: Duration = Duration::from_millis(20);

/// How long it may take to leave when it's told to.
const MOMENT: Duration = Duration::from_secs(5);

/// The signal that should end this command, or 0.
static ENDS: AtomicI32 = AtomicI32::new(0);

/// Lets a signal end cuda-gdb first, and then this command: a process stays halted as long as a debugger has joined it.
pub(super) fn end_in_order() {
    extern "C" fn note(signal: libc::c_int) {
        ENDS.store(signal, Ordering::Relaxed);
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler stores a number, which is allowed in the middle of anything.
        unsafe {
            if libc::signal(signal, note as extern "C" fn(_) as libc::sighandler_t) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
}

/// Lets cuda-gdb write the core dump of a process to a file, which the process itself creates. Returns what cuda-gdb says.
pub(super) fn write_core(process: &Target, file: &Path) -> Result<String, Failure> {
    let refused = |why: String| Failure::NotJoined { process: process.number, why };
    let debugger = find().ok_or_else(|| {
        refused(format!(
            "that takes {DEBUGGER}, which is neither in `PATH` nor in `CUDA_HOME`: install the CUDA toolkit's, or only its package cuda-gdb"
        ))
    })?;
    let file = quoted(file).ok_or_else(|| refused(format!("cuda-gdb can't write to {}", file.display())))?;
    let core = format!("generate-core-file --no-cpu --cuda-lightweight --cuda-core-file {file}");
    let temporary = env::temp_dir();
    let no_file = Shared::not_written(&temporary);
    let mut said = tempfile::tempfile().map_err(no_file)?;
    let mut command = Command::new(&debugger);
    // Without `-nx`, files in the current folder could give commands.
    command.args(["-nx", "-batch", "-p", &process.number.to_string(), "-ex", &core, "-ex", "detach"]);
    // NVIDIA's manual asks for the variable to be the same in both.
    match &process.temporary {
        Some(temporary) => command.env("TMPDIR", temporary),
        None => command.env_remove("TMPDIR"),
    };
    // Behind the audit it would watch itself.
    command.env_remove("LD_LIBRARY_PATH").env_remove("LD_AUDIT").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(said.try_clone().map_err(no_file)?);
    end_with_this_command(&mut command);
    let mut running = command.spawn().map_err(Failure::of_io(&debugger))?;
    let has_ended = wait(&mut running).map_err(Failure::of_io(&debugger))?;
    match ENDS.load(Ordering::Relaxed) {
        0 if has_ended => {
            let mut text = String::new();
            let read = said.rewind().and_then(|()| said.read_to_string(&mut text));
            read.map_err(no_file)?;
            Ok(text)
        }
        0 => Err(refused(format!("{DEBUGGER} took longer than {} s, and was ended", LONGEST.as_secs()))),
        signal => Err(Failure::Killed { signal }),
    }
}

/// Returns a path as cuda-gdb's commands take it.
fn quoted(path: &Path) -> Option<String> {
    let path = path.to_str().filter(|path| !path.contains(char::is_control))?;
    Some(format!("\"{}\"", path.replace('\\', r"\\").replace('"', r#"\""#)))
}

/// Lets the kernel end a program when this command ends: a process stays halted as long as a debugger has joined it.
fn end_with_this_command(command: &mut Command) {
    let end = || {
        // SAFETY: the call takes numbers, and only has an effect on this process.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the function makes one system call, and allocates nothing.
    unsafe { command.pre_exec(end) };
}

/// Waits for cuda-gdb. If that takes too long, or if a signal should end this command, cuda-gdb is ended. Returns whether it
/// ended by itself.
fn wait(running: &mut Child) -> io::Result<bool> {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST && ENDS.load(Ordering::Relaxed) == 0 {
        if has_ended(running)? {
            return Ok(true);
        }
        thread::sleep(SHORT);
    }
    if let Ok(number) = i32::try_from(running.id()) {
        // SAFETY: the child has not been waited for, so the number is its.
        unsafe { libc::kill(number, libc::SIGTERM) };
    }
    let told = Instant::now();
    while told.elapsed() < MOMENT {
        if has_ended(running)? {
            return Ok(false);
        }
        thread::sleep(SHORT);
    }
    running.kill()?;
    while !has_ended(running)? {
        thread::sleep(SHORT);
    }
    Ok(false)
}

/// Returns whether a child has ended. The command that runs a program waits for all its children, also for this one.
fn has_ended(running: &mut Child) -> io::Result<bool> {
    match running.try_wait() {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(true),
        status => Ok(status?.is_some()),
    }
}

/// Returns why there is no core dump, by what cuda-gdb says: it goes on after an error, and each of its next commands fails,
/// too.
pub(super) fn why_not(said: &str) -> String {
    const CAUSE: &str = "warning: Cannot create GPU core dump";
    const OTHERS: [&str; 3] =
        ["warning:", "You can't do that without a process", "The program is not being run"];
    let is_other = |line: &str| line.trim().is_empty() || OTHERS.iter().any(|other| line.starts_with(other));
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
    let path = env::var_os("PATH").unwrap_or_default();
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let toolkits = toolkits.chain([PathBuf::from("/usr/local/cuda")]).map(|home| home.join("bin"));
    let is_program = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|its| its.is_file() && its.permissions().mode() & 0o111 != 0)
    };
    let folders = env::split_paths(&path).chain(toolkits).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(DEBUGGER)).find(is_program)
}
