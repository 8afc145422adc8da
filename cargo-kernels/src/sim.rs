//! `cargo kernels sim`: runs any program on the simulated driver.
//!
//! `shared` builds the driver as a shared library, `folder` puts it where the loader looks, without functions newer
//! than the simulated version, and `about` prints a summary. Then the program replaces this process, so that exit
//! code and signals are its own.

mod about;

use std::env;
use std::ffi::OsString;
use std::iter;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::{self, Sim};
use crate::doctor::facts::Refused;
use crate::doctor::libcuda::Library;
use crate::failure::Failure;
use crate::folder;
use crate::shared::{self, Built, SIM};
use crate::terminal;

pub(crate) fn run(options: &Sim) -> Result<(), Failure> {
    let Some((program, arguments)) = cli::program(&options.command)? else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments);

    let built = shared::built(&SIM, options.offline)?;
    for (name, value) in variables(options) {
        // SAFETY: this process has only had one thread so far, so no other thread reads the environment.
        unsafe { env::set_var(name, value) };
    }
    for name in OF_CALLS {
        if let Some(value) = env::var_os(name) {
            command.env(name, value);
            // SAFETY: as above.
            unsafe { env::remove_var(name) };
        }
    }
    let (folder, driver) = prepare(&built)?;
    let refused =
        |refused: Refused| Failure::NotLoaded { path: built.library.clone(), why: refused.to_string() };
    terminal::say(format_args!("SIMULATED: {}", about::sentence(&driver).map_err(refused)?));

    let error = command.env("LD_LIBRARY_PATH", first(&folder)).exec();
    Err(Failure::NotRun { program: program.clone(), error })
}

/// Puts the driver into the folder where the loader finds it, and opens it.
pub(crate) fn prepare(built: &Built) -> Result<(PathBuf, Library), Failure> {
    let useless = |why| Failure::NotLoaded { path: built.library.clone(), why };
    let driver = Library::open_file(&built.library).map_err(useless)?;
    let version = driver.version().map_err(|refused| useless(refused.to_string()))?;
    let folder = built.folder.join(format!("for-{}", version));
    folder::fill(&folder, &built.library, |name| driver.offers(name, version))?;
    Ok((folder, driver))
}

/// Variables for the calls of the program. They must not affect the calls made here to describe the driver.
const OF_CALLS: [&str; 2] = ["KERNEL_REGISTRY_SIM_FAULTS", "KERNEL_REGISTRY_SIM_TIMING"];

/// The variables that configure the driver.
fn variables(options: &Sim) -> impl Iterator<Item = (String, &str)> {
    let given = [("DEVICES", &options.devices), ("DRIVER", &options.driver), ("DEADLOCK", &options.deadlock)];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let set = options.set.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    given.chain(set).map(|(name, value)| (format!("KERNEL_REGISTRY_SIM_{name}"), value))
}

/// `LD_LIBRARY_PATH` with this folder in front.
pub(crate) fn first(folder: &Path) -> OsString {
    let before = env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
    let folders = iter::once(folder.as_os_str().to_owned()).chain(before);
    folders.collect::<Vec<_>>().join(":".as_ref())
}
