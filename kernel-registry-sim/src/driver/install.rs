//! How this process comes to have the simulated driver: as a shared library of the real one's name, which is opened
//! before anybody else opens that name.

use std::error::Error;
use std::ffi::{CStr, CString};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process;
use std::sync::Mutex;

use super::config::Config;
use super::process::Simulator;
use super::{calls, elf};

/// What tells this library from NVIDIA's.
const MARKER: &CStr = c"kernelRegistrySimulatedDriver";

/// Makes the simulated driver that of this process, as its [environment](Config::from_environment) says. Twice is as good as
/// once.
///
/// From then on whoever opens `libcuda.so` gets it, cudarc included, also where there is a real driver.
///
/// ```
/// kernel_registry_sim::install()?;
/// # Ok::<(), kernel_registry_sim::InstallError>(())
/// ```
pub fn install() -> Result<(), InstallError> {
    Config::from_environment().install()
}

impl Config {
    /// Makes a driver of this configuration that of this process. If there is one, it stays as it was.
    pub fn install(self) -> Result<(), InstallError> {
        static INSTALLED: Mutex<bool> = Mutex::new(false);
        let mut installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *installed {
            return Ok(());
        }
        let version = self.version;
        Simulator::start(self);
        open(version)?;
        *installed = true;
        Ok(())
    }
}

fn open(version: i32) -> Result<(), InstallError> {
    let entries = calls::all().filter(|entry| entry.since <= version);
    let mut symbols: Vec<_> =
        entries.map(|entry| (entry.name, entry.address.expose_provenance() as u64)).collect();
    let marker = MARKER.to_str().unwrap_or_default();
    symbols.push((marker, 1));
    let object = elf::shared_object("libcuda.so", &symbols);

    // SAFETY: the name ends with a zero, and the descriptor is nobody else's.
    let mut file = unsafe {
        let descriptor = libc::memfd_create(c"libcuda.so".as_ptr(), 0);
        if descriptor < 0 {
            return Err(InstallError::File(io::Error::last_os_error()));
        }
        File::from_raw_fd(descriptor)
    };
    file.write_all(&object).map_err(InstallError::File)?;
    // Not `/proc/self`: a debugger opens the file too, and would open its own.
    let path = format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd());
    let path = CString::new(path).map_err(|error| InstallError::File(error.into()))?;
    // SAFETY: the library has no code that could run, and its symbols are functions of this program.
    if unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) }.is_null() {
        // SAFETY: after a failure there is a text, of this thread.
        let text = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(InstallError::Loader(text.to_string_lossy().into_owned()));
    }
    // SAFETY: the library of this name is this one, or one that is open already.
    let found = unsafe { libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW) };
    // SAFETY: the handle is that of an open library.
    let is_ours = !found.is_null() && !unsafe { libc::dlsym(found, MARKER.as_ptr()) }.is_null();
    if is_ours { Ok(()) } else { Err(InstallError::AlreadyOpen) }
}

/// Why the simulated driver could not be installed.
#[derive(Debug)]
#[non_exhaustive]
pub enum InstallError {
    /// The real driver is in use already.
    AlreadyOpen,
    /// The library could not be made.
    File(io::Error),
    /// The system's loader refused it.
    Loader(String),
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyOpen => f.write_str(
                "this process has opened NVIDIA's `libcuda.so` already; install the simulated driver before CUDA is used",
            ),
            Self::File(error) => {
                write!(f, "the simulated driver needs a file in memory: {error}; allow `memfd_create`")
            }
            Self::Loader(text) => {
                write!(f, "the simulated driver was not loaded: {text}; use glibc 2.28 or newer")
            }
        }
    }
}

impl Error for InstallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::File(error) => Some(error),
            _ => None,
        }
    }
}
