//! Lets cuda-gdb write a core dump of a process's GPUs. The process goes on afterwards.

use std::env;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry_command::terminal;
use kernel_registry_image::dump;

use super::target::{MAY_DEBUG, Target};
use crate::command::failure::Failure;

const DEBUGGER: &str = "cuda-gdb";

/// How long cuda-gdb may take to join. With PyTorch it takes ten seconds.
const LONGEST: Duration = Duration::from_secs(120);

/// How long it may take to leave when it's told to.
const MOMENT: Duration = Duration::from_secs(5);

/// Lets cuda-gdb write the core dump of a process into a folder. Returns its bytes.
pub(super) fn core_of(process: &Target, folder: &Path) -> Result<Vec<u8>, Failure> {
    // A name without a folder needs no quotes in cuda-gdb's language.
    const NAME: &str = "core";
    let refused = |why: String| Failure::NotJoined { process: process.number, why };
    let debugger = find().ok_or_else(|| {
        refused(format!(
            "that takes {DEBUGGER}, which is neither in `PATH` nor in `CUDA_HOME`: install the CUDA toolkit's, or only its package cuda-gdb"
        ))
    })?;
    if io::stderr().is_terminal() {
        terminal::say("cuda-gdb joins the process, which takes a second, or ten if it has loaded PyTorch");
    }
    let core = format!("generate-core-file --no-cpu --cuda-lightweight --cuda-core-file {NAME}");
    let said = folder.join("said");
    let mut command = Command::new(&debugger);
    // Without `-nx`, files in the current folder could give commands.
    command.args(["-nx", "-batch", "-p", &process.number.to_string(), "-ex", &core, "-ex", "detach"]);
    // NVIDIA's manual asks for the variable to be the same in both.
    match &process.temporary {
        Some(temporary) => command.env("TMPDIR", temporary),
        None => command.env_remove("TMPDIR"),
    };
    // Behind the audit it would watch itself.
    command.env_remove("LD_LIBRARY_PATH").env_remove("LD_AUDIT").current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(File::create(&said).map_err(Failure::of_io(&said))?);
    end_with_this_command(&mut command);
    let mut running = command.spawn().map_err(Failure::of_io(&debugger))?;
    let status = wait(&mut running).map_err(Failure::of_io(&debugger))?;
    if let Some(core) = fs::read(folder.join(NAME)).ok().filter(|bytes| dump::is_dump(bytes)) {
        return Ok(core);
    }
    let why = match status {
        Some(_) => in_words(&fs::read_to_string(&said).unwrap_or_default()),
        None => format!("it took longer than {} s, and was ended", LONGEST.as_secs()),
    };
    Err(refused(format!("{DEBUGGER} wrote no core dump: {why}")))
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

/// Waits for cuda-gdb, or ends it. Returns `None` if it took too long.
fn wait(running: &mut Child) -> io::Result<Option<ExitStatus>> {
    let until = |running: &mut Child, limit: Duration| -> io::Result<Option<ExitStatus>> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Some(status) = running.try_wait()? {
                return Ok(Some(status));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(None)
    };
    if let Some(status) = until(running, LONGEST)? {
        return Ok(Some(status));
    }
    if let Ok(number) = i32::try_from(running.id()) {
        // SAFETY: the child has not been waited for, so the number is its.
        unsafe { libc::kill(number, libc::SIGTERM) };
    }
    if until(running, MOMENT)?.is_none() {
        running.kill()?;
        running.wait()?;
    }
    Ok(None)
}

/// Returns what cuda-gdb says is wrong: it goes on after an error, and each of its next commands fails, too.
fn in_words(said: &str) -> String {
    const LATER: [&str; 3] =
        ["warning:", "You can't do that without a process", "The program is not being run"];
    let is_cause =
        |line: &&str| !line.trim().is_empty() && !LATER.iter().any(|later| line.starts_with(later));
    let Some(line) = said.lines().rfind(is_cause) else { return "it said nothing".to_owned() };
    let line: String = line.chars().filter(|c| !c.is_control()).take(300).collect();
    if line.starts_with("ptrace") {
        format!("{line} You may not debug this process: {MAY_DEBUG}")
    } else {
        line
    }
}

/// Returns the path of cuda-gdb.
fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let toolkits = toolkits.chain([PathBuf::from("/usr/local/cuda")]).map(|home| home.join("bin"));
    let is_program = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|its| its.is_file() && its.permissions().mode() & 0o111 != 0)
    };
    let folders = env::split_paths(&path).chain(toolkits).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(DEBUGGER)).find(is_program)
}
