//! Finds the driver behind the hooks: the library that the program would have found.

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

/// A function of the driver behind the hooks, looked up once. `F` is the type of a pointer to the function.
pub(crate) struct Function<F> {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    of: PhantomData<F>,
}

impl<F: Copy> Function<F> {
    /// # Safety
    ///
    /// `F` is the type of a pointer to the driver's function of this name.
    pub(crate) const unsafe fn new(name: &'static CStr) -> Self {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Function { name, address: AtomicPtr::new(ptr::null_mut()), of: PhantomData }
    }

    /// Returns the function, if the driver behind the hooks has it.
    #[inline]
    pub(crate) fn get(&self) -> Option<F> {
        match self.function(self.address.load(Ordering::Relaxed)) {
            None => self.function(self.look_up()),
            found => found,
        }
    }

    /// Returns the function, and whether its calls are watched. Before the function is looked up, `begin` tells whether
    /// calls can be watched. If they cannot, the next call asks again.
    #[inline]
    pub(crate) fn get_after(&self, begin: fn() -> bool) -> Option<(F, bool)> {
        match self.function(self.address.load(Ordering::Relaxed)) {
            None => self.begin(begin),
            found => found.map(|function| (function, true)),
        }
    }

    #[cold]
    fn begin(&self, begin: fn() -> bool) -> Option<(F, bool)> {
        fork::undivided(|| {
            let is_watched = begin();
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

/// The address that stands for a function which the driver does not have. Null stands for a function that was not
/// looked up.
const MISSING: *mut c_void = ptr::without_provenance_mut(1);

/// Returns what the driver stores in place of `value`, if the call succeeds.
pub(crate) fn stored<T>(mut value: T, ask: impl FnOnce(&mut T) -> CUresult) -> Option<T> {
    (ask(&mut value) == CUresult::CUDA_SUCCESS).then_some(value)
}

/// Declares a function of the driver behind the hooks. The type is that of cudarc's bindings, which the compiler checks
/// unless the function is `unbound`.
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

/// Converts a name that ends with a zero.
pub(crate) const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a zero ends the name"),
    }
}

/// Returns a function of the driver behind the hooks, or null. The function is read from the driver's own tables:
/// libraries that share a GPU put themselves in front of `dlsym`, and would return functions that call the hooks again.
pub(crate) fn symbol(name: &CStr) -> *mut c_void {
    let address = driver().and_then(|driver| symbols::find_from(driver, name));
    address.map_or(ptr::null_mut(), |address| ptr::with_exposed_provenance_mut(address as usize))
}

/// Returns the load bias of the driver behind the hooks, if there is one. The driver is never closed.
pub(crate) fn driver() -> Option<u64> {
    static OPEN: OnceLock<Option<u64>> = OnceLock::new();
    // The driver is found by its path, because its name is that of the hooks. The library in front has loaded it.
    let path = Audit::chosen().driver.as_ref()?;
    *fork::once(&OPEN, || mapped::base_of(path).or_else(|| open(path)))
}

/// Opens a driver that is never closed.
fn open(path: &Path) -> Option<u64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    Some(mem::ManuallyDrop::new(Library::open(&path, libc::RTLD_NOW).ok()?).base())
}
