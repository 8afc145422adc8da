//! The NVRTC libraries of the process. There can be several, because Python packages bring their own.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Write;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use kernel_audit_rtld::{EXPORTS, LIBRARIES, Library, Targets};

use super::programs::Handle;
use crate::kept::{Digest, Hasher};
use crate::watch::loader::build_id;
use crate::watch::loader::library::Library as Opened;
use crate::watch::loader::mapped;
use crate::watch::loader::symbols::{self, Symbols};
use crate::watch::process::fork;

// The indices of functions in `EXPORTS`.
pub(super) const CREATE: usize = 0;
pub(super) const CREATE_EX: usize = 1;
pub(super) const DESTROY: usize = 2;
pub(super) const COMPILE: usize = 3;
pub(super) const ADD_NAME: usize = 4;
pub(super) const LOWERED: usize = 5;
pub(super) const SET_CALLBACK: usize = 6;
/// The first of the functions that return outputs. Each output has two: for its size and its bytes.
pub(super) const RESULTS: usize = 7;
/// The number of outputs.
pub(super) const PARTS: usize = (EXPORTS.len() - RESULTS) / 2;

/// Functions without a hook that don't affect results. An NVRTC that exports any other isn't cached.
const OTHERS: [&[u8]; 12] = [
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
    b"__nvrtcNvvmHandle",
];

/// An NVRTC in the process.
pub(super) struct Nvrtc {
    base: u64,
    /// Tells this library from earlier ones with its number.
    generation: usize,
    /// The addresses of NVRTC's own functions, or 0.
    functions: [usize; EXPORTS.len()],
    identity: OnceLock<Result<Digest, String>>,
}

static ALL: [AtomicPtr<Nvrtc>; LIBRARIES] = [const { AtomicPtr::new(ptr::null_mut()) }; LIBRARIES];

/// Returns the NVRTC with this number, if it was bound.
pub(super) fn at(number: usize) -> Option<&'static Nvrtc> {
    // SAFETY: the pointer is null, or came from a box that is never freed.
    unsafe { ALL.get(number)?.load(Ordering::Acquire).as_ref() }
}

/// Makes the stubs of a library jump to the hooks.
pub(super) fn bind<'a>(
    number: usize,
    library: &Library,
    targets: &Targets,
    hooks: impl Iterator<Item = &'a *const c_void>,
) -> Option<()> {
    let generation = library.generation.load(Ordering::Acquire);
    if at(number).is_none_or(|its| its.generation != generation) {
        let base = library.base.load(Ordering::Relaxed) as u64;
        let functions = library.real.each_ref().map(|real| real.load(Ordering::Relaxed));
        symbols::set_original(number, base, library.symbols.load(Ordering::Relaxed) as u64);
        let new = Nvrtc { base, generation, functions, identity: OnceLock::new() };
        ALL.get(number)?.store(Box::into_raw(Box::new(new)), Ordering::Release);
    }
    let set = |(target, hook): (&AtomicUsize, &*const c_void)| {
        target.store(hook.expose_provenance(), Ordering::Release)
    };
    targets.iter().zip(hooks).for_each(set);
    Some(())
}

impl Nvrtc {
    /// Returns one of NVRTC's own functions, if this NVRTC exports it.
    ///
    /// # Safety
    ///
    /// `F` is the type of a pointer to the function at this place in [`EXPORTS`].
    pub(super) unsafe fn function<F: Copy>(&self, index: usize) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
        let address = ptr::with_exposed_provenance::<c_void>(self.functions[index]);
        // SAFETY: the caller promises the type. The library is open, because the program is calling it.
        (!address.is_null()).then(|| unsafe { mem::transmute_copy::<*const c_void, F>(&address) })
    }

    /// Returns the major and minor version.
    pub(super) fn version(&self) -> Option<(c_int, c_int)> {
        let address = symbols::find_from(self.base, c"nvrtcVersion")?;
        let address = ptr::with_exposed_provenance::<c_void>(address as usize);
        // SAFETY: this is the type of `nvrtcVersion`.
        let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int =
            unsafe { mem::transmute(address) };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the call stores two numbers.
        (unsafe { version(&mut major, &mut minor) } == 0).then_some((major, minor))
    }

    /// Returns the digest of everything that identifies the compiler, or why its results can't be cached.
    /// Opens the builtins, as a skipped compilation would have: a program that enters a sandbox later may not
    /// be able to.
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
            return Err(format!("this NVRTC exports `{name}`, which may change results"));
        }
        let (major, minor) = self.version().ok_or("this NVRTC doesn't tell its version")?;
        let id = id.ok_or("this NVRTC has no build id")?;
        let path = path.ok_or("the file of this NVRTC isn't known")?;
        let builtins = builtins(&path, &format!("libnvrtc-builtins.so.{major}.{minor}"))?;
        let mut hasher = Hasher::new("NVRTC");
        hasher.add(format!("{major}.{minor} {id} {builtins} {}", math_functions()?).as_bytes());
        Ok(hasher.digest())
    }
}

/// Returns the build id of the builtins that an NVRTC at this path uses. If none are open yet, opens those in
/// its folder, unless the loader would find others first.
fn builtins(nvrtc: &Path, name: &str) -> Result<String, String> {
    if let Some(id) = find_open_builtins(name)? {
        return Ok(id);
    }
    let own = nvrtc.with_file_name(name);
    let folders = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let is_other = |path: &PathBuf| path.exists() && path.canonicalize().ok() != own.canonicalize().ok();
    if let Some(other) = env::split_paths(&folders).map(|folder| folder.join(name)).find(is_other) {
        return Err(format!("NVRTC may use `{}` instead of the builtins in its folder", other.display()));
    }
    let file = CString::new(own.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    mem::forget(Opened::open(&file, libc::RTLD_LAZY)?);
    find_open_builtins(name)?.ok_or_else(|| "the builtins of this NVRTC aren't open".to_owned())
}

/// Returns the build id of the open builtins, or `None` if none are open.
fn find_open_builtins(name: &str) -> Result<Option<String>, String> {
    let mut open = BTreeSet::new();
    mapped::each(&mut |file| {
        if file.name.rsplit(|byte| *byte == b'/').next() == Some(name.as_bytes()) {
            open.insert(build_id::read(file));
        }
        false
    });
    match (open.len(), open.pop_first()) {
        (0, _) => Ok(None),
        (1, Some(Some(id))) => Ok(Some(id)),
        _ => Err("several builtins of this NVRTC are open, or one without a build id".to_owned()),
    }
}

/// Identifies the implementations of the functions with which NVRTC folds constants. The C library selects
/// them by processor, and they round differently.
fn math_functions() -> Result<String, String> {
    const FUNCTIONS: [&CStr; 26] = [
        c"sin", c"cos", c"tan", c"asin", c"acos", c"atan", c"atan2", c"sinh", c"cosh", c"tanh", c"exp",
        c"exp2", c"expf", c"log", c"log2", c"log2f", c"log10", c"log1p", c"logb", c"pow", c"fmod", c"sqrt",
        c"floor", c"ceil", c"erf", c"strtod",
    ];
    let mut text = String::new();
    for name in FUNCTIONS {
        // SAFETY: the name ends with a zero.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.addr() as u64;
        let mut found = None;
        mapped::each(&mut |file| {
            let is_it = file.segment_at(address, 1).is_some();
            found = is_it.then(|| Some((build_id::read(file)?, address - file.base))).flatten();
            is_it
        });
        let (id, offset) =
            found.ok_or_else(|| format!("the library of `{}` has no build id", name.to_string_lossy()))?;
        let _ = write!(text, "{id}+{offset:x} ");
    }
    Ok(text)
}

/// Returns whether a symbol is one of NVRTC's functions that we know, or none of NVRTC's.
fn is_known(name: &[u8]) -> bool {
    let is_of_nvrtc = name.starts_with(b"nvrtc") || name.starts_with(b"__nvrtc");
    !is_of_nvrtc || OTHERS.contains(&name) || EXPORTS.iter().any(|its| its.to_bytes() == name)
}

pub(super) type Create =
    unsafe extern "C" fn(*mut Handle, *const c_char, *const c_char, c_int, Texts, Texts) -> c_int;
pub(super) type CreateEx = unsafe extern "C-unwind" fn(
    *mut Handle,
    *const c_char,
    *const c_char,
    c_int,
    Texts,
    Texts,
    usize,
    usize,
    usize,
) -> c_int;
pub(super) type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
pub(super) type Compile = unsafe extern "C-unwind" fn(Handle, c_int, Texts) -> c_int;
pub(super) type AddName = unsafe extern "C" fn(Handle, *const c_char) -> c_int;
pub(super) type Lowered = unsafe extern "C" fn(Handle, *const c_char, *mut *const c_char) -> c_int;
pub(super) type SetCallback = unsafe extern "C" fn(Handle, *const c_void, *mut c_void) -> c_int;
pub(super) type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
pub(super) type Data = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;
pub(super) type Texts = *const *const c_char;
