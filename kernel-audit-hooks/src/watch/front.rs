//! Installs the interposer in this process: a stub library with the driver's name, whose symbols are the
//! hooks in this program. It depends on the real driver, where the loader finds all other functions.

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

/// The names by which programs open the driver. The first is its `DT_SONAME`, but cudarc prefers the second.
const NAMES: [&CStr; 2] = [c"libcuda.so.1", c"libcuda.so"];

/// Makes the simulated driver give up the driver's name. Returns a descriptor of its file, or -1.
const STEP_BACK: &CStr = c"kernelRegistrySimulatedDriverStepsBack";

/// The interposer, once it's installed.
static INTERPOSER: OnceLock<Library> = OnceLock::new();

/// Whether the interposer comes from `kernel-audit`, and not from `install`.
static IS_EXTERNAL: AtomicBool = AtomicBool::new(false);

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
    if INTERPOSER.get().is_some() {
        return match IS_EXTERNAL.load(Ordering::Relaxed) {
            true => Ok(Installed::FromOutside),
            false if audit.same_but_driver(Audit::chosen()) => Ok(Installed::Before),
            false => Err(InstallError::OtherOptions),
        };
    }
    let driver = match find_target(audit.driver.as_deref())? {
        Target::Driver(path) => path,
        Target::Audit(front) => {
            let _ = INTERPOSER.set(front);
            IS_EXTERNAL.store(true, Ordering::Relaxed);
            return Ok(Installed::FromOutside);
        }
    };
    Audit { driver: Some(driver.clone()), ..audit }.choose();
    // The loader identifies a library by its path, which contains a descriptor's number. So the descriptors
    // stay open, and their numbers aren't reused.
    for name in NAMES {
        let file = mem::ManuallyDrop::new(stub(name, &driver).map_err(InstallError::File)?);
        let path =
            CString::new(path_of(file.as_raw_fd())).map_err(|error| InstallError::File(error.into()))?;
        let opened = Library::open(&path, libc::RTLD_NOW | libc::RTLD_GLOBAL);
        mem::forget(opened.map_err(|reason| InstallError::Loader { reason })?);
    }
    // Another thread may have opened the driver since `find_target`.
    for name in NAMES {
        let library =
            Library::open(name, libc::RTLD_NOW).map_err(|reason| InstallError::Loader { reason })?;
        if library.symbol(READY) != kernel_registry_audit_ready as *mut c_void || real::driver().is_none() {
            return Err(InstallError::AlreadyOpen);
        }
        let _ = INTERPOSER.set(library);
    }
    Ok(Installed::Now)
}

/// The library that programs find under the driver's name.
enum Target {
    Driver(PathBuf),
    /// The hooks that `kernel-audit` has installed.
    Audit(Library),
}

/// Finds the driver that the hooks will call, or an audit that's already installed.
fn find_target(chosen: Option<&Path>) -> Result<Target, InstallError> {
    for name in NAMES {
        let Ok(open) = Library::open(name, libc::RTLD_NOW | libc::RTLD_NOLOAD) else { continue };
        if !open.symbol(READY).is_null() {
            return Ok(Target::Audit(open));
        }
        let step_back = open.symbol(STEP_BACK);
        drop(open);
        if step_back.is_null() {
            return Err(InstallError::AlreadyOpen);
        }
        // SAFETY: the function has this type. It's part of this program, so it survives the library.
        let step_back: extern "C" fn() -> c_int = unsafe { mem::transmute(step_back) };
        return match step_back() {
            ..0 => Err(InstallError::AlreadyOpen),
            descriptor => Ok(Target::Driver(path_of(descriptor).into())),
        };
    }
    let chosen = chosen.map(Path::to_owned);
    // If `kernel-audit` has set the variable, its hooks may be installed. Only the loader knows that.
    let path = match chosen {
        Some(path) if environment::variable(variables::DRIVER).is_none() => path,
        chosen => match ask_loader().map_err(InstallError::Child)? {
            LoaderAnswer::Audit => {
                let front = Library::open(NAMES[0], libc::RTLD_NOW);
                return front.map(Target::Audit).map_err(|reason| InstallError::Loader { reason });
            }
            LoaderAnswer::Driver(path) => chosen.unwrap_or(path),
            LoaderAnswer::Nothing(reason) => chosen.ok_or(InstallError::NoDriver { reason })?,
        },
    };
    let path = path::absolute(path).map_err(InstallError::File)?;
    match path.is_file() {
        true => Ok(Target::Driver(path)),
        false => Err(InstallError::NoDriver { reason: format!("`{}` isn't a file", path.display()) }),
    }
}

/// The library that the loader finds under the driver's name.
enum LoaderAnswer {
    Driver(PathBuf),
    Audit,
    /// The loader's message.
    Nothing(String),
}

/// Opens the driver by its name in a forked child. In this process it might never be closed again, and
/// programs would find it before the hooks.
fn ask_loader() -> io::Result<LoaderAnswer> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both ends, whose descriptors have no other owner. The child never
    // returns. It uses the loader and the allocator, which glibc keeps usable after a fork.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        let [mut from, mut to] = ends.map(|end| File::from_raw_fd(end));
        let child = libc::fork();
        if child == 0 {
            // Ends the child if opening the driver hangs.
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
            Some((b'd', path)) => Ok(LoaderAnswer::Driver(OsStr::from_bytes(path).into())),
            Some((b'a', _)) => Ok(LoaderAnswer::Audit),
            Some((_, reason)) => Ok(LoaderAnswer::Nothing(String::from_utf8_lossy(reason).into_owned())),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Creates an interposer with this name as a file in memory.
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

/// Returns a descriptor's path. It has the process's number, because for a debugger that opens it,
/// `/proc/self` would be the debugger.
fn path_of(descriptor: c_int) -> String {
    format!("/proc/{}/fd/{descriptor}", process::id())
}

/// Returns a function of the audit that watches this process, or null: of the installed one, or else of
/// `kernel-audit`'s, once the program has opened the driver.
fn symbol(name: &CStr) -> *mut c_void {
    if let Some(front) = INTERPOSER.get() {
        return front.symbol(name);
    }
    let mut open =
        NAMES.iter().filter_map(|name| Library::open(name, libc::RTLD_NOW | libc::RTLD_NOLOAD).ok());
    open.next().map_or(ptr::null_mut(), |library| library.symbol(name))
}

/// Marks the program as ready. `None` if it isn't watched.
pub(crate) fn ready() -> Option<()> {
    let ready = symbol(READY);
    if ready.is_null() {
        return None;
    }
    // SAFETY: the function has this type in every version.
    let ready: extern "C" fn() = unsafe { mem::transmute(ready) };
    ready();
    Some(())
}

/// Starts a stretch with this name. `None` if the program isn't watched.
pub(crate) fn mark(name: &str) -> Option<()> {
    let mark = symbol(MARK);
    if mark.is_null() {
        return None;
    }
    // SAFETY: the function has this type in every version.
    let mark: unsafe extern "C" fn(*const c_char) = unsafe { mem::transmute(mark) };
    let name = CString::new(name.split('\0').next().unwrap_or_default()).unwrap_or_default();
    // SAFETY: the name ends with a zero.
    unsafe { mark(name.as_ptr()) };
    Some(())
}

/// Copies this process's record. `None` if it isn't watched.
pub(crate) fn record() -> Option<Vec<u8>> {
    let record = symbol(RECORD);
    if record.is_null() {
        return None;
    }
    // SAFETY: the function has this type in every version.
    let record: extern "C" fn(&mut usize) -> *const AtomicU64 = unsafe { mem::transmute(record) };
    let mut size = 0;
    let words = record(&mut size);
    if size == 0 {
        return None;
    }
    // SAFETY: the record has this size, is page-aligned, and is never unmapped. Other threads write to it
    // concurrently, so its words are read as atomics. A text that no event refers to yet may be incomplete.
    let words = unsafe { std::slice::from_raw_parts(words, size / size_of::<AtomicU64>()) };
    // Reading backwards finds each event's text: texts come first in the record, and are written first.
    let mut copy: Vec<_> = words.iter().rev().map(|word| word.load(Ordering::Acquire)).collect();
    copy.reverse();
    Some(copy.into_iter().flat_map(u64::to_ne_bytes).collect())
}
