//! Sees which files NVRTC looks at while it compiles: its slots for functions of the C library that take a path lead to functions here,
//! which call the real ones. The calls of other libraries are not touched.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char};
use std::fs;
use std::io::{self, Read};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::clocks::tells_time;
use crate::kept::{Digest, Looked, Was};
use crate::record::open_plain;
use crate::watch::loader::slots::{self, Slot};
use crate::watch::loader::symbols;
use crate::watch::process::locked::Locked;
use crate::watch::process::system::thread_number;

/// No file that is read is larger, in bytes.
const LARGEST: u64 = 64 << 20;

/// The clock of files may be this much behind.
const CLOCK: Duration = Duration::from_millis(20);

/// A function of the C library with at most three arguments. A thread that is cancelled meanwhile unwinds through it.
type Function = unsafe extern "C-unwind" fn(usize, usize, usize) -> usize;

/// What a call of a function means for the result.
#[derive(Clone, Copy)]
enum Meaning {
    /// It asks what is at the path that is the argument of this number.
    Asks(usize),
    /// It opens a path, with flags.
    Opens,
    /// It opens a path, with flags in words.
    OpensStream,
    /// What it does is not seen here.
    Else,
}

use Meaning::{Asks, Else, Opens, OpensStream};

const FUNCTIONS: [(&CStr, Meaning); 22] = [
    (c"fopen", OpensStream),
    (c"fopen64", OpensStream),
    (c"open", Opens),
    (c"open64", Opens),
    (c"access", Asks(0)),
    (c"stat", Asks(0)),
    (c"stat64", Asks(0)),
    (c"lstat", Asks(0)),
    (c"lstat64", Asks(0)),
    (c"__xstat", Asks(1)),
    (c"__xstat64", Asks(1)),
    (c"__lxstat", Asks(1)),
    (c"__lxstat64", Asks(1)),
    (c"openat", Else),
    (c"openat64", Else),
    (c"freopen", Else),
    (c"freopen64", Else),
    (c"opendir", Else),
    (c"system", Else),
    (c"popen", Else),
    (c"fork", Else),
    (c"mkstemp", Else),
];

/// The real functions.
static REAL: [AtomicPtr<()>; FUNCTIONS.len()] = [const { AtomicPtr::new(ptr::null_mut()) }; FUNCTIONS.len()];

/// The functions that the slots lead to.
static HERE: [Function; FUNCTIONS.len()] = [
    here::<0>, here::<1>, here::<2>, here::<3>, here::<4>, here::<5>, here::<6>, here::<7>, here::<8>,
    here::<9>, here::<10>, here::<11>, here::<12>, here::<13>, here::<14>, here::<15>, here::<16>,
    here::<17>, here::<18>, here::<19>, here::<20>, here::<21>,
];

/// What a compilation has done so far.
#[derive(Default)]
struct Seen {
    /// The paths, and whether each was opened.
    paths: HashMap<Vec<u8>, bool>,
    /// Why the result cannot be kept.
    why: Option<String>,
}

/// The compilations that are going on, by their threads.
static ALL: Locked<HashMap<u32, Seen>> = Locked::new();

unsafe extern "C-unwind" fn here<const INDEX: usize>(one: usize, two: usize, three: usize) -> usize {
    let real = REAL[INDEX].load(Ordering::Acquire);
    // SAFETY: the slots lead here only when the real function is known. Arguments beyond its own are in registers that it does not read.
    let answer = unsafe { mem::transmute::<*mut (), Function>(real)(one, two, three) };
    // SAFETY: `errno` is the thread's own.
    let (errno, error) = unsafe { (libc::__errno_location(), *libc::__errno_location()) };
    note(INDEX, [one, two, three]);
    // SAFETY: as above.
    unsafe { *errno = error };
    answer
}

/// Adds a call to the compilation of its thread. A thread of NVRTC's own works for any of them.
fn note(index: usize, arguments: [usize; 3]) {
    let mut all = ALL.lock();
    if all.is_empty() {
        return;
    }
    let (name, meaning) = FUNCTIONS[index];
    let text = |argument: usize| {
        // SAFETY: the library has passed a text there, as the function expects.
        unsafe { CStr::from_ptr(ptr::with_exposed_provenance::<c_char>(argument)) }.to_bytes()
    };
    let (at, opens, writes) = match meaning {
        Asks(at) => (at, false, false),
        Opens => (
            0,
            true,
            arguments[1] as i32 & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) != libc::O_RDONLY,
        ),
        OpensStream => (0, true, text(arguments[1]).iter().any(|flag| b"wa+".contains(flag))),
        Else => (0, false, false),
    };
    let own = thread_number();
    let is_own = all.contains_key(&own);
    for seen in all.iter_mut().filter(|(thread, _)| !is_own || **thread == own).map(|(_, seen)| seen) {
        if let Else = meaning {
            seen.why.get_or_insert_with(|| format!("NVRTC calls `{}` for it", name.to_string_lossy()));
        } else if arguments[at] != 0 {
            let path = text(arguments[at]);
            if writes {
                let path = String::from_utf8_lossy(path);
                seen.why.get_or_insert_with(|| format!("NVRTC writes the file `{path}` for it"));
            }
            *seen.paths.entry(path.to_vec()).or_default() |= opens;
        }
    }
}

/// A compilation whose looks are seen until this is dropped.
pub(super) struct Looking {
    thread: u32,
    begun: SystemTime,
    slots: &'static [Slot],
}

impl Drop for Looking {
    fn drop(&mut self) {
        ALL.lock().remove(&self.thread);
    }
}

/// The slots of the library at this base that are to lead here.
pub(super) fn slots(base: u64) -> Vec<Slot> {
    slots::find(base, &FUNCTIONS.map(|(name, _)| name.to_bytes()))
}

/// Begins to see at what the library with these slots looks in the current thread.
pub(super) fn begin(slots: &'static [Slot]) -> Result<Looking, String> {
    if slots.is_empty() {
        return Err("this NVRTC does not call the C library as others do".to_owned());
    }
    for slot in slots {
        let function = HERE[slot.function] as *const ();
        // SAFETY: the program calls this library. A function here does what the real one does.
        unsafe {
            if slot.get() == function.addr() {
                continue;
            }
            let name = FUNCTIONS[slot.function].0;
            let real =
                symbols::find(name).ok_or_else(|| format!("`{}` is not found", name.to_string_lossy()))?;
            REAL[slot.function].store(ptr::with_exposed_provenance_mut(real as usize), Ordering::Release);
            slot.set(function).map_err(|error| format!("the calls of this NVRTC cannot be seen: {error}"))?;
        }
    }
    let thread = thread_number();
    ALL.lock().insert(thread, Seen::default());
    Ok(Looking { thread, begun: SystemTime::now(), slots })
}

impl Looking {
    /// What NVRTC has looked at since the beginning, for a program whose name has this folder. Or why that does not tell all.
    pub(super) fn end(self, folder: &[u8]) -> Result<Vec<Looked>, String> {
        // SAFETY: the program calls this library.
        let is_replaced = |slot: &Slot| unsafe { slot.get() } != (HERE[slot.function] as *const ()).addr();
        if self.slots.iter().any(is_replaced) {
            return Err("another library stands in front of NVRTC's calls".to_owned());
        }
        let seen = ALL.lock().remove(&self.thread).unwrap_or_default();
        if let Some(why) = seen.why {
            return Err(why);
        }
        let mut looked = Vec::with_capacity(seen.paths.len());
        for (path, is_opened) in seen.paths {
            let was = self.was(Path::new(OsStr::from_bytes(&path)), is_opened)?;
            let inside = path.strip_prefix(folder).filter(|_| !folder.is_empty());
            let inside =
                inside.and_then(|rest| if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") });
            let inside = inside.map(<[u8]>::to_vec);
            let in_folder = inside.is_some();
            looked.push(Looked { path: inside.unwrap_or(path), in_folder, was });
        }
        Ok(looked)
    }

    fn was(&self, path: &Path, is_opened: bool) -> Result<Was, String> {
        let Ok(its) = fs::metadata(path) else { return Ok(Was::Missing) };
        if its.is_dir() {
            return Ok(Was::Folder);
        }
        if !is_opened {
            return Ok(Was::File);
        }
        let failed = |why: String| format!("it reads `{}`, {why}", path.display());
        let (bytes, changed) =
            read(path).map_err(|error| failed(format!("which cannot be read again: {error}")))?;
        if changed + CLOCK >= self.begun {
            return Err(failed("which is changed meanwhile".to_owned()));
        }
        match tells_time(&bytes) {
            Some(why) => Err(failed(format!("and {why}"))),
            None => Ok(Was::Content(Digest::new(&bytes))),
        }
    }
}

/// Reads a plain file, and when it was changed last.
fn read(path: &Path) -> io::Result<(Vec<u8>, SystemTime)> {
    let (file, length) = open_plain(path)?;
    if length > LARGEST {
        return Err(io::Error::other("it is too large"));
    }
    let its = file.metadata()?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    let changed = Duration::new(its.ctime().max(0) as u64, its.ctime_nsec() as u32);
    Ok((bytes, UNIX_EPOCH + changed))
}

/// What tells whether a file is one whose digest is known: device, number, size, and the time of its last change.
type Identity = (u64, u64, u64, i64, i64);

/// The digests of files that were read already.
static DIGESTS: Locked<HashMap<PathBuf, (Identity, Digest)>> = Locked::new();

/// Whether there is at all paths what there was, in a run whose program's name has this folder.
pub(super) fn is_as_it_was(looked: &[Looked], folder: &[u8]) -> bool {
    looked.iter().all(|looked| {
        let path = Path::new(OsStr::from_bytes(&looked.path));
        let path =
            if looked.in_folder { Path::new(OsStr::from_bytes(folder)).join(path) } else { path.to_owned() };
        let its = fs::metadata(&path).ok();
        let (is_folder, is_file) = its.as_ref().map_or((false, false), |its| (its.is_dir(), !its.is_dir()));
        match (looked.was, its) {
            (Was::Missing, its) => its.is_none(),
            (Was::Folder, _) => is_folder,
            (Was::File, _) => is_file,
            (Was::Content(digest), Some(its)) if is_file => {
                let identity = (its.dev(), its.ino(), its.size(), its.ctime(), its.ctime_nsec());
                digest_of(path, identity).is_ok_and(|its| its == digest)
            }
            (Was::Content(_), _) => false,
        }
    })
}

fn digest_of(path: PathBuf, identity: Identity) -> io::Result<Digest> {
    let known = DIGESTS.lock().get(&path).filter(|(its, _)| *its == identity).map(|(_, digest)| *digest);
    if let Some(digest) = known {
        return Ok(digest);
    }
    let digest = Digest::new(&read(&path)?.0);
    DIGESTS.lock().insert(path, (identity, digest));
    Ok(digest)
}
