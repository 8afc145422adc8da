//! A safe interface to the dozen functions of the CUDA driver that commands need. cudarc isn't used here:
//! it's ten times as large as this command, and panics if a driver or a function is missing.

use std::error::Error;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::mpsc::{self, Sender};

use kernel_registry_cuda::{CudaVersion, Portability, Target};

/// A driver call that returned an error.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The driver function.
    pub call: &'static str,
    /// The code that the function returned.
    pub code: i32,
    /// The error's name, such as `CUDA_ERROR_NO_DEVICE`.
    pub name: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` returned {} ({})", self.call, self.name, self.code)
    }
}

/// The result of a driver call.
pub type Answer<T> = Result<T, Refused>;

/// The driver's file names, in this order: the one that cudarc opens, then on Linux the one that always exists.
const NAMES: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so", "libcuda.so.1"] };

/// A symbol that only kernel-registry-sim exports.
const SIMULATED: &str = "kernelRegistrySimulatedDriver";

/// The loaded driver. It's never unloaded, because it has its own threads.
pub struct Library {
    shared: ManuallyDrop<libloading::Library>,
    /// Receives the name of each function before it's called.
    calls: Sender<&'static str>,
}

/// Calls a function of the driver, with the argument types of cuda.h.
macro_rules! call {
    ($library:expr, $function:ident($($ty:ty = $value:expr),* $(,)?)) => {
        // SAFETY: each use has the types of cuda.h, pointers valid during the call, and the driver's handles.
        $library.call(stringify!($function), |f: unsafe extern "C" fn($($ty),*) -> c_int| unsafe { f($($value),*) })
    };
}

/// Device attributes, with the numbers of cuda.h.
#[derive(Clone, Copy)]
pub enum Attribute {
    /// The number of multiprocessors.
    Multiprocessors = 16,
    /// Whether the driver ends kernels after some seconds.
    Watchdog = 17,
    /// Which processes may use the device.
    ComputeMode = 20,
    /// The maximum number of threads per multiprocessor.
    ThreadsEach = 39,
    /// The major version of the compute capability.
    Major = 75,
    /// The minor version of the compute capability.
    Minor = 76,
    /// Whether several processes share the device through the Multi-Process Service.
    Mps = 133,
}

impl Library {
    /// Opens the driver by the first of its file names that the loader finds. `calls` receives the name of
    /// each function before it's called. The error is the loader's message for the last name.
    pub fn open(calls: Sender<&'static str>) -> Result<Self, String> {
        let mut why = String::new();
        for name in NAMES {
            match load(name.as_ref()) {
                Ok(shared) => return Ok(Library { shared, calls }),
                // The message on Windows doesn't contain the name.
                Err(error) => why = if error.contains(name) { error } else { format!("{name}: {error}") },
            }
        }
        Err(why)
    }

    /// Opens the driver like [`open`](Self::open), for callers that don't watch its calls.
    pub fn open_unwatched() -> Result<Self, String> {
        Self::open(mpsc::channel().0)
    }

    /// Opens this driver, for callers that don't watch its calls. The error is the loader's message.
    pub fn open_file(path: &Path) -> Result<Self, String> {
        Ok(Library { shared: load(path.as_ref())?, calls: mpsc::channel().0 })
    }

    /// Returns whether this driver is kernel-registry-sim.
    pub fn is_simulated(&self) -> bool {
        self.function::<*const c_void>(SIMULATED).is_some()
    }

    /// Returns whether a program for this version of CUDA finds this function.
    pub fn offers(&self, name: &CStr, version: CudaVersion) -> bool {
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

    /// Returns the newest version of CUDA that the driver supports. Works before [`init`](Self::init).
    pub fn version(&self) -> Answer<CudaVersion> {
        let mut version: c_int = 0;
        call!(self, cuDriverGetVersion(*mut c_int = &mut version))?;
        Ok(CudaVersion::from_number(version.unsigned_abs()))
    }

    /// Initializes the driver.
    pub fn init(&self) -> Answer<()> {
        // `cuInit` has no flags.
        call!(self, cuInit(c_uint = 0))
    }

    /// Returns whether the driver loads a kernel at its first use.
    pub fn loads_lazily(&self) -> Answer<bool> {
        // C enumerations are as wide as an `int`.
        const LAZY: c_uint = 2;
        let mut mode = 0;
        call!(self, cuModuleGetLoadingMode(*mut c_uint = &mut mode))?;
        Ok(mode == LAZY)
    }

    /// Returns the number of GPUs.
    pub fn device_count(&self) -> Answer<i32> {
        let mut count = 0;
        call!(self, cuDeviceGetCount(*mut c_int = &mut count))?;
        Ok(count)
    }

    /// Returns the GPU with this number.
    pub fn device(&self, ordinal: i32) -> Answer<Device<'_>> {
        let mut handle = 0;
        call!(self, cuDeviceGet(*mut c_int = &mut handle, c_int = ordinal))?;
        Ok(Device { library: self, handle })
    }

    /// Returns the free memory of the current context's device, in bytes.
    pub fn free_memory(&self) -> Answer<u64> {
        let (mut free, mut total) = (0_usize, 0_usize);
        call!(self, cuMemGetInfo_v2(*mut usize = &mut free, *mut usize = &mut total))?;
        Ok(free as u64)
    }

    /// Returns the current context's stack limit, in bytes per thread.
    pub fn stack_limit(&self) -> Answer<u64> {
        const STACK_SIZE: c_uint = 0;
        let mut bytes = 0_usize;
        call!(self, cuCtxGetLimit(*mut usize = &mut bytes, c_uint = STACK_SIZE))?;
        Ok(bytes as u64)
    }

    /// Compiles PTX for the current context's device with the driver's linker. `max_registers` is per thread,
    /// and `level` the optimization level.
    pub fn link(&self, ptx: &[u8], max_registers: Option<u32>, level: Option<u8>) -> Answer<Vec<u8>> {
        const MAX_REGISTERS: c_uint = 0;
        const LEVEL: c_uint = 7;
        const PTX: c_uint = 1;
        let given = [(MAX_REGISTERS, max_registers), (LEVEL, level.map(u32::from))];
        let given = given.into_iter().filter_map(|(option, value)| Some((option, value? as usize)));
        // Values are as wide as pointers.
        let (mut options, mut values): (Vec<c_uint>, Vec<usize>) = given.unzip();
        let mut text = ptx.to_vec();
        text.push(0);
        let mut link = ptr::null_mut();
        call!(self, cuLinkCreate_v2(
            c_uint = options.len() as c_uint,
            *mut c_uint = options.as_mut_ptr(),
            *mut usize = values.as_mut_ptr(),
            *mut *mut c_void = &mut link,
        ))?;
        let (mut code, mut length) = (ptr::null::<u8>(), 0_usize);
        let compiled = call!(self, cuLinkAddData_v2(
            *mut c_void = link,
            c_uint = PTX,
            *mut c_void = text.as_mut_ptr().cast(),
            usize = text.len(),
            *const c_char = c"ptx".as_ptr(),
            c_uint = 0,
            *mut c_uint = ptr::null_mut(),
            *mut usize = ptr::null_mut(),
        ))
        .and_then(|()| {
            call!(self, cuLinkComplete(*mut c_void = link, *mut *const u8 = &mut code, *mut usize = &mut length))
        });
        // SAFETY: the linker keeps this many bytes there until it's destroyed.
        let bytes = compiled.map(|()| unsafe { std::slice::from_raw_parts(code, length) }.to_vec());
        call!(self, cuLinkDestroy(*mut c_void = link))?;
        bytes
    }

    /// Looks up the driver function `name`, whose type is `F`, and passes it to `call`.
    fn call<F: Copy>(&self, name: &'static str, call: impl FnOnce(F) -> c_int) -> Answer<()> {
        const NOT_FOUND: i32 = 500;
        // Sending fails if the receiver has given up after its time limit.
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
        // SAFETY: the callers pass the function's type from cuda.h, and the library is never unloaded.
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
        // SAFETY: the driver's names are literals, which end with a zero and live as long as the driver.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

fn load(name: &OsStr) -> Result<ManuallyDrop<libloading::Library>, String> {
    // SAFETY: the callers name a driver, whose initializers run in every program that uses a GPU.
    let shared = unsafe { libloading::Library::new(name) };
    // The loader's message is the source of libloading's error.
    let why = |error: libloading::Error| error.source().map_or(error.to_string(), ToString::to_string);
    shared.map(ManuallyDrop::new).map_err(why)
}

/// A GPU.
pub struct Device<'l> {
    library: &'l Library,
    handle: c_int,
}

impl Device<'_> {
    /// Returns the GPU's name.
    pub fn name(&self) -> Answer<String> {
        let Device { library, handle } = *self;
        let mut name = [0_u8; 256];
        call!(library, cuDeviceGetName(*mut c_char = name.as_mut_ptr().cast(), c_int = 256, c_int = handle))?;
        let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Returns the GPU's memory in bytes.
    pub fn memory(&self) -> Answer<u64> {
        let Device { library, handle } = *self;
        let mut bytes = 0_usize;
        call!(library, cuDeviceTotalMem_v2(*mut usize = &mut bytes, c_int = handle))?;
        Ok(bytes as u64)
    }

    /// Returns the architecture, such as `sm_90`.
    pub fn arch(&self) -> Answer<Target> {
        let sm = 10 * self.attribute(Attribute::Major)? + self.attribute(Attribute::Minor)?;
        Ok(Target { sm, portability: Portability::Forward })
    }

    /// Returns an attribute of the GPU.
    pub fn attribute(&self, which: Attribute) -> Answer<u32> {
        let Device { library, handle } = *self;
        let mut value: c_int = 0;
        call!(library, cuDeviceGetAttribute(*mut c_int = &mut value, c_int = which as c_int, c_int = handle))?;
        Ok(value.unsigned_abs())
    }

    /// Retains the primary context, runs `ask` in it, and releases it.
    pub fn in_context<T>(&self, ask: impl FnOnce(&Library) -> Answer<T>) -> Answer<T> {
        let Device { library, handle } = *self;
        let mut context = ptr::null_mut();
        call!(library, cuDevicePrimaryCtxRetain(*mut *mut c_void = &mut context, c_int = handle))?;
        // The context exists until it's released below, and nothing is created in it.
        let current = call!(library, cuCtxSetCurrent(*mut c_void = context));
        let answer = current.and_then(|()| ask(library));
        call!(library, cuDevicePrimaryCtxRelease_v2(c_int = handle))?;
        answer
    }
}

/// Finds the driver's library in the contents of `/proc/self/maps`.
pub fn mapped_driver(maps: &str) -> Option<PathBuf> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_driver =
        |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libcuda.so"));
    paths.filter(is_driver).map(Path::to_owned).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_among_mapped_files() {
        let maps = "\
7f0000000000-7f0000001000 r--p 00000000 fe:00 12  /usr/lib/libcudart.so.13
7f0000001000-7f0000002000 rw-p 00000000 00:00 0
7f0000002000-7f0000003000 r-xp 00000000 fe:00 13  /opt/with space/libcuda.so.580.95.05
7fff00000000-7fff00001000 r-xp 00000000 00:00 0   [vdso]
";
        assert_eq!(mapped_driver(maps), Some("/opt/with space/libcuda.so.580.95.05".into()));
        assert_eq!(mapped_driver(""), None);
    }
}
