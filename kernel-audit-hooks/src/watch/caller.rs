//! Finds a hook's caller: the first function on the stack outside of audit, driver and runtime API.

pub(crate) mod cfi;
pub(crate) mod unwind;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::ops::DerefMut;
use std::path::Path;
use std::sync::Arc;

use crate::watch::loader::build_id;
use crate::watch::loader::mapped::{self, Mapped};
use crate::watch::loader::symbols::{Sorted, Symbols};
use crate::watch::process::locked::Locked;
use crate::watch::python::{self, Frame};
use cfi::Rule;
use unwind::{Registers, Stack};

/// Limits the number of frames read.
const DEPTH: usize = 48;

/// The caller of a hook.
#[derive(Default)]
pub(crate) struct Caller {
    pub(crate) library: String,
    /// Library and function, as in `libtorch_cuda.so cublasCreate_v2`.
    pub(crate) name: String,
    /// The stack from the caller on, one line per frame.
    pub(crate) stack: String,
}

/// Finds the caller of the hook that this thread is executing.
#[inline(never)]
pub(crate) fn find(hook: *const c_void) -> Caller {
    find_from(Registers::current(), hook).in_python(&python::frames())
}

impl Caller {
    /// Prepends the thread's Python frames to the stack, and makes the user's function the caller.
    pub(crate) fn in_python(self, frames: &[Frame]) -> Caller {
        let Some(user) = python::find_users_frame(frames) else { return self };
        let name = |frame: &Frame| format!("{}:{} {}", frame.file, frame.line, frame.function);
        let short = user.file.rsplit('/').next().unwrap_or_default();
        let lines: String = frames.iter().map(|frame| format!("{}\n", name(frame))).collect();
        let caller = name(&Frame { file: short.into(), ..user.clone() });
        Caller { name: caller, stack: lines + &self.stack, library: self.library }
    }
}

/// Libraries that only forward calls: whoever calls them is the caller.
const FORWARDERS: [&str; 6] = ["libcuda.so", "libcudart.so", "libc.so", "ld-linux", "libffi.so", "_ctypes."];

/// An upper bound for the size of a hook's code, in bytes.
const LARGEST: u64 = 1 << 16;

/// Finds the caller from a frame's registers.
pub(crate) fn find_from(registers: Registers, hook: *const c_void) -> Caller {
    let mut cache = cache();
    let frames = cache.frames(registers);
    // The hook's frame is the one closest after the hook's first instruction. That matters if hooks are
    // linked into the program itself.
    let hook = hook.addr() as u64;
    let after = |frame: &(u64, Arc<Location>)| frame.0.checked_sub(hook).unwrap_or(u64::MAX);
    let nearest = (0..frames.len()).min_by_key(|index| after(&frames[*index]));
    let skipped = nearest.filter(|index| after(&frames[*index]) < LARGEST).map_or(0, |index| index + 1);
    // If hooks are in their own library, all frames of that library are skipped.
    let own = if cfg!(feature = "export") { cache.known(hook) } else { None };
    let is_inside = |(_, frame): &&(u64, Arc<Location>)| {
        own.as_ref().is_some_and(|own| own.library == frame.library)
            || FORWARDERS.iter().any(|library| frame.library.starts_with(library))
    };
    let mut outside = frames[skipped..].iter().skip_while(is_inside).peekable();
    let (library, name) = match outside.peek() {
        Some((_, its)) => {
            let function = its.function.iter().map(|function| format!(" {function}")).collect::<String>();
            (its.library.clone(), format!("{}{function}", its.library))
        }
        None => Default::default(),
    };
    Caller { library, name, stack: outside.map(|(_, known)| &*known.line).collect() }
}

/// The function and library at an instruction's address.
struct Location {
    library: String,
    /// `None` if the file doesn't export the function.
    function: Option<String>,
    /// The line for the stack.
    line: String,
    rule: Option<Rule>,
}

/// The interpreter's function that runs Python functions. Native stacks are read up to it: Python's own
/// frames say who called it, and a coroutine's stack can end there.
const INTERPRETER: &str = "_PyEval_EvalFrameDefault";

/// Caches locations by address, until a file is unmapped: another one can reuse its addresses.
#[derive(Default)]
struct LocationCache {
    unmapped: u64,
    addresses: HashMap<u64, Arc<Location>>,
    /// Sorted symbols by load bias. A library of PyTorch has hundreds of thousands.
    sorted: HashMap<u64, Option<Sorted>>,
}

fn cache() -> impl DerefMut<Target = LocationCache> {
    /// An upper bound for the addresses on a program's stacks.
    const MOST: usize = 1 << 16;
    static CACHE: Locked<LocationCache> = Locked::new();
    let (_, unmapped) = mapped::counts();
    let mut cache = CACHE.lock();
    if cache.unmapped != unmapped || cache.addresses.len() >= MOST {
        *cache = LocationCache { unmapped, ..LocationCache::default() };
    }
    cache
}

impl LocationCache {
    /// Unwinds from these registers. Returns each frame's address and location.
    fn frames(&mut self, mut registers: Registers) -> Vec<(u64, Arc<Location>)> {
        let (mut frames, mut stack) = (Vec::new(), Stack::new());
        while frames.len() < DEPTH
            && let Some(known) = self.known(registers.pc)
        {
            let (rule, is_last) = (known.rule, known.function.as_deref() == Some(INTERPRETER));
            frames.push((registers.pc, known));
            match rule.filter(|_| !is_last).and_then(|rule| stack.caller(registers, &rule)) {
                Some(caller) => registers = caller,
                None => break,
            }
        }
        frames
    }

    /// Looks up an address. Returns `None` if no mapped file contains it.
    fn known(&mut self, address: u64) -> Option<Arc<Location>> {
        match self.addresses.entry(address) {
            Entry::Occupied(entry) => Some(entry.get().clone()),
            Entry::Vacant(entry) => Some(entry.insert(Arc::new(look_up(address, &mut self.sorted)?)).clone()),
        }
    }
}

fn look_up(address: u64, sorted: &mut HashMap<u64, Option<Sorted>>) -> Option<Location> {
    // A return address can be beyond its function, if the call is the function's last instruction.
    let inside = address.checked_sub(1)?;
    let mut known = None;
    mapped::each(&mut |file| {
        let contains = file.segment_at(inside, 1).is_some();
        if contains {
            known = Some(describe(file, sorted, address, inside));
        }
        contains
    });
    known
}

fn describe(
    file: &Mapped<'_>,
    sorted: &mut HashMap<u64, Option<Sorted>>,
    address: u64,
    inside: u64,
) -> Location {
    let symbols = Symbols::read(file);
    let sorted = sorted.entry(file.base).or_insert_with(|| Some(symbols.as_ref()?.sorted()));
    let function =
        symbols.as_ref().zip(sorted.as_ref()).and_then(|(symbols, sorted)| symbols.around(sorted, inside));
    let (library, function, line) = name(file, &file.path().unwrap_or_default(), address, function);
    Location { library, function, line: line + "\n", rule: cfi::rule(file, inside) }
}

/// Returns the library and the function of an address, and the line for the stack.
pub(crate) fn name(
    file: &Mapped<'_>,
    path: &Path,
    address: u64,
    function: Option<(&[u8], u64)>,
) -> (String, Option<String>, String) {
    let library = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let function =
        function.map(|(name, start)| (String::from_utf8_lossy(name).into_owned(), address - start));
    let offset = address - file.begin();
    let line = match (&function, build_id::read(file)) {
        (Some((function, offset)), _) => format!("{library} {function}+{offset:#x}"),
        // Whoever reads the record can look up the function in the file.
        (None, Some(id)) => format!("{}#{id}+{offset:#x}", path.display()),
        (None, None) => format!("{library}+{offset:#x}"),
    };
    (library, function.map(|(name, _)| name), line)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::ptr;

    use super::*;

    fn addresses() -> [Vec<u64>; 2] {
        let ours = cache().frames(Registers::current()).iter().map(|(address, _)| *address).collect();
        let mut theirs = [ptr::null_mut(); DEPTH];
        // SAFETY: the array has room for `DEPTH` addresses.
        let count = unsafe { libc::backtrace(theirs.as_mut_ptr(), DEPTH as i32) };
        [ours, theirs[..count as usize].iter().map(|address| address.addr() as u64).collect()]
    }

    #[inline(never)]
    fn deep(depth: usize) -> [Vec<u64>; 2] {
        let mut items: Vec<_> = (0..depth).rev().map(|item| black_box(item) * 7).collect();
        // The sort calls the closure from a function of another crate, which has its own frame.
        items.sort_by_key(|item| *item);
        let found = if depth == 0 { addresses() } else { deep(depth - 1) };
        black_box(items);
        found
    }

    #[test]
    fn the_stack_is_that_of_glibcs_unwinder() {
        let [ours, theirs] = deep(12);
        // The first address differs, because the two unwinders are called at different instructions.
        assert!(ours.len() > 20, "{ours:x?} {theirs:x?}");
        let same = ours.iter().zip(&theirs).skip(1).filter(|(ours, theirs)| ours == theirs).count();
        assert!(same >= ours.len().min(theirs.len()) - 2, "{ours:x?} {theirs:x?}");
    }

    #[test]
    fn a_stack_without_an_end_is_read_as_far_as_it_goes() {
        let words = [u64::MAX; 64];
        let sp = words.as_ptr().addr() as u64;
        for fp in [0, 8, sp + 8, sp + 1, u64::MAX, u64::MAX - 7, 1 << 47] {
            let here = Registers::current();
            assert!(cache().frames(Registers { fp, ..here }).len() <= DEPTH);
            assert!(cache().frames(Registers { sp: fp, ..here }).len() <= DEPTH);
            assert!(cache().frames(Registers { pc: fp, ..here }).len() <= DEPTH);
        }
    }
}
