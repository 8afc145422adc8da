//! Lets cuda-gdb write a core dump of a process's GPUs. The process goes on afterwards.

use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kernel_registry_command::terminal;

use crate::command::failure::Failure;

const DEBUGGER: &str = "cuda-gdb";

/// Writes the core dump of a process into a folder. Returns its path.
pub(super) fn write_core(process: u32, folder: &Path) -> Result<PathBuf, Failure> {
    // A name without a folder needs no quotes in cuda-gdb's language.
    const NAME: &str = "core";
    let refused = |why: String| Failure::NotJoined { process, why };
    let debugger = find().ok_or_else(|| {
        refused(format!(
            "that takes {DEBUGGER}, which is neither in `PATH` nor in `CUDA_HOME`: install the CUDA toolkit's, or only its package cuda-gdb"
        ))
    })?;
    if io::stderr().is_terminal() {
        terminal::say("cuda-gdb joins the process, which takes a second, or ten if it has loaded PyTorch");
    }
    let core = format!("generate-core-file --no-cpu --cuda-lightweight --cuda-core-file {NAME}");
    let mut command = Command::new(&debugger);
    command.current_dir(folder);
    // Without `-nx`, files in the current folder could give commands.
    command.args(["-nx", "-batch", "-p", &process.to_string(), "-ex", &core, "-ex", "detach"]);
    // cuda-gdb would watch itself behind the audit.
    command.env_remove("LD_LIBRARY_PATH").env_remove("LD_AUDIT").stdin(Stdio::null());
    let output = command.output().map_err(Failure::of_io(&debugger))?;
    let file = folder.join(NAME);
    if file.exists() {
        return Ok(file);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said
        .lines()
        .rfind(|line| !line.trim().is_empty() && !line.starts_with("warning:"))
        .unwrap_or("it said nothing");
    let last: String = last.chars().filter(|c| !c.is_control()).take(300).collect();
    Err(refused(format!("{DEBUGGER} wrote no core dump: {last}")))
}

/// Returns the path of cuda-gdb.
fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let toolkits = toolkits.chain([PathBuf::from("/usr/local/cuda")]).map(|home| home.join("bin"));
    env::split_paths(&path).chain(toolkits).map(|folder| folder.join(DEBUGGER)).find(|file| file.is_file())
}
