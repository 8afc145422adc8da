//! Collects facts about this machine, with time limits and without changing anything.

use std::env;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use kernel_registry_command::driver::{Answer, Attribute, Device, Library, mapped_driver};

use super::facts::{ComputeMode, Context, Driver, Facts, Found, Gpu, Started};
use super::metadata;

/// The longest that a call may take. Some take seconds, because many GPUs have to wake up.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn facts(manifest: Option<&Path>) -> Facts {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    };
    Facts {
        variables: env::vars_os().map(text).filter(|(name, _)| name.starts_with("CUDA")).collect(),
        driver: driver(),
        compiler: kernel_registry_build::available().map_err(|error| error.to_string()),
        package: metadata::package(manifest),
    }
}

/// Asks the driver in a separate thread, which is left behind if a call never returns.
fn driver() -> Driver {
    let (calls, called) = mpsc::channel();
    let asking = thread::spawn(move || ask_driver(calls));
    let mut call = "dlopen";
    loop {
        match called.recv_timeout(TIMEOUT) {
            Ok(next) => call = next,
            Err(RecvTimeoutError::Timeout) => return Driver::Silent { call, seconds: TIMEOUT.as_secs() },
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn ask_driver(calls: Sender<&'static str>) -> Driver {
    let library = match Library::open(calls) {
        Ok(library) => library,
        Err(why) => return Driver::Missing { why },
    };
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let version = library.version();
    Driver::Found(Found {
        library: mapped_driver(&maps),
        simulated: library.is_simulated(),
        version: version.as_ref().ok().copied(),
        started: version.and_then(|_| started(&library)),
    })
}

fn started(library: &Library) -> Answer<Started> {
    library.init()?;
    let lazy = library.loads_lazily().ok();
    let gpus = (0..library.device_count()?).map(|ordinal| gpu(&library.device(ordinal)?));
    Ok(Started { lazy, gpus: gpus.collect::<Answer<_>>()? })
}

fn gpu(device: &Device<'_>) -> Answer<Gpu> {
    let is = |which| device.attribute(which).is_ok_and(|value| value != 0);
    Ok(Gpu {
        name: device.name()?,
        arch: device.attribute(Attribute::Major)? * 10 + device.attribute(Attribute::Minor)?,
        memory: device.memory()?,
        multiprocessors: device.attribute(Attribute::Multiprocessors)?,
        threads: device.attribute(Attribute::ThreadsEach)?,
        mode: match device.attribute(Attribute::ComputeMode)? {
            2 => ComputeMode::Prohibited,
            1 | 3 => ComputeMode::Exclusive,
            _ => ComputeMode::Shared,
        },
        watchdog: is(Attribute::Watchdog),
        // Older drivers do not know this attribute.
        mps: is(Attribute::Mps),
        context: device.in_context(|library| {
            Ok(Context { free: library.free_memory()?, stack: library.stack_limit()? })
        }),
    })
}
