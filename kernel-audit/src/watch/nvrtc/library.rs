//! The NVRTC libraries of the process: several packages of Python bring one each.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::programs::Handle;
use crate::kept::{Digest, Hasher};
use crate::variables::{NVRTC_FUNCTIONS, NVRTC_LIBRARY};
use crate::watch::caller;
use crate::watch::loader::build_id;
use crate::watch::loader::mapped::{self, Mapped};
use crate::watch::loader::symbols::Symbols;
use crate::watch::process::fork;

/// The most libraries whose functions `dlsym` finds here. A program that opens more gets the further ones as they are.
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
/// The first function of a result.
pub(super) const RESULTS: usize = 5;
/// How many results a program can have.
pub(super) const PARTS: usize = (FUNCTIONS - RESULTS) / 2;

/// Functions that change nothing of a result that is kept. A library with others may have results that are not known here.
const OTHERS: [&[u8]; 12] = [
    b"nvrtcVersion",
    b"nvrtcGetErrorString",
    b"nvrtcGetNumSupportedArchs",
    b"nvrtcGetSupportedArchs",
    b"nvrtcGetPCHCreateStatus",
    b"nvrtcGetPCHHeapSize",
    b"nvrtcGetPCHHeapSizeRequired",
    b"nvrtcSetPCHHeapSize",
    b"nvrtcSetFlowCallback",
    b"nvrtcGetBundledHeadersInfo",
    b"nvrtcInstallBundledHeaders",
    b"nvrtcRemoveBundledHeaders",
];

/// An NVRTC in the process.
pub(super) struct Nvrtc {
    base: u64,
    functions: [u64; FUNCTIONS],
    version: u64,
    identity: OnceLock<Result<Digest, String>>,
}

static ALL: Mutex<Vec<&'static Nvrtc>> = Mutex::new(Vec::new());

/// The library at this place in the order in which they were found.
pub(super) fn at(number: usize) -> Option<&'static Nvrtc> {
    fork::undivided(|| ALL.lock().unwrap_or_else(PoisonError::into_inner).get(number).copied())
}

/// The number of the library that has a function at this address, if it is an NVRTC.
pub(super) fn number_at(address: u64) -> Option<usize> {
    number(&|file| file.segment_at(address, 1).is_some())
}

/// The number of the library that calls of the current thread mean, which the loader would have linked: the only one in the process, or the one that
/// the caller's file needs.
pub(super) fn number_for_caller() -> Option<usize> {
    let mut bases = Vec::new();
    mapped::each(&mut |file| {
        let is_one =
            Symbols::read(file).is_some_and(|symbols| symbols.find(COMPILE_NAME.to_bytes()).is_some());
        bases.extend((is_one && !is_in_front(file)).then_some(file.base));
        false
    });
    let base = match bases[..] {
        [] => return None,
        [only] => only,
        [first, ..] => needed_by_caller(&bases).unwrap_or(first),
    };
    number(&|file| file.base == base)
}

/// Whether a file is the library before all others, whose functions jump to ours.
pub(super) fn is_in_front(file: &Mapped<'_>) -> bool {
    file.name.ends_with(NVRTC_LIBRARY.as_bytes())
}

/// Which of these libraries the file of the caller needs.
fn needed_by_caller(bases: &[u64]) -> Option<u64> {
    let caller = caller::base_of_caller()?;
    let needed = crate::watch::loader::symbols::find_from(caller, COMPILE_NAME)?;
    let mut found = None;
    mapped::each(&mut |file| {
        found = (bases.contains(&file.base) && file.segment_at(needed, 1).is_some()).then_some(file.base);
        found.is_some()
    });
    found
}

/// The number of the file that is meant, if it is an NVRTC. A new one is added, unless there are too many.
fn number(is_meant: &dyn Fn(&Mapped<'_>) -> bool) -> Option<usize> {
    let mut found = None;
    mapped::each(&mut |file| {
        let is_it = is_meant(file);
        if is_it && !is_in_front(file) {
            found = Nvrtc::read(file);
        }
        is_it
    });
    let found = found?;
    fork::undivided(|| {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        // A library that was closed may have left its address to another one.
        if let Some(known) =
            all.iter().position(|its| (its.base, its.functions) == (found.base, found.functions))
        {
            return Some(known);
        }
        let number = all.len();
        (number < LIBRARIES).then(|| all.push(Box::leak(Box::new(found)))).map(|()| number)
    })
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
        has_all.then(|| Nvrtc { base: file.base, functions, version, identity: OnceLock::new() })
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

    fn identify(&self) -> Result<Digest, String> {
        let (mut path, mut id, mut unknown) = (None, None, None);
        mapped::each(&mut |file| {
            let is_it = file.base == self.base;
            if is_it {
                (path, id) = (file.path(), build_id::read(file));
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
        let id = id.ok_or("this NVRTC has no build id")?;
        let builtins = path.as_deref().and_then(Path::parent);
        let builtins = builtins.map(|folder| folder.join(format!("libnvrtc-builtins.so.{major}.{minor}")));
        let builtins = builtins.as_deref().and_then(build_id::read_file);
        let builtins = builtins.ok_or("there are no builtins with a build id beside this NVRTC")?;
        let mut hasher = Hasher::new("NVRTC");
        hasher.add(format!("{major}.{minor} {id} {builtins}").as_bytes());
        Ok(hasher.digest())
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
pub(super) type Compile = unsafe extern "C" fn(Handle, c_int, Texts) -> c_int;
pub(super) type AddName = unsafe extern "C" fn(Handle, *const c_char) -> c_int;
pub(super) type Lowered = unsafe extern "C" fn(Handle, *const c_char, *mut *const c_char) -> c_int;
pub(super) type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
pub(super) type Data = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;
pub(super) type Texts = *const *const c_char;
