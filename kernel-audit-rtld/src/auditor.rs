//! The callbacks of the loader's auditing interface, and the function that binds a stub at its first call.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::link_map::{ABSOLUTE, LinkMap, Symbol, UNDEFINED};
use crate::stubs::{stub, targets, unbound};
use crate::{BIND, Bind, ENTRIES, EXPORTS, IMPORTS, LIBRARIES, Library, MARK, OLDEST_SYMBOLS, PACKED_HOOKS, ROOM};

/// The oldest supported interface, of glibc 2.35. Before, an auditor slowed down all calls between libraries.
const OLDEST: c_uint = 2;

/// The program's namespace, `LM_ID_BASE`.
const BASE: c_long = 0;

const LAZY: c_int = 1;

/// The maximum number of symbols. NVRTC 13.5 has 440.
const MOST: usize = 2048;

/// A copy of a library's symbol table, with the addresses of the stubs.
struct SymbolTable(UnsafeCell<[Symbol; MOST]>);

// SAFETY: only the callbacks below write to it, under the loader's lock.
unsafe impl Sync for SymbolTable {}

static COPIES: [SymbolTable; LIBRARIES] =
    [const { SymbolTable(UnsafeCell::new([Symbol::NONE; MOST])) }; LIBRARIES];

static ALL: [Library; LIBRARIES] = [const {
    Library {
        base: AtomicUsize::new(0),
        generation: AtomicUsize::new(0),
        symbols: AtomicUsize::new(0),
        real: [const { AtomicUsize::new(0) }; EXPORTS.len()],
    }
}; LIBRARIES];

/// The link map of the program's C library, which is never unmapped.
static LIBC: AtomicPtr<LinkMap> = AtomicPtr::new(ptr::null_mut());

/// The number of libraries found so far.
static FOUND: AtomicUsize = AtomicUsize::new(0);

/// The path of the hooks, which the command patches into this library's file.
#[repr(C)]
struct Hooks {
    mark: [u8; MARK.len()],
    path: [u8; ROOM],
}

#[used]
static HOOKS: Hooks = Hooks { mark: *MARK, path: PACKED_HOOKS };

/// Negotiates the version of the interface. 0 refuses a loader that's too old.
#[unsafe(no_mangle)]
extern "C" fn la_version(version: c_uint) -> c_uint {
    if version < OLDEST { 0 } else { version }
}

/// Called for each mapped library before its symbols are bound. Returns 0: bindings needn't be reported.
#[unsafe(no_mangle)]
unsafe extern "C" fn la_objopen(map: *mut LinkMap, namespace: c_long, cookie: *mut usize) -> c_uint {
    // SAFETY: the loader passes the link map of a library that it has just mapped, and room for a number.
    unsafe {
        if namespace == BASE && (*map).file() == b"libc.so.6" {
            LIBC.store(map, Ordering::Relaxed);
        } else if namespace == BASE
            && is_nvrtc((*map).file())
            && let Some(library) = ALL.iter().position(|its| its.generation.load(Ordering::Relaxed) == 0)
            && interpose(&*map, library).is_some()
        {
            *cookie = library;
        }
    }
    0
}

/// Called before a library is unmapped.
#[unsafe(no_mangle)]
unsafe extern "C" fn la_objclose(cookie: *mut usize) -> c_uint {
    // SAFETY: the loader passes the number that `la_objopen` left there, or else an address.
    if let Some(library) = ALL.get(unsafe { *cookie }) {
        library.generation.store(0, Ordering::Relaxed);
    }
    0
}

/// Returns whether a file is named like NVRTC: `libnvrtc.so.13`, `libnvrtc.alt.so.13`, or in old wheels
/// `libnvrtc-672ee683.so.11.2`, but not `libnvrtc-builtins.so.13.0`.
fn is_nvrtc(file: &[u8]) -> bool {
    file.strip_prefix(b"libnvrtc")
        .is_some_and(|rest| matches!(rest, [b'.' | b'-', ..]) && !rest.starts_with(b"-builtins"))
}

/// Replaces a library's symbol table by one whose symbols are the stubs. Returns `None` for a library that
/// isn't NVRTC, or has too many symbols.
///
/// # Safety
///
/// The library is mapped, and none of its symbols are bound yet.
unsafe fn interpose(map: &LinkMap, library: usize) -> Option<()> {
    let (record, copy) = (&ALL[library], COPIES[library].0.get().cast::<Symbol>());
    record.real.iter().for_each(|real| real.store(0, Ordering::Relaxed));
    // SAFETY: the library is mapped, and the copy belongs to it alone.
    unsafe {
        let table = map.table().filter(|table| table.count <= MOST)?;
        for index in 0..table.count {
            let mut symbol = table.symbol(index);
            let names: &[&CStr] = if symbol.section == UNDEFINED { &IMPORTS } else { &EXPORTS };
            match table.index_in(&symbol, names) {
                Some(import) if symbol.section == UNDEFINED => {
                    // STV_HIDDEN: the loader binds the symbol within the library, and never for others.
                    symbol.section = ABSOLUTE;
                    symbol.other = 2;
                    symbol.value = stub(library, EXPORTS.len() + import);
                }
                Some(export) => {
                    let real = map.base.wrapping_add(symbol.value);
                    record.real[export].store(real, Ordering::Relaxed);
                    symbol.value = stub(library, export).wrapping_sub(map.base);
                }
                None => {}
            }
            copy.add(index).write(symbol);
        }
        let has = |name: &CStr| {
            let index = EXPORTS.iter().position(|its| its.to_bytes() == name.to_bytes());
            index.is_some_and(|index| record.real[index].load(Ordering::Relaxed) != 0)
        };
        if !has(c"nvrtcCreateProgram") || !has(c"nvrtcCompileProgram") || !has(c"nvrtcDestroyProgram") {
            return None;
        }
        for (entry, target) in targets(library).iter().enumerate() {
            target.store(unbound(library, entry), Ordering::Relaxed);
        }
        record.base.store(map.base, Ordering::Relaxed);
        record.symbols.store(table.symbols.addr(), Ordering::Relaxed);
        record.generation.store(FOUND.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Release);
        table.replace(copy);
    }
    Some(())
}

/// Binds a stub's library to the hooks, or else the stub to the real function. Returns the stub's target.
///
/// # Safety
///
/// Called by a stub of a mapped library.
#[unsafe(no_mangle)]
unsafe extern "C" fn kernel_audit_rtld_target(index: usize) -> usize {
    let (library, entry) = (index / ENTRIES, index % ENTRIES);
    let target = &targets(library)[entry];
    // SAFETY: as the caller promises.
    let loader = unsafe { Loader::find() };
    // SAFETY: as above.
    if unsafe { loader.as_ref().is_some_and(|loader| loader.bind(library)) } {
        return target.load(Ordering::Acquire);
    }
    let real = match entry.checked_sub(EXPORTS.len()) {
        None => ALL[library].real[entry].load(Ordering::Relaxed),
        // SAFETY: as above.
        Some(import) => unsafe { loader.map_or(0, |loader| loader.symbol(IMPORTS[import])) },
    };
    target.store(real, Ordering::Release);
    real
}

/// The loader's functions for the program's namespace.
struct Loader {
    open: Open,
    symbol: Find,
    version: FindVersion,
    error: TakeError,
}

/// The types of `dlmopen`, `dlsym`, `dlvsym` and `dlerror`.
type Open = unsafe extern "C" fn(c_long, *const c_char, c_int) -> *mut c_void;
type Find = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type TakeError = unsafe extern "C" fn() -> *const c_char;
type FindVersion = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

impl Loader {
    /// Looks up the functions in the program's C library.
    ///
    /// # Safety
    ///
    /// The program's C library is mapped and relocated.
    unsafe fn find() -> Option<Loader> {
        // SAFETY: as the caller promises. The functions have these types.
        unsafe {
            let libc = LIBC.load(Ordering::Relaxed).as_ref()?;
            let table = libc.table()?;
            let function = |name| Some(ptr::with_exposed_provenance::<c_void>(table.find(name, libc.base)?));
            Some(Loader {
                open: mem::transmute::<*const c_void, Open>(function(c"dlmopen")?),
                symbol: mem::transmute::<*const c_void, Find>(function(c"dlsym")?),
                version: mem::transmute::<*const c_void, FindVersion>(function(c"dlvsym")?),
                error: mem::transmute::<*const c_void, TakeError>(function(c"dlerror")?),
            })
        }
    }

    /// Loads the hooks, and lets them bind a library. Returns whether they did.
    unsafe fn bind(&self, library: usize) -> bool {
        // SAFETY: the hooks export this function with this type, and may be loaded as any library.
        unsafe {
            let hooks = (self.open)(BASE, (&raw const HOOKS.path).cast(), LAZY);
            if hooks.is_null() {
                // Clears the message, so that the program doesn't get it instead of its own.
                (self.error)();
                return false;
            }
            let bind = (self.symbol)(hooks, BIND.as_ptr());
            !bind.is_null()
                && mem::transmute::<*mut c_void, Bind>(bind)(library, &ALL[library], targets(library))
        }
    }

    /// Looks up a function in the program's global scope.
    unsafe fn symbol(&self, name: &CStr) -> usize {
        // SAFETY: without a name, `dlmopen` returns the handle for the global scope.
        unsafe {
            let program = (self.open)(BASE, ptr::null(), LAZY);
            let found = (self.symbol)(program, name.as_ptr());
            if !found.is_null() {
                return found.addr();
            }
            // Symbols such as `__xstat` aren't for new programs, and can be found only by their version.
            (self.version)(program, name.as_ptr(), OLDEST_SYMBOLS.as_ptr()).addr()
        }
    }
}
