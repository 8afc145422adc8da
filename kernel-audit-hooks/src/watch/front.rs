//! Puts a stub library in front of the driver in this process. The stub has the driver's name, and its functions are
//! the hooks in this program. The stub needs the driver itself, so the loader finds all other functions in the driver.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{self, Path, PathBuf};
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use kernel_registry_cuda::SharedObject;

use crate::options::Audit;
use crate::outcome::{InstallError, Installed};
use crate::watch::hooks::HOOKS;
use crate::watch::hooks::lookup::{MARK, READY, RECORD, own};
use crate::watch::loader::library::Library;
use crate::watch::loader::real;
use crate::watch::process::{say, system};
use crate::watch::record::ready::kernel_registry_audit_ready;
use crate::watch::record::recording;
use crate::{environment, variables};

/// The names by which programs open the driver. Most programs use the first name, the driver's `DT_SONAME`. cudarc
/// tries the second name first.
const NAMES: [&CStr; 2] = [c"libcuda.so.1", c"libcuda.so"];

/// The function by which the simulated driver gives up the driver's name. It returns a descriptor of the simulated driver's file, or -1.
const STEP_BACK: &CStr = c"kernelRegistrySimulatedDriverStepsBack";

/// The library in front of the driver, once there is one.
static FRONT: OnceLock<Library> = OnceLock::new();

/// Whether `FRONT` was put there by `kernel-audit`, and not by `install`.
static FROM_OUTSIDE: AtomicBool = AtomicBool::new(false);

pub(crate) fn install(audit: Audit) -> Result<Installed, InstallError> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if recording::is_forked() {
        return Err(InstallError::Forked);
    }
    if environment::variable(variables::OUTPUTS).is_none() {
        say::remember_output();
    }
    let audit = audit.or_environment();
    if FRONT.get().is_some() {
        return match FROM_OUTSIDE.load(Ordering::Relaxed) {
            true => Ok(Installed::FromOutside),
            false if audit.same_but_driver(Audit::chosen()) => Ok(Installed::Before),
            false => Err(InstallError::OtherOptions),
        };
    }
    let driver = match behind(audit.driver.as_deref())? {
        Behind::Driver(path) => path,
        Behind::Audit(front) => {
            let _ = FRONT.set(front);
            FROM_OUTSIDE.store(true, Ordering::Relaxed);
            return Ok(Installed::FromOutside);
        }
    };
    Audit { driver: Some(driver.clone()), ..audit }.choose();
    // The loader knows a library by its path, which contains the number of a descriptor. So the descriptors stay open,
    // and no other file gets their numbers.
    for name in NAMES {
        let file = mem::ManuallyDrop::new(stub(name, &driver).map_err(InstallError::File)?);
        let path =
            CString::new(path_of(file.as_raw_fd())).map_err(|error| InstallError::File(error.into()))?;
        let opened = Library::open(&path, libc::RTLD_NOW | libc::RTLD_GLOBAL);
        mem::forget(opened.map_err(|reason| InstallError::Loader { reason })?);
    }
    // Another thread may have opened the driver meanwhile.
    for name in NAMES {
        let library =
            Library::open(name, libc::RTLD_NOW).map_err(|reason| InstallError::Loader { reason })?;
        if library.symbol(READY) != kernel_registry_audit_ready as *mut c_void || real::driver().is_none() {
            return Err(InstallError::AlreadyOpen);
        }
        let _ = FRONT.set(library);
    }
    Ok(Installed::Now)
}

/// The library that `install` finds in this process.
enum Behind {
    /// The driver that the hooks will call.
    Driver(PathBuf),
    /// The hooks that `kernel-audit` put in front of the driver.
    Audit(Library),
}

/// Finds the driver that the hooks will call, or an audit that is in front of the driver already.
fn behind(chosen: Option<&Path>) -> Result<Behind, InstallError> {
    for name in NAMES {
        let Ok(open) = Library::open(name, libc::RTLD_NOW | libc::RTLD_NOLOAD) else { continue };
        if !open.symbol(READY).is_null() {
            return Ok(Behind::Audit(open));
        }
        let step_back = open.symbol(STEP_BACK);
        drop(open);
        if step_back.is_null() {
            return Err(InstallError::AlreadyOpen);
        }
        // SAFETY: the function of that name has this type. The function is part of this program, so it stays when the
        // library is closed.
        let step_back: extern "C" fn() -> c_int = unsafe { mem::transmute(step_back) };
        return match step_back() {
            ..0 => Err(InstallError::AlreadyOpen),
            descriptor => Ok(Behind::Driver(path_of(descriptor).into())),
        };
    }
    let chosen = chosen.map(Path::to_owned);
    // If `kernel-audit` has set the variable, its hooks can be in front of the chosen driver. Only the loader knows
    // that.
    let path = match chosen {
        Some(path) if environment::variable(variables::DRIVER).is_none() => path,
        chosen => match found_by_loader().map_err(InstallError::Child)? {
            Found::Audit => {
                let front = Library::open(NAMES[0], libc::RTLD_NOW);
                return front.map(Behind::Audit).map_err(|reason| InstallError::Loader { reason });
            }
            Found::Driver(path) => chosen.unwrap_or(path),
            Found::Nothing(reason) => chosen.ok_or(InstallError::NoDriver { reason })?,
        },
    };
    let path = path::absolute(path).map_err(InstallError::File)?;
    match path.is_file() {
        true => Ok(Behind::Driver(path)),
        false => Err(InstallError::NoDriver { reason: format!("`{}` is no file", path.display()) }),
    }
}

/// The library that the loader finds under the driver's name.
enum Found {
    Driver(PathBuf),
    Audit,
    /// No library; with the loader's message.
    Nothing(String),
}

/// Asks the loader in a forked child. In this process the driver would stay open, because not every driver can be
/// closed again, and programs would find the driver before the hooks.
fn found_by_loader() -> io::Result<Found> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both ends, and nobody else owns these descriptors. The child never returns. It calls the loader and
    // the allocator, which glibc makes usable after a fork.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        let [mut from, mut to] = ends.map(|end| File::from_raw_fd(end));
        let child = libc::fork();
        if child == 0 {
            // If opening the driver hangs, the alarm ends the child, and the program goes on.
            libc::alarm(60);
            let (kind, text) = match Library::open(NAMES[0], libc::RTLD_LAZY) {
                Ok(library) if library.symbol(READY).is_null() => {
                    (b"d", library.path().into_os_string().into_vec())
                }
                Ok(_) => (b"a", Vec::new()),
                Err(reason) => (b"n", reason.into_bytes()),
            };
            let written = to.write_all(kind).and_then(|()| to.write_all(&text));
            libc::_exit(written.is_err().into());
        }
        drop(to);
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut answer = Vec::new();
        let read = from.read_to_end(&mut answer);
        while libc::waitpid(child, ptr::null_mut(), 0) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        read?;
        match answer.split_first() {
            Some((b'd', path)) => Ok(Found::Driver(OsStr::from_bytes(path).into())),
            Some((b'a', _)) => Ok(Found::Audit),
            Some((_, reason)) => Ok(Found::Nothing(String::from_utf8_lossy(reason).into_owned())),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Creates a library of this name in memory, whose functions are the hooks in this program.
fn stub(name: &CStr, driver: &Path) -> io::Result<File> {
    let hooks = HOOKS.iter().map(|hook| (hook.name, hook.address));
    let symbols = hooks.chain(own().map(|(name, address)| (name.to_str().unwrap_or_default(), address)));
    let symbols: Vec<_> = symbols.map(|(name, address)| (name, address.expose_provenance() as u64)).collect();
    let driver = driver.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
    let library = &*name.to_string_lossy();
    let object =
        SharedObject { name: library, symbols: &symbols, needed: &[driver], ..SharedObject::default() };
    let mut file = system::memory_file(name)?;
    file.write_all(&object.bytes())?;
    Ok(file)
}

/// Returns the path of a descriptor. The path names this process, and not `/proc/self`: a debugger opens the path, too,
/// and for it `/proc/self` would be the debugger.
fn path_of(descriptor: c_int) -> String {
    format!("/proc/{}/fd/{descriptor}", process::id())
}

/// Finds a function of the audit that watches this process: of the installed audit, or else of the audit from outside.
/// The audit from outside is found once the program has opened the driver. Returns null if there is no audit.
fn symbol(name: &CStr) -> *mut c_void {
    if let Some(front) = FRONT.get() {
        return front.symbol(name);
    }
    let mut open =
        NAMES.iter().filter_map(|name| Library::open(name, libc::RTLD_NOW | libc::RTLD_NOLOAD).ok());
    open.next().map_or(ptr::null_mut(), |library| library.symbol(name))
}

/// Marks the program as ready. Returns `None` if the program is not watched.
pub(crate) fn ready() -> Option<()> {
    let ready = symbol(READY);
    if ready.is_null() {
        return None;
    }
    // SAFETY: this is the type of the function of that name in every version.
    let ready: extern "C" fn() = unsafe { mem::transmute(ready) };
    ready();
    Some(())
}

/// Begins a stretch of this name. Returns `None` if the program is not watched.
pub(crate) fn mark(name: &str) -> Option<()> {
    let mark = symbol(MARK);
    if mark.is_null() {
        return None;
    }
    // SAFETY: this is the type of the function of that name in every version.
    let mark: unsafe extern "C" fn(*const c_char) = unsafe { mem::transmute(mark) };
    let name = CString::new(name.split('\0').next().unwrap_or_default()).unwrap_or_default();
    // SAFETY: the name ends with a zero.
    unsafe { mark(name.as_ptr()) };
    Some(())
}

/// Copies the record of this process. Returns `None` if the process is not watched.
pub(crate) fn record() -> Option<Vec<u8>> {
    let record = symbol(RECORD);
    if record.is_null() {
        return None;
    }
    // SAFETY: this is the type of the function of that name in every version.
    let record: extern "C" fn(&mut usize) -> *const AtomicU64 = unsafe { mem::transmute(record) };
    let mut size = 0;
    let words = record(&mut size);
    if size == 0 {
        return None;
    }
    // SAFETY: the record has that size, is aligned to a page, and is never unmapped. Other threads write to the record
    // at the same time, so all of its words are read as atomics. A text that no event names yet may be half written.
    let words = unsafe { std::slice::from_raw_parts(words, size / size_of::<AtomicU64>()) };
    // Events come after all texts in the record, and a text is written before the event that names it. So reading from
    // the end finds each event's text.
    let mut copy: Vec<_> = words.iter().rev().map(|word| word.load(Ordering::Acquire)).collect();
    copy.reverse();
    Some(copy.into_iter().flat_map(u64::to_ne_bytes).collect())
}
