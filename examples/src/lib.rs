//! What the stories share: how they begin and end, and who appears in more than one of them.

mod fence;
mod loaded;
mod mapped;
mod resident;
mod worker;

use std::env;
use std::error::Error;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kernel_registry::DriverUnavailable;
use kernel_registry::cudarc::driver::CudaContext;

pub use fence::Fence;
pub use loaded::Loaded;
pub use mapped::Mapped;
pub use resident::Resident;
pub use worker::Worker;

/// What a story does, or the first thing that went wrong.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// After this time whoever waits in a story for ever gives up, so that nothing hangs, and the story ends.
pub const LIMIT: Duration = Duration::from_secs(1);

/// No story takes so long.
const DEADLINE: Duration = Duration::from_secs(60);

/// How a story ends.
#[derive(Debug)]
pub enum Ending {
    /// All is done. Exit code 0.
    Completed(String),
    /// Somebody waited for ever: who for whom, and by which rule. Exit code 3.
    Deadlock(String),
}

/// Whether kernels are to be left cold, so that the story goes wrong.
pub fn cold() -> bool {
    env::args().any(|argument| argument == "--cold")
}

/// The first device; on a machine without a CUDA driver a simulated one, and then a line says so.
pub fn device() -> Outcome<Arc<CudaContext>> {
    match kernel_registry::context(0) {
        Err(DriverUnavailable::Missing) => {
            kernel_registry_sim::install()?;
            let context = kernel_registry::context(0)?;
            eprintln!(
                "SIMULATED: there is no CUDA driver here, so this runs on the one of kernel-registry-sim"
            );
            Ok(context)
        }
        found => Ok(found?),
    }
}

/// Tells a story on the first device. Without one it ends with exit code 2, and with 1 if something fails.
pub fn tell(story: impl FnOnce(Arc<CudaContext>) -> Outcome<Ending>) -> ExitCode {
    let context = match device() {
        Ok(context) => context,
        Err(error) => {
            eprintln!("{error}");
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
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
