//! The shared parts of the examples in `bin`, here called stories: how a story begins and ends, and helpers that several stories use.

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

/// The result of a step of a story, or an error.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The time limit of waits that would otherwise last for ever.
pub const LIMIT: Duration = Duration::from_secs(1);

/// How long the host waits until blocks have started for which the device has room. It is long because a simulated device is slow on a
/// busy machine.
pub const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the time limit of a wait. Without `--cold` no wait lasts for ever, so the limit is long, because a busy machine may be slow.
pub fn patience() -> Duration {
    if cold() { LIMIT } else { Duration::from_secs(60) }
}

/// Returns the time limit of resident kernels whose blocks wait for each other. It is longer on a simulated device, which runs threads one
/// after the other, and takes seconds on a busy machine.
pub fn stay_limit(context: &CudaContext) -> Outcome<Duration> {
    Ok(if context.name()?.starts_with("simulated ") { ARRIVAL_TIMEOUT } else { LIMIT })
}

/// The time limit of a whole story. It is long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(300);

/// How a story ends.
#[derive(Debug)]
pub enum Ending {
    /// Everything completed. The exit code is 0.
    Completed(String),
    /// A wait would have lasted for ever. The text says which wait, and why. The exit code is 3.
    Deadlock(String),
}

/// Returns whether the program was started with `--cold`: then kernels are left cold, so that the story ends in a deadlock.
pub fn cold() -> bool {
    env::args().any(|argument| argument == "--cold")
}

/// Installs this audit in front of the driver, before anything opens the driver. If there is no driver, installs it in front of the
/// simulated driver.
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

/// Tells an audit that the program is ready, although not all kernels are loaded. Without an audit this does nothing.
pub fn pretend_to_be_ready() {
    // An error means that there is no audit.
    let _ = kernel_audit::ready();
}

/// Returns a context of the first device. If there is no CUDA driver, installs the simulated driver, and prints a line about it.
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

/// Loads a module, as libraries do in the first call of some of their functions.
pub fn another_library(context: &CudaContext) -> Outcome {
    const MODULE: &CStr = c".version 7.0 .target sm_75 .address_size 64 .visible .entry elsewhere() { ret; }";
    context.bind_to_thread()?;
    // SAFETY: the text ends with a zero.
    unsafe { result::module::load_data(MODULE.as_ptr().cast())? };
    Ok(())
}

/// Prints an error with its sources.
pub fn print_error(error: &dyn Error) {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    eprintln!("{text}");
}

/// Runs a story with an audit, as [`tell`] does without one. With `--cold` there is no audit.
pub fn tell_watched(audit: &Audit, story: impl FnOnce(Arc<CudaContext>) -> Outcome<Ending>) -> ExitCode {
    match if cold() { Ok(()) } else { watch(audit) } {
        Ok(()) => tell(story),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Runs a story on the first device, and returns the exit code: 2 if there is no device, 1 if something fails.
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
