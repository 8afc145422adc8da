//! The NVRTC libraries of the process: several packages of Python bring one each.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use super::looking::{self, Looking};
use super::programs::Handle;
use crate::kept::{Digest, Hasher};
use crate::variables::{NVRTC_FUNCTIONS, NVRTC_LIBRARY};
use crate::watch::caller;
use crate::watch::loader::build_id;
use crate::watch::loader::mapped::{self, Mapped};
use crate::watch::loader::slots::Slot;
use crate::watch::loader::symbols::{self, Symbols};
use crate::watch::process::fork;
use crate::watch::process::locked::Locked;

/// How many libraries have hooks of their own, which `dlsym` returns. A program that opens more gets the functions of the further ones as they are.
pub(super) const LIBRARIES: usize = 4;

/// The functions, in the order in which hooks and libraries have them. Those of a result come in pairs: one returns its size, the next its bytes.
pub(super) fn names() -> &'static [&'static str] {
    &NVRTC_FUNCTIONS[1..]
}

pub(super) const FUNCTIONS: usize = NVRTC_FUNCTIONS.len() - 1;
pub(super) const CREATE: usize = 0;
pub(super) const DESTROY: usize = 1;
pub(super) const COMPILE: usize = 2;
pub(super) const ADD_NAME: usize = 3;
const COMPILE_NAME: &CStr = c"nvrtcCompileProgram";
pub(super) const LOWERED: usize = 4;
pub(super) const SET_CALLBACK: usize = 5;
/// The first function of a result.
pub(super) const RESULTS: usize = 6;
/// How many results a program can have.
pub(super) const PARTS: usize = (FUNCTIONS - RESULTS) / 2;

/// Functions that change nothing of a result that is kept. A library with others may have results that are not known here.
const OTHERS: [&[u8]; 11] = [
    b"nvrtcVersion",
    b"nvrtcGetErrorString",
    b"nvrtcGetNumSupportedArchs",
    b"nvrtcGetSupportedArchs",
    b"nvrtcGetPCHCreateStatus",
    b"nvrtcGetPCHHeapSize",
    b"nvrtcGetPCHHeapSizeRequired",
    b"nvrtcSetPCHHeapSize",
    b"nvrtcGetBundledHeadersInfo",
    b"nvrtcInstallBundledHeaders",
    b"nvrtcRemoveBundledHeaders",
];

/// An NVRTC in the process.
pub(super) struct Nvrtc {
    base: u64,
    /// The build id.
    id: Option<String>,
    functions: [u64; FUNCTIONS],
    version: u64,
    identity: OnceLock<Result<Digest, String>>,
    /// From where it takes the addresses of functions that open files.
    slots: OnceLock<Vec<Slot>>,
}

/// All that were found, never removed: programs keep their numbers.
static ALL: Locked<Vec<&'static Nvrtc>> = Locked::new();

/// The library of this number.
pub(super) fn at(number: usize) -> Option<&'static Nvrtc> {
    ALL.lock_inherited().get(number).copied()
}

/// What has a function at an address.
pub(super) enum Found {
    /// The NVRTC of this number.
    Library(usize),
    /// The library before all others.
    InFront,
    Other,
}

/// Finds what has a function at this address.
pub(super) fn at_address(address: u64) -> Found {
    let mut found = Found::Other;
    let mut nvrtc = None;
    mapped::each(&mut |file| {
        let is_it = file.segment_at(address, 1).is_some();
        if is_it && is_in_front(file) {
            found = Found::InFront;
        } else if is_it {
            nvrtc = Nvrtc::read(file);
        }
        is_it
    });
    nvrtc.map_or(found, |nvrtc| Found::Library(number(nvrtc)))
}

/// The number of the library that calls of the current thread mean, which the loader would have linked: the only one in the process, or the only one
/// that another library needs, or the one that the caller's file needs.
pub(super) fn number_for_caller() -> Option<usize> {
    let (mut all, mut needed) = (Vec::new(), Vec::<Vec<u8>>::new());
    mapped::each(&mut |file| {
        let Some(symbols) = Symbols::read(file).filter(|_| !is_in_front(file)) else { return false };
        needed.extend(symbols.needed().filter(|name| name.starts_with(b"libnvrtc")).map(<[u8]>::to_vec));
        if let Some(nvrtc) = Nvrtc::read(file) {
            all.push((nvrtc, file.name.to_vec(), symbols.soname().map(<[u8]>::to_vec)));
        }
        false
    });
    let is_needed = |(_, path, soname): &(Nvrtc, Vec<u8>, Option<Vec<u8>>)| {
        let file = path.rsplit(|byte| *byte == b'/').next();
        needed.iter().any(|name| soname.as_ref() == Some(name) || file == Some(name))
    };
    if all.len() > 1 && all.iter().any(is_needed) {
        all.retain(is_needed);
    }
    let bases: Vec<_> = all.iter().map(|(nvrtc, ..)| nvrtc.base).collect();
    let by_caller = if bases.len() > 1 { needed_by_caller(&bases) } else { None };
    let chosen = by_caller.and_then(|base| bases.iter().position(|its| *its == base)).unwrap_or(0);
    (chosen < all.len()).then(|| number(all.swap_remove(chosen).0))
}

/// Whether a file is the library before all others, whose functions jump to ours.
fn is_in_front(file: &Mapped<'_>) -> bool {
    file.name.ends_with(NVRTC_LIBRARY.as_bytes())
}

/// Which of these libraries the file of the caller needs.
fn needed_by_caller(bases: &[u64]) -> Option<u64> {
    let caller = caller::base_of_caller()?;
    let needed = symbols::find_from(caller, COMPILE_NAME)?;
    let mut found = None;
    mapped::each(&mut |file| {
        found = (bases.contains(&file.base) && file.segment_at(needed, 1).is_some()).then_some(file.base);
        found.is_some()
    });
    found
}

/// The number of a library. A library that was closed may have left its address to another build.
fn number(found: Nvrtc) -> usize {
    let mut all = ALL.lock_inherited();
    let is_it =
        |its: &&'static Nvrtc| (its.base, &its.id, its.functions) == (found.base, &found.id, found.functions);
    match all.iter().position(is_it) {
        Some(known) => known,
        None => {
            all.push(Box::leak(Box::new(found)));
            all.len() - 1
        }
    }
}

impl Nvrtc {
    fn read(file: &Mapped<'_>) -> Option<Nvrtc> {
        let symbols = Symbols::read(file)?;
        let version = symbols.find(b"nvrtcVersion")?;
        let mut functions = [0; FUNCTIONS];
        for (function, name) in functions.iter_mut().zip(names()) {
            *function = symbols.find(name.as_bytes()).unwrap_or(0);
        }
        let has_all =
            [CREATE, DESTROY, COMPILE, ADD_NAME, LOWERED].iter().all(|index| functions[*index] != 0);
        let id = build_id::read(file);
        has_all.then(|| Nvrtc {
            base: file.base,
            id,
            functions,
            version,
            identity: OnceLock::new(),
            slots: OnceLock::new(),
        })
    }

    /// The function at this place in the list, as a pointer of its type.
    ///
    /// # Safety
    ///
    /// `F` is the type of a pointer to the function of that name.
    pub(super) unsafe fn function<F: Copy>(&self, index: usize) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
        let address = ptr::with_exposed_provenance::<c_void>(self.functions[index] as usize);
        // SAFETY: the caller promises the type. The library is used by the program, which calls this.
        (!address.is_null()).then(|| unsafe { mem::transmute_copy::<*const c_void, F>(&address) })
    }

    /// The major and minor version.
    pub(super) fn version(&self) -> Option<(c_int, c_int)> {
        let address = ptr::with_exposed_provenance::<c_void>(self.version as usize);
        // SAFETY: this is the type of `nvrtcVersion`.
        let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int =
            unsafe { mem::transmute(address) };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: it stores two numbers.
        (unsafe { version(&mut major, &mut minor) } == 0).then_some((major, minor))
    }

    /// The digest of the compiler, of which the results are: its version, its build, and its builtins. Or why its results cannot be kept.
    pub(super) fn identity(&self) -> Result<Digest, String> {
        fork::once(&self.identity, || self.identify()).clone()
    }

    /// Begins to see which files it looks at in the current thread.
    pub(super) fn look(&'static self) -> Result<Looking, String> {
        looking::begin(fork::once(&self.slots, || looking::slots(self.base)).as_slice())
    }

    fn identify(&self) -> Result<Digest, String> {
        let (mut path, mut unknown) = (None, None);
        mapped::each(&mut |file| {
            let is_it = file.base == self.base;
            if is_it {
                path = file.path();
                let symbols = Symbols::read(file);
                let name = symbols.and_then(|symbols| symbols.names_defined().find(|name| !is_known(name)));
                unknown = name.map(|name| String::from_utf8_lossy(name).into_owned());
            }
            is_it
        });
        if let Some(name) = unknown {
            return Err(format!("this NVRTC has `{name}`, which is not known here"));
        }
        let (major, minor) = self.version().ok_or("this NVRTC does not tell its version")?;
        let id = self.id.as_ref().ok_or("this NVRTC has no build id")?;
        let path = path.ok_or("the file of this NVRTC is not known")?;
        let builtins = builtins(&path, &format!("libnvrtc-builtins.so.{major}.{minor}"))?;
        let mut hasher = Hasher::new("NVRTC");
        hasher.add(format!("{major}.{minor} {id} {builtins}").as_bytes());
        Ok(hasher.digest())
    }
}

/// The build id of the builtins that an NVRTC at this path uses: those that are open, or else those beside it, unless the loader would find others first.
fn builtins(nvrtc: &Path, name: &str) -> Result<String, String> {
    const NONE: &str = "there are no builtins with a build id beside this NVRTC";
    let mut open = BTreeSet::new();
    mapped::each(&mut |file| {
        if file.name.rsplit(|byte| *byte == b'/').next() == Some(name.as_bytes()) {
            open.insert(build_id::read(file));
        }
        false
    });
    match (open.len(), open.pop_first().flatten()) {
        (0, _) => {}
        (1, Some(id)) => return Ok(id),
        _ => return Err("several builtins of this NVRTC are open, or one without a build id".to_owned()),
    }
    let beside = nvrtc.with_file_name(name);
    let id = build_id::read_file(&beside).ok_or(NONE)?;
    let folders = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let others = env::split_paths(&folders).map(|folder| folder.join(name)).filter(|path| path.exists());
    match others.into_iter().find(|path| build_id::read_file(path).as_ref() != Some(&id)) {
        Some(other) => {
            Err(format!("`{}` may be used in place of the builtins beside this NVRTC", other.display()))
        }
        None => Ok(id),
    }
}

/// Whether a symbol is none of NVRTC's functions, or one that is known.
fn is_known(name: &[u8]) -> bool {
    !name.starts_with(b"nvrtc") || OTHERS.contains(&name) || names().iter().any(|its| its.as_bytes() == name)
}

/// The types of the functions.
pub(super) type Create =
    unsafe extern "C" fn(*mut Handle, *const c_char, *const c_char, c_int, Texts, Texts) -> c_int;
pub(super) type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
pub(super) type Compile = unsafe extern "C-unwind" fn(Handle, c_int, Texts) -> c_int;
pub(super) type AddName = unsafe extern "C" fn(Handle, *const c_char) -> c_int;
pub(super) type Lowered = unsafe extern "C" fn(Handle, *const c_char, *mut *const c_char) -> c_int;
pub(super) type SetCallback = unsafe extern "C" fn(Handle, *const c_void, *mut c_void) -> c_int;
pub(super) type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
pub(super) type Data = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;
pub(super) type Texts = *const *const c_char;
