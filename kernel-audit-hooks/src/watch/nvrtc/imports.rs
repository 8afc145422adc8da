//! Hooks for the functions that NVRTC imports to read files, variables, the clock and the machine. Each calls
//! the real function and notes the answer for its thread's compilation. For a [shadow](super::shadow)
//! compilation, some change the answer.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use kernel_audit_rtld::{IMPORTS, OLDEST_SYMBOLS};

use super::entry::{Entry, File, tells_time};
use crate::kept::Digest;
use crate::watch::process::locked::Locked;
use crate::watch::process::system::{NoCancel, thread_number};

/// Arguments of any imported function. If it has fewer, the others are in registers that it doesn't read.
type Arguments = [usize; 4];

/// An imported function. It unwinds through the hook if the thread is cancelled.
type Function = unsafe extern "C-unwind" fn(usize, usize, usize, usize) -> usize;

/// Classifies imports by what NVRTC learns from a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// The value of the variable named by the first argument.
    Variable,
    Time,
    /// The time as text or as a calendar date, from a time that was read before.
    FormattedTime,
    Directory,
    /// The process id.
    Process,
    /// Whether a path exists. The path is the argument with this index.
    Probe(usize),
    /// A descriptor, as from `open`.
    Open,
    /// A stream, as from `fopen`.
    OpenStream,
    /// Something that can't be checked later, or has side effects.
    Other,
}

/// Returns the meaning of the function at an index of [`IMPORTS`].
const fn meaning(index: usize) -> Meaning {
    match IMPORTS[index].to_bytes() {
        b"getenv" => Meaning::Variable,
        b"time" => Meaning::Time,
        b"ctime" | b"localtime_r" => Meaning::FormattedTime,
        b"getcwd" => Meaning::Directory,
        b"getpid" => Meaning::Process,
        b"fopen" | b"fopen64" => Meaning::OpenStream,
        b"open" | b"open64" => Meaning::Open,
        b"access" | b"stat" | b"stat64" | b"lstat" | b"lstat64" => Meaning::Probe(0),
        b"__xstat" | b"__xstat64" | b"__lxstat" | b"__lxstat64" => Meaning::Probe(1),
        _ => Meaning::Other,
    }
}

/// The real functions.
static REAL: [AtomicPtr<()>; IMPORTS.len()] = [const { AtomicPtr::new(ptr::null_mut()) }; IMPORTS.len()];

/// The hooks in the order of [`IMPORTS`].
struct Hooks([*const c_void; IMPORTS.len()]);

// SAFETY: the addresses are those of functions, and are never changed.
unsafe impl Sync for Hooks {}

macro_rules! hooks {
    ($($index:literal)*) => { Hooks([$(hook::<$index> as *const c_void),*]) };
}

static HOOKS: Hooks = hooks!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37
    38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53
);

unsafe extern "C" {
    /// `dlsym` for a symbol version. Older versions of the crate `libc` don't declare it.
    fn dlvsym(library: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// Looks up the real functions and returns the hooks.
pub(super) fn resolve() -> &'static [*const c_void] {
    for (real, name) in REAL.iter().zip(IMPORTS) {
        // SAFETY: the names end with a zero. A failed lookup leaves a message, which is cleared below.
        let found = unsafe {
            let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
            if found.is_null() {
                dlvsym(libc::RTLD_DEFAULT, name.as_ptr(), OLDEST_SYMBOLS.as_ptr())
            } else {
                found
            }
        };
        if !found.is_null() {
            real.store(found.cast(), Ordering::Release);
        }
    }
    // SAFETY: the call clears this thread's message, if there is one.
    unsafe { libc::dlerror() };
    &HOOKS.0
}

/// Everything that a compilation has read so far.
#[derive(Default)]
pub(super) struct Observed {
    pub(super) paths: HashMap<Vec<u8>, Entry>,
    /// Why the result can't be cached.
    pub(super) uncacheable: Option<String>,
    /// The first time that it read from the clock.
    pub(super) time: Option<i64>,
    shadow: Option<Shadow>,
}

/// How the environment of a shadow compilation differs.
#[derive(Clone, Copy)]
pub(super) struct Shadow {
    /// The time that the first compilation read. The shadow's time is computed from it and not from the
    /// clock, so that the two always differ in every digit.
    pub(super) before: i64,
    /// Whether the working directory differs, too.
    pub(super) is_elsewhere: bool,
}

/// The compilations in progress, by thread id.
static IN_PROGRESS: Locked<HashMap<u32, Observed>> = Locked::new();

/// The variables that any NVRTC has read since it was loaded: it reads some only once. `None` marks a
/// variable whose value has changed.
static VARIABLES: Locked<HashMap<Vec<u8>, Option<Value>>> = Locked::new();

/// The digest of a variable's value, or `None` if it isn't set.
pub(super) type Value = Option<Digest>;

pub(super) const PWD: &[u8] = b"PWD";

/// The working directory of a shadow. It's longer than most.
pub(super) const ELSEWHERE: &CStr =
    c"/kernel-registry/another/working/directory/with/a/longer/path/than/most/programs/have";

/// A shadow's clock is this much behind: year, month, day and all digits of the time differ.
const EARLIER: i64 = 4 * 365 * 86_400 + 100 * 86_400 + (11 * 60 + 11) * 60 + 11;

/// Starts to note everything that this thread's compilation reads.
pub(super) fn begin(shadow: Option<Shadow>) -> Observer {
    let thread = thread_number();
    IN_PROGRESS.with(|all| all.insert(thread, Observed { shadow, ..Observed::default() }));
    Observer(thread)
}

/// Notes a compilation's reads until it's dropped.
pub(super) struct Observer(u32);

impl Observer {
    pub(super) fn end(self) -> Observed {
        IN_PROGRESS.with(|all| all.remove(&self.0)).unwrap_or_default()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        IN_PROGRESS.with(|all| drop(all.remove(&self.0)));
    }
}

/// Returns the variables that NVRTC has read, or the name of one whose value has changed.
pub(super) fn variables() -> Result<Vec<(Vec<u8>, Value)>, Vec<u8>> {
    VARIABLES.with(|all| {
        let known =
            |(name, value): (&Vec<u8>, &Option<Value>)| Ok((name.clone(), value.ok_or(name.clone())?));
        all.iter().map(known).collect()
    })
}

/// Returns whether NVRTC would see this value of a variable: it's the current value, and also the one that
/// NVRTC saw if it has read the variable before.
pub(super) fn would_see(name: &[u8], value: Value) -> bool {
    let before = VARIABLES.with(|all| all.get(name).copied());
    before.is_none_or(|before| before == Some(value)) && value_of(name) == value
}

pub(super) fn value_of(name: &[u8]) -> Value {
    let value = std::env::var_os(std::ffi::OsStr::from_bytes(name));
    value.map(|value| Digest::new(value.as_bytes()))
}

unsafe extern "C-unwind" fn hook<const INDEX: usize>(
    one: usize,
    two: usize,
    three: usize,
    four: usize,
) -> usize {
    let real = REAL[INDEX].load(Ordering::Acquire);
    // SAFETY: the stubs jump here only after `resolve`, and NVRTC calls only functions that exist.
    let mut answer = unsafe { mem::transmute::<*mut (), Function>(real)(one, two, three, four) };
    // SAFETY: `errno` is the thread's own.
    let (errno, error) = unsafe { (libc::__errno_location(), *libc::__errno_location()) };
    let arguments = [one, two, three, four];
    let _no_cancel = NoCancel::new();
    // SAFETY: the arguments and the answer are those of this function.
    if let Some(other) = unsafe { note(INDEX, const { meaning(INDEX) }, arguments, answer) } {
        answer = other;
    }
    // SAFETY: as above.
    unsafe { *errno = error };
    answer
}

/// Notes a call for its thread's compilation. If the thread isn't compiling, it's a worker of NVRTC, and the
/// call is noted for all compilations. Returns the changed answer for a shadow, if there is one.
///
/// # Safety
///
/// The arguments and the answer are those of the function at this index.
unsafe fn note(index: usize, meaning: Meaning, arguments: Arguments, answer: usize) -> Option<usize> {
    // SAFETY: as the caller promises, arguments with a name or a path are texts that end with a zero.
    let text = |argument: usize| unsafe {
        CStr::from_ptr(ptr::with_exposed_provenance::<c_char>(arguments[argument])).to_bytes()
    };
    let own = thread_number();
    let (is_watched, shadow) =
        IN_PROGRESS.with(|all| (!all.is_empty(), all.get(&own).and_then(|asked| asked.shadow)));
    if let Some(shadow) = shadow {
        let path = match meaning {
            Meaning::Probe(at) => Some(at),
            Meaning::Open | Meaning::OpenStream => Some(0),
            _ => None,
        };
        if let Some(path) = path.filter(|at| arguments[*at] != 0).map(text) {
            IN_PROGRESS.with(|all| all.get_mut(&own)?.paths.insert(path.to_vec(), Entry::Missing));
        }
        // SAFETY: as the caller promises.
        return unsafe { answer_to_shadow(meaning, shadow, arguments, answer) };
    }
    let (path, entry) = match meaning {
        Meaning::FormattedTime | Meaning::Directory | Meaning::Process => return None,
        Meaning::Time => {
            let note = |asked: &mut Observed| asked.time = asked.time.or(Some(answer as i64));
            IN_PROGRESS.with(|all| all.get_mut(&own).map(note));
            return None;
        }
        Meaning::Variable => {
            note_variable(text(0), answer);
            return None;
        }
        _ if !is_watched => return None,
        Meaning::Other => (None, Err(format!("NVRTC calls `{}` for it", IMPORTS[index].to_string_lossy()))),
        Meaning::Probe(at) if arguments[at] == 0 => return None,
        Meaning::Probe(at) => (Some(text(at)), Ok(Entry::at(path_of(text(at))))),
        Meaning::Open | Meaning::OpenStream if arguments[0] == 0 => return None,
        Meaning::Open => {
            let flags = arguments[1] as c_int & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC);
            (Some(text(0)), opened(text(0), flags != libc::O_RDONLY, answer as RawFd))
        }
        Meaning::OpenStream => {
            let writes = text(1).iter().any(|flag| b"wa+".contains(flag));
            let stream = ptr::with_exposed_provenance_mut::<libc::FILE>(answer);
            // SAFETY: the function has returned this stream.
            let descriptor = if stream.is_null() { -1 } else { unsafe { libc::fileno(stream) } };
            (Some(text(0)), opened(text(0), writes, descriptor))
        }
    };
    IN_PROGRESS.with(|all| {
        let is_own = all.contains_key(&own);
        for (_, asked) in all.iter_mut().filter(|(thread, _)| !is_own || **thread == own) {
            let entry = match (&entry, path) {
                (Ok(entry), Some(path)) => asked.paths.entry(path.to_vec()).or_insert(*entry).add(*entry),
                (Ok(_), None) => Ok(()),
                (Err(why), _) => Err(why.clone()),
            };
            if let Err(why) = entry {
                asked.uncacheable.get_or_insert(why);
            }
        }
    });
    None
}

fn path_of(text: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(text))
}

/// Returns the snapshot of a file that NVRTC has opened, or tried to: then the descriptor is negative.
fn opened(path: &[u8], writes: bool, descriptor: RawFd) -> Result<Entry, String> {
    let path = path_of(path);
    if writes {
        return Err(format!("NVRTC writes the file `{}` for it", path.display()));
    }
    if descriptor < 0 {
        return match Entry::at(path) {
            Entry::File(_) => Err(format!("NVRTC can't open `{}`", path.display())),
            entry => Ok(entry),
        };
    }
    // SAFETY: NVRTC has just opened the descriptor, and closes it later.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let failed = |why: String| format!("it reads `{}`, {why}", path.display());
    let (file, bytes) =
        File::read(descriptor).map_err(|error| failed(format!("which can't be read again: {error}")))?;
    match tells_time(&bytes) {
        Some(why) => Err(failed(format!("and {why}"))),
        None => Ok(Entry::Opened(file, Digest::new(&bytes))),
    }
}

/// Notes the value of a variable, except for the working directory: [shadows](super::shadow) detect that one.
fn note_variable(name: &[u8], answer: usize) {
    if name == PWD {
        return;
    }
    let value = ptr::with_exposed_provenance::<c_char>(answer);
    // SAFETY: values end with a zero.
    let value = (!value.is_null()).then(|| Digest::new(unsafe { CStr::from_ptr(value) }.to_bytes()));
    VARIABLES.with(|all| {
        let known = all.entry(name.to_vec()).or_insert(Some(value));
        *known = known.filter(|known| *known == value);
    });
}

/// Returns the changed answer for a shadow, if there is one. Changes a working directory in place.
///
/// # Safety
///
/// The arguments and the answer are those of a function with this meaning.
unsafe fn answer_to_shadow(
    meaning: Meaning,
    shadow: Shadow,
    arguments: Arguments,
    answer: usize,
) -> Option<usize> {
    let [out, room, ..] = arguments;
    match meaning {
        Meaning::Time => {
            let earlier = shadow.before - EARLIER;
            let out = ptr::with_exposed_provenance_mut::<i64>(out);
            // SAFETY: `time` stores its answer there, too, unless the pointer is null.
            unsafe { out.as_mut().into_iter().for_each(|out| *out = earlier) };
            Some(earlier as usize)
        }
        Meaning::Process => Some(answer ^ 0x5555),
        _ if !shadow.is_elsewhere => None,
        Meaning::Directory if out != 0 && answer != 0 && room > ELSEWHERE.count_bytes() => {
            let text = ELSEWHERE.to_bytes_with_nul();
            let out = ptr::with_exposed_provenance_mut::<u8>(out);
            // SAFETY: there's room for it.
            unsafe { out.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
            None
        }
        Meaning::Variable if answer != 0 => {
            // SAFETY: the name ends with a zero.
            let name = unsafe { CStr::from_ptr(ptr::with_exposed_provenance::<c_char>(out)) };
            (name.to_bytes() == PWD).then(|| ELSEWHERE.as_ptr().expose_provenance())
        }
        _ => None,
    }
}
