//! The dozen driver functions that the doctor calls, with a safe interface. cudarc is not used: it is ten times
//! as large as this command, and panics if a driver or a function is missing.

use std::error::Error;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;
use std::sync::mpsc::{self, Sender};

use kernel_registry_cuda::CudaVersion;

use super::facts::Refused;

/// The result of a driver call.
pub(crate) type Answer<T> = Result<T, Refused>;

/// The name that cudarc opens, and the one that is always there on Linux.
const NAMES: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so", "libcuda.so.1"] };

/// A symbol that only the driver of kernel-registry-sim has.
const SIMULATED: &str = "kernelRegistrySimulatedDriver";

/// The loaded driver. It has threads of its own, so it stays until the process ends.
pub(crate) struct Library {
    shared: ManuallyDrop<libloading::Library>,
    /// Receives the name of each call before the call is made.
    calls: Sender<&'static str>,
}

/// Calls a function of the driver, with arguments of the types that cuda.h has.
macro_rules! call {
    ($library:expr, $function:ident($($ty:ty = $value:expr),* $(,)?)) => {
        // SAFETY: each use names the types of cuda.h; what arguments point to outlives the call, and handles are those
        // that the driver gave.
        $library.call(stringify!($function), |f: unsafe extern "C" fn($($ty),*) -> c_int| unsafe { f($($value),*) })
    };
}

/// Device attributes, with the numbers of cuda.h.
#[derive(Clone, Copy)]
pub(crate) enum Attribute {
    Multiprocessors = 16,
    Watchdog = 17,
    ComputeMode = 20,
    ThreadsEach = 39,
    Major = 75,
    Minor = 76,
    Mps = 133,
}

impl Library {
    /// Opens the first library that the loader finds; the error is the loader's message for the last name.
    pub(super) fn open(calls: Sender<&'static str>) -> Result<Self, String> {
        let mut why = String::new();
        for name in NAMES {
            match load(name.as_ref()) {
                Ok(shared) => return Ok(Library { shared, calls }),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Opens the first library that the loader finds. Nothing watches its calls for a timeout.
    pub(crate) fn found() -> Result<Self, String> {
        Self::open(mpsc::channel().0)
    }

    /// Opens this file; the error is the loader's message. Nothing watches its calls for a timeout.
    pub(crate) fn open_file(path: &Path) -> Result<Self, String> {
        Ok(Library { shared: load(path.as_ref())?, calls: mpsc::channel().0 })
    }

    /// Whether this driver is kernel-registry-sim.
    pub(crate) fn is_simulated(&self) -> bool {
        self.function::<*const c_void>(SIMULATED).is_some()
    }

    /// Whether a program written for this CUDA version finds a function of this name.
    pub(crate) fn offers(&self, name: &CStr, version: CudaVersion) -> bool {
        let (mut address, mut status) = (ptr::null(), 0);
        let answer = call!(self, cuGetProcAddress_v2(
            *const c_char = name.as_ptr(),
            *mut *const c_void = &mut address,
            c_int = version.number().cast_signed(),
            u64 = 0,
            *mut c_uint = &mut status,
        ));
        answer.is_ok() && !address.is_null()
    }

    /// The newest CUDA version that the driver supports. It need not be initialised.
    pub(crate) fn version(&self) -> Answer<CudaVersion> {
        let mut version: c_int = 0;
        call!(self, cuDriverGetVersion(*mut c_int = &mut version))?;
        Ok(CudaVersion::from_number(version.unsigned_abs()))
    }

    pub(crate) fn init(&self) -> Answer<()> {
        // There are no flags.
        call!(self, cuInit(c_uint = 0))
    }

    pub(super) fn loads_lazily(&self) -> Answer<bool> {
        // An enumeration, which is as wide as an integer.
        const LAZY: c_uint = 2;
        let mut mode = 0;
        call!(self, cuModuleGetLoadingMode(*mut c_uint = &mut mode))?;
        Ok(mode == LAZY)
    }

    pub(crate) fn device_count(&self) -> Answer<i32> {
        let mut count = 0;
        call!(self, cuDeviceGetCount(*mut c_int = &mut count))?;
        Ok(count)
    }

    pub(crate) fn device(&self, ordinal: i32) -> Answer<Device<'_>> {
        let mut handle = 0;
        // A number that no device has is refused.
        call!(self, cuDeviceGet(*mut c_int = &mut handle, c_int = ordinal))?;
        Ok(Device { library: self, handle })
    }

    /// Of the context that is current in this thread, as is the next one.
    pub(super) fn free_memory(&self) -> Answer<u64> {
        let (mut free, mut total) = (0_usize, 0_usize);
        call!(self, cuMemGetInfo_v2(*mut usize = &mut free, *mut usize = &mut total))?;
        Ok(free as u64)
    }

    pub(super) fn stack_limit(&self) -> Answer<u64> {
        const STACK_SIZE: c_uint = 0;
        let mut bytes = 0_usize;
        call!(self, cuCtxGetLimit(*mut usize = &mut bytes, c_uint = STACK_SIZE))?;
        Ok(bytes as u64)
    }

    /// Calls a driver function by name. `F` is its type; `call` makes the call.
    fn call<F: Copy>(&self, name: &'static str, call: impl FnOnce(F) -> c_int) -> Answer<()> {
        const NOT_FOUND: i32 = 500;
        // The receiver is gone if the time limit has passed.
        let _ = self.calls.send(name);
        let Some(function) = self.function(name) else {
            return Err(Refused { call: name, code: NOT_FOUND, name: "no such function".to_owned() });
        };
        match call(function) {
            0 => Ok(()),
            code => Err(Refused { call: name, code, name: self.error_name(code) }),
        }
    }

    fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the callers name the type that cuda.h has for this function; it is only called while the
        // library is loaded, which is until the process ends.
        unsafe { self.shared.get::<F>(name) }.ok().map(|function| *function)
    }

    fn error_name(&self, code: c_int) -> String {
        type Name = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
        let mut name = ptr::null();
        if let Some(get) = self.function::<Name>("cuGetErrorName") {
            // SAFETY: the function takes any number, and stores the address of a text or null.
            unsafe { get(code, &mut name) };
        }
        if name.is_null() {
            return "an error without a name".to_owned();
        }
        // SAFETY: the driver's names are literals, which end with a zero and stay as long as it does.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

fn load(name: &OsStr) -> Result<ManuallyDrop<libloading::Library>, String> {
    // SAFETY: the callers name a driver, whose initialisers run as in every program that uses a GPU.
    let shared = unsafe { libloading::Library::new(name) };
    // The system's message is the source of libloading's error.
    let why = |error: libloading::Error| error.source().map_or(error.to_string(), ToString::to_string);
    shared.map(ManuallyDrop::new).map_err(why)
}

/// A GPU.
pub(crate) struct Device<'l> {
    library: &'l Library,
    handle: c_int,
}

impl Device<'_> {
    pub(crate) fn name(&self) -> Answer<String> {
        let Device { library, handle } = *self;
        let mut name = [0_u8; 256];
        // At most as many bytes are written as it is told.
        call!(library, cuDeviceGetName(*mut c_char = name.as_mut_ptr().cast(), c_int = 256, c_int = handle))?;
        let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    pub(super) fn memory(&self) -> Answer<u64> {
        let Device { library, handle } = *self;
        let mut bytes = 0_usize;
        call!(library, cuDeviceTotalMem_v2(*mut usize = &mut bytes, c_int = handle))?;
        Ok(bytes as u64)
    }

    pub(super) fn attribute(&self, which: Attribute) -> Answer<u32> {
        let Device { library, handle } = *self;
        let mut value: c_int = 0;
        // Any number may be asked for, and unknown ones are refused.
        call!(library, cuDeviceGetAttribute(*mut c_int = &mut value, c_int = which as c_int, c_int = handle))?;
        Ok(value.unsigned_abs())
    }

    /// Retains the primary context, runs `ask` in it, and releases it.
    pub(super) fn in_context<T>(&self, ask: impl FnOnce(&Library) -> Answer<T>) -> Answer<T> {
        let Device { library, handle } = *self;
        let mut context = ptr::null_mut();
        call!(library, cuDevicePrimaryCtxRetain(*mut *mut c_void = &mut context, c_int = handle))?;
        // The context is there until it is released below, once; nothing is made in it.
        let current = call!(library, cuCtxSetCurrent(*mut c_void = context));
        let answer = current.and_then(|()| ask(library));
        call!(library, cuDevicePrimaryCtxRelease_v2(c_int = handle))?;
        answer
    }
}
