//! Installs the simulated driver in this process: opens a shared library with the name of the real driver before
//! anything else does.

use std::error::Error;
use std::ffi::{CStr, CString};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::process;
use std::sync::{Mutex, PoisonError};

use kernel_registry_cuda::SharedObject;

use crate::driver::calls;
use crate::driver::config::Config;
use crate::driver::config::faults::{Fault, FaultError};
use crate::driver::hooks;
use crate::driver::state::simulator::Simulator;

/// A symbol that identifies this library. NVIDIA's doesn't have it.
const MARKER: &CStr = c"kernelRegistrySimulatedDriver";

/// The symbol of `step_back`, by which an audit asks for the driver's library names.
const STEP_BACK: &str = "kernelRegistrySimulatedDriverStepsBack";

/// The marker symbol in the library that `cargo kernels sim` builds.
#[cfg(feature = "export")]
#[unsafe(export_name = "kernelRegistrySimulatedDriver")]
static MARKED: u8 = 1;

/// The library names that programs open. cudarc opens the first. Most others open the second, which is the SONAME of
/// the real driver.
const NAMES: [&CStr; 2] = [c"libcuda.so", c"libcuda.so.1"];

/// Installs the simulated driver in this process, configured by its [environment](Config::from_environment). Later
/// calls have no effect. Under `cargo kernels sim`, no call has an effect.
///
/// After this call, everything in the process that opens `libcuda.so` gets the simulated driver, including cudarc, even
/// if there is a real driver. An audit (`kernel_audit::install`) must be installed after the simulated driver, and
/// before CUDA is used.
///
/// ```
/// kernel_registry_sim::install()?;
/// # Ok::<(), kernel_registry_sim::InstallError>(())
/// ```
pub fn install() -> Result<(), InstallError> {
    Config::from_environment().install()
}

/// The open libraries of the driver. `None` before the installation.
static INSTALLED: Mutex<Option<Vec<Driver>>> = Mutex::new(None);

impl Config {
    /// Installs a driver with this configuration. If a simulated driver is installed already, it stays unchanged.
    pub fn install(self) -> Result<(), InstallError> {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if installed.is_some() {
            return Ok(());
        }
        let mut drivers = Vec::new();
        self.faults.iter().try_for_each(Fault::check).map_err(InstallError::Fault)?;
        if let Some(open) = NAMES.into_iter().find_map(|name| open_named(name, libc::RTLD_NOLOAD)) {
            open.is_simulated()?;
            drivers.push(open);
        } else {
            let version = self.version;
            Simulator::start(self);
            hooks::start();
            // Both files stay open until both are loaded. The loader identifies libraries by path, and the path
            // contains the descriptor, which could otherwise be reused.
            let files = [make_library(NAMES[0], version)?, make_library(NAMES[1], version)?];
            for file in &files {
                drivers.push(open(file)?);
            }
            // Another thread may have opened the real driver by now.
            for name in NAMES {
                open_named(name, 0).ok_or(InstallError::AlreadyOpen)?.is_simulated()?;
            }
        }
        *installed = Some(drivers);
        Ok(())
    }
}

/// Gives up the library names, so that an audit's library can take them and pass calls on to this driver. Returns the
/// descriptor of an open file with this driver's library, or -1 if the names are in use.
extern "C" fn step_back() -> libc::c_int {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    // The file keeps the driver's name, which debuggers show. A search by name finds the audit's library first.
    let Ok(file) = make_library(NAMES[1], Simulator::config().version) else { return -1 };
    drop(installed.take());
    match NAMES.into_iter().find_map(|name| open_named(name, libc::RTLD_NOLOAD)) {
        None => file.into_raw_fd(),
        Some(open) => {
            *installed = Some(vec![open]);
            -1
        }
    }
}

/// Creates a file in memory. Its name appears in `/proc/self/maps`.
fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: the name ends with a zero byte, and nothing else has the descriptor.
    unsafe {
        // glibc has a function for this system call only since 2.27.
        let descriptor = libc::syscall(libc::SYS_memfd_create, name.as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(File::from_raw_fd(descriptor as libc::c_int))
        }
    }
}

/// Creates a library of this name in memory. Its symbols are the addresses of the simulated functions in this process.
fn make_library(name: &CStr, version: i32) -> Result<File, InstallError> {
    let entries = calls::entries().filter(|entry| entry.since <= version);
    let mut symbols: Vec<_> =
        entries.map(|entry| (entry.name, entry.address.expose_provenance() as u64)).collect();
    symbols.push((MARKER.to_str().unwrap_or_default(), 1));
    let step_back = (step_back as *const ()).expose_provenance() as u64;
    symbols.push((STEP_BACK, step_back));
    let library = &*name.to_string_lossy();
    let object = SharedObject { name: library, symbols: &symbols, ..SharedObject::default() }.bytes();

    let written = memory_file(name).and_then(|mut file| file.write_all(&object).map(|()| file));
    written.map_err(InstallError::File)
}

fn open(file: &File) -> Result<Driver, InstallError> {
    // The path is not below `/proc/self`, because a debugger that opens it would get a file of its own process.
    let path = format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd());
    let path = CString::new(path).map_err(|error| InstallError::File(error.into()))?;
    // SAFETY: the library has no code that could run. Its symbols are functions of this process.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if handle.is_null() {
        // SAFETY: after a failure, `dlerror` returns a text that belongs to this thread.
        let text = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(InstallError::Loader(text.to_string_lossy().into_owned()));
    }
    Ok(Driver(handle))
}

/// An open driver library, which is closed when this is dropped.
struct Driver(*mut libc::c_void);

// SAFETY: the loader's handles may be used from any thread.
unsafe impl Send for Driver {}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: the handle is open. The simulated functions are not in the library, so closing it unmaps none of
        // them.
        unsafe { libc::dlclose(self.0) };
    }
}

/// Opens the library of this name. With `RTLD_NOLOAD` in `flags`, only a library that is open already.
fn open_named(name: &CStr, flags: libc::c_int) -> Option<Driver> {
    // SAFETY: only a driver has this name, and loading a driver is what every program that uses a GPU does.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | flags) };
    (!handle.is_null()).then(|| Driver(handle))
}

impl Driver {
    fn is_simulated(&self) -> Result<(), InstallError> {
        // SAFETY: the library is open.
        let marker = unsafe { libc::dlsym(self.0, MARKER.as_ptr()) };
        if marker.is_null() { Err(InstallError::AlreadyOpen) } else { Ok(()) }
    }
}

/// The reason why the simulated driver could not be installed.
#[non_exhaustive]
pub enum InstallError {
    /// A configured fault cannot be injected.
    Fault(FaultError),
    /// NVIDIA's driver is in use already.
    AlreadyOpen,
    /// The library file could not be created.
    File(io::Error),
    /// The loader refused the library.
    Loader(String),
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(error) => write!(f, "{error}"),
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

// `main` and `unwrap` print errors by `Debug`, so it prints the text for people.
impl fmt::Debug for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for InstallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Fault(error) => Some(error),
            Self::File(error) => Some(error),
            _ => None,
        }
    }
}
