//! Finds the real driver and its functions: the library that the program would use without the hooks.

use std::ffi::{CStr, CString, c_void};
use std::marker::PhantomData;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use cudarc::driver::sys::CUresult;

use crate::options::Audit;
use crate::watch::loader::library::Library;
use crate::watch::loader::{mapped, symbols};
use crate::watch::process::fork;

/// A function of the real driver, looked up once. `F` is the type of a pointer to it.
pub(crate) struct Function<F> {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    kind: PhantomData<F>,
}

impl<F: Copy> Function<F> {
    /// # Safety
    ///
    /// `F` is the type of a pointer to the driver's function of this name.
    pub(crate) const unsafe fn new(name: &'static CStr) -> Self {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Function { name, address: AtomicPtr::new(ptr::null_mut()), kind: PhantomData }
    }

    /// Returns the function, if the driver exports it.
    #[inline]
    pub(crate) fn get(&self) -> Option<F> {
        match self.function(self.address.load(Ordering::Relaxed)) {
            None => self.function(self.look_up()),
            found => found,
        }
    }

    /// Returns the function, and whether its calls are watched. Runs `prepare` first, which returns whether
    /// calls can be watched, unless it has succeeded before.
    #[inline]
    pub(crate) fn get_after(&self, prepare: fn() -> bool) -> Option<(F, bool)> {
        match self.function(self.address.load(Ordering::Relaxed)) {
            None => self.prepare(prepare),
            found => found.map(|function| (function, true)),
        }
    }

    #[cold]
    fn prepare(&self, prepare: fn() -> bool) -> Option<(F, bool)> {
        fork::undivided(|| {
            let is_watched = prepare();
            let address = if is_watched { self.look_up() } else { symbol(self.name) };
            Some((self.function(address)?, is_watched))
        })
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let before = self.address.load(Ordering::Relaxed);
        if before == MISSING {
            return before;
        }
        let address = fork::undivided(|| match symbol(self.name) {
            address if address.is_null() && driver().is_some() => MISSING,
            address => address,
        });
        self.address.store(address, Ordering::Relaxed);
        address
    }

    #[inline]
    fn function(&self, address: *mut c_void) -> Option<F> {
        // SAFETY: `new` was promised that `F` is the function's type, which is one pointer wide.
        (address > MISSING).then(|| unsafe { mem::transmute_copy::<*mut c_void, F>(&address) })
    }
}

/// Marks a function that the driver doesn't export. Null marks one that hasn't been looked up.
const MISSING: *mut c_void = ptr::without_provenance_mut(1);

/// Returns the value that a call of the driver stores, if the call succeeds. `value` is the initial one.
pub(crate) fn stored<T>(mut value: T, call: impl FnOnce(&mut T) -> CUresult) -> Option<T> {
    (call(&mut value) == CUresult::CUDA_SUCCESS).then_some(value)
}

/// Declares a function of the real driver. Its type must be that in cudarc's bindings, unless it's `unbound`.
macro_rules! driver_function {
    (static $function:ident = $name:ident($($ty:ty),*)) => {
        const _: unsafe fn($($ty),*) -> CUresult = cudarc::driver::sys::$name;
        driver_function!(unbound static $function = $name($($ty),*));
    };
    (unbound static $function:ident = $name:ident($($ty:ty),*)) => {
        static $function: $crate::watch::loader::real::Function<unsafe extern "C" fn($($ty),*) -> CUresult> = {
            // SAFETY: this is the function's type, by cudarc's bindings or by CUDA's documentation.
            unsafe { $crate::watch::loader::real::Function::new($crate::watch::loader::real::c_name(concat!(stringify!($name), "\0"))) }
        };
    };
}
pub(crate) use driver_function;

pub(crate) const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a zero ends the name"),
    }
}

/// Returns a function of the real driver, or null. This doesn't use `dlsym`: libraries that share a GPU
/// interpose it, and would return functions that call the hooks again.
pub(crate) fn symbol(name: &CStr) -> *mut c_void {
    let address = driver().and_then(|driver| symbols::find_from(driver, name));
    address.map_or(ptr::null_mut(), |address| ptr::with_exposed_provenance_mut(address as usize))
}

/// Returns the load bias of the real driver, if there is one. The driver is never closed.
pub(crate) fn driver() -> Option<u64> {
    static OPEN: OnceLock<Option<u64>> = OnceLock::new();
    // By path, because the hooks have the driver's name. The interposer has usually loaded the driver by now.
    let path = Audit::chosen().driver.as_ref()?;
    *fork::once(&OPEN, || mapped::base_of(path).or_else(|| open(path)))
}

fn open(path: &Path) -> Option<u64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    Some(mem::ManuallyDrop::new(Library::open(&path, libc::RTLD_NOW).ok()?).base())
}
