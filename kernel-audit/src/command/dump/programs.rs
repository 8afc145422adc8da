//! Finds and runs the programs that look at a process. While they do, the process can be halted.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::command::failure::Failure;

/// How long a program may take. With PyTorch cuda-gdb takes ten seconds.
pub(super) const LONGEST: Duration = Duration::from_secs(120);

/// The polling interval.
const SHORT: Duration = Duration::from_millis(20);

/// How long a program gets to exit after each signal.
const MOMENT: Duration = Duration::from_secs(5);

/// The most bytes of an output that are read.
const LARGEST: u64 = 64 << 20;

/// The signals on which a program has to leave the process before this command ends.
const ENDING: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// The signal that should end this command, or 0.
static ENDS: AtomicI32 = AtomicI32::new(0);

/// Set once the audited program has ended: a program that looks at it gets a [`MOMENT`] to exit.
static FINISHES: AtomicBool = AtomicBool::new(false);

/// Returns the path of a program in `PATH`, or in one of these folders.
pub(super) fn find(name: &str, others: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_program = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|its| its.is_file() && its.permissions().mode() & 0o111 != 0)
    };
    let folders = env::split_paths(&path).chain(others).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(is_program)
}

/// Lets a signal end the program that runs, and then this command.
pub(super) fn end_in_order() {
    extern "C" fn note(signal: libc::c_int) {
        ENDS.store(signal, Ordering::Relaxed);
    }
    for signal in ENDING {
        // SAFETY: the handler stores a number, which is allowed in the middle of anything.
        unsafe {
            if libc::signal(signal, note as extern "C" fn(_) as libc::sighandler_t) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
}

/// Lets signals end this command at once again, and fails if one should have.
pub(super) fn end_at_once() -> Result<(), Failure> {
    for signal in ENDING {
        // SAFETY: the call restores the default action of a signal, or that it's ignored.
        unsafe {
            if libc::signal(signal, libc::SIG_DFL) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
    check_signal()
}

fn check_signal() -> Result<(), Failure> {
    match ENDS.load(Ordering::Relaxed) {
        0 => Ok(()),
        signal => Err(Failure::Interrupted { signal }),
    }
}

/// Gives the program that runs a moment to end by itself.
pub(super) fn finish() {
    FINISHES.store(true, Ordering::Relaxed);
}

/// The captured stdout and stderr of a program.
#[derive(Default)]
pub(super) struct Outputs {
    pub(super) standard: Vec<u8>,
    pub(super) error: Vec<u8>,
}

/// Runs a program to its end, in a process group of its own: keys of the terminal stop or end only this command. Returns `None` if it took too
/// long, and was ended. The process at which it looks goes on in any case.
pub(super) fn run(command: &mut Command, process: u32) -> Result<Option<Outputs>, Failure> {
    check_signal()?;
    // A process that lives on could keep a pipe open.
    let files = || Ok([tempfile::tempfile()?, tempfile::tempfile()?]);
    let mut files = files().map_err(Failure::not_written(&env::temp_dir()))?;
    let program = PathBuf::from(command.get_program());
    let in_words = Failure::of_io(&program);
    let [standard, error] = [files[0].try_clone(), files[1].try_clone()];
    command.stdin(Stdio::null()).stdout(standard.map_err(&in_words)?).stderr(error.map_err(&in_words)?);
    // Behind the audit it would watch itself.
    command.env_remove("LD_LIBRARY_PATH").env_remove("LD_AUDIT");
    end_with_this_command(command.process_group(0));
    let end = command.spawn().and_then(|mut running| wait(&mut running)).map_err(&in_words)?;
    // `Target::find` refuses a process that was stopped before.
    if let (End::Killed, Ok(process)) = (end, i32::try_from(process)) {
        // SAFETY: the call takes numbers.
        unsafe { libc::kill(process, libc::SIGCONT) };
    }
    check_signal()?;
    if end == End::Killed && !FINISHES.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let [standard, error] = files.each_mut().map(written);
    Ok(Some(Outputs { standard: standard.map_err(&in_words)?, error: error.map_err(in_words)? }))
}

fn written(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Lets the kernel interrupt a program when this command ends: a process stays halted as long as a debugger has joined it, and a debugger
/// leaves the process when it's interrupted, but not when it's terminated.
fn end_with_this_command(command: &mut Command) {
    let end = || {
        // SAFETY: the call takes numbers, and only has an effect on this process.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the function makes one system call, and allocates nothing.
    unsafe { command.pre_exec(end) };
}

/// How a program ended: a debugger that's killed can leave the process stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Itself,
    Killed,
}

/// Waits for a program, and ends it if that takes too long, if a signal should end this command, or if the audited program has ended.
fn wait(running: &mut Child) -> io::Result<End> {
    let is_told = || ENDS.load(Ordering::Relaxed) != 0;
    let finishes = || FINISHES.load(Ordering::Relaxed);
    if ends_within(LONGEST, running, || is_told() || finishes())?
        || finishes() && ends_within(MOMENT, running, is_told)?
    {
        return Ok(End::Itself);
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        if let Ok(group) = i32::try_from(running.id()) {
            // SAFETY: the call takes numbers. The group has the number of the child, which may have left others in it.
            unsafe { libc::kill(-group, signal) };
        }
        if ends_within(MOMENT, running, || false)? {
            break;
        }
    }
    Ok(End::Killed)
}

/// Waits until a program ends, or for so long, or until there's a reason not to. Returns whether it has ended.
fn ends_within(limit: Duration, running: &mut Child, has_reason: impl Fn() -> bool) -> io::Result<bool> {
    let begun = Instant::now();
    while begun.elapsed() < limit && !has_reason() {
        if has_ended(running)? {
            return Ok(true);
        }
        thread::sleep(SHORT);
    }
    has_ended(running)
}

/// Returns whether a child has ended. The command that runs a program waits for all its children, also for this one.
fn has_ended(running: &mut Child) -> io::Result<bool> {
    match running.try_wait() {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(true),
        status => Ok(status?.is_some()),
    }
}
