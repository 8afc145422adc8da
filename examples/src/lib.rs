//! The shared parts of the stories: how they begin and end, and the helpers that several use.

mod fence;
mod loaded;
mod resident;
mod worker;

use std::env;
use std::error::Error;
use std::ffi::CStr;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kernel_audit::{Audit, InstallError};
use kernel_registry::DriverUnavailable;
use kernel_registry::cudarc::driver::{CudaContext, result};

pub use fence::Fence;
pub use loaded::Loaded;
pub use resident::Resident;
pub use worker::{N, Vectors, Worker};

/// The result of a step of a story, or the first error.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The longest wait in a story. A wait that would last for ever is given up after this time.
pub const LIMIT: Duration = Duration::from_secs(1);

/// How long the host waits for blocks that have room. On a busy machine a simulated device is slow.
pub const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(20);

/// When a wait is given up. Without `--cold` nothing waits, and a busy machine may be slow.
pub fn patience() -> Duration {
    if cold() { LIMIT } else { Duration::from_secs(60) }
}

/// The longest run of resident kernels whose blocks wait for each other. A simulated device runs their threads one after the other, which takes
/// seconds on a busy machine.
pub fn stay_limit(context: &CudaContext) -> Outcome<Duration> {
    Ok(if context.name()?.starts_with("simulated ") { ARRIVAL_TIMEOUT } else { LIMIT })
}

/// The longest time for a whole story, on a busy machine, too.
const DEADLINE: Duration = Duration::from_secs(300);

/// The ways in which a story ends.
#[derive(Debug)]
pub enum Ending {
    /// Everything completed. Exit code 0.
    Completed(String),
    /// A wait would have lasted for ever. The text says which, and why. Exit code 3.
    Deadlock(String),
}

/// Whether to leave kernels cold, so that the story goes wrong.
pub fn cold() -> bool {
    env::args().any(|argument| argument == "--cold")
}

/// Puts this audit in front of the driver, before anything opens it. Without a driver, in front of the simulated one.
pub fn watch(audit: &Audit) -> Outcome {
    match audit.clone().install() {
        Err(InstallError::NoDriver { .. }) => {
            kernel_registry_sim::install()?;
            eprintln!("SIMULATED: there is no CUDA driver here, so this runs on kernel-registry-sim");
            audit.clone().install()?;
        }
        installed => _ = installed?,
    }
    Ok(())
}

/// Tells an audit that everything is loaded that should be, though it is not. Without an audit this does nothing.
pub fn pretend_to_be_ready() {
    // The story is the same if nobody listens.
    let _ = kernel_audit::ready();
}

/// A context on the first device. Without a CUDA driver it installs the simulated one, and prints a line about it.
pub fn device() -> Outcome<Arc<CudaContext>> {
    match kernel_registry::context(0) {
        Err(DriverUnavailable::Missing) => {
            kernel_registry_sim::install()?;
            let context = kernel_registry::context(0)?;
            eprintln!("SIMULATED: there is no CUDA driver here, so this runs on kernel-registry-sim");
            Ok(context)
        }
        found => Ok(found?),
    }
}

/// Loads a module, as libraries do in the first call of some function.
pub fn another_library(context: &CudaContext) -> Outcome {
    const MODULE: &CStr = c".version 7.0 .target sm_75 .address_size 64 .visible .entry elsewhere() { ret; }";
    context.bind_to_thread()?;
    // SAFETY: the text ends with a zero. The module stays loaded.
    unsafe { result::module::load_data(MODULE.as_ptr().cast())? };
    Ok(())
}

/// Prints an error with its causes.
pub fn print_error(error: &dyn Error) {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    eprintln!("{text}");
}

/// Runs a story that watches itself, unless it is cold: see [`tell`].
pub fn tell_watched(audit: &Audit, story: impl FnOnce(Arc<CudaContext>) -> Outcome<Ending>) -> ExitCode {
    match if cold() { Ok(()) } else { watch(audit) } {
        Ok(()) => tell(story),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Runs a story on the first device. Exits with 2 if there is no device, and with 1 if something fails.
pub fn tell(story: impl FnOnce(Arc<CudaContext>) -> Outcome<Ending>) -> ExitCode {
    let context = match device() {
        Ok(context) => context,
        Err(error) => {
            print_error(&*error);
            return ExitCode::from(2);
        }
    };
    thread::spawn(|| {
        thread::sleep(DEADLINE);
        eprintln!("not done after {DEADLINE:?}, although nothing here waits for so long");
        process::exit(4);
    });
    match story(context) {
        Ok(Ending::Completed(words)) => {
            println!("{words}");
            ExitCode::SUCCESS
        }
        Ok(Ending::Deadlock(words)) => {
            println!("DEADLOCK: {words}");
            ExitCode::from(3)
        }
        Err(error) => {
            print_error(&*error);
            ExitCode::FAILURE
        }
    }
}
