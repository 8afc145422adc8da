//! Opens the CUDA driver, and calls the dozen of its functions that commands need, by a safe interface. cudarc is not
//! used: it is ten times as large as this command, and panics if a driver or a function is missing.

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

/// The file names of the driver, in the order in which they are tried: the name that cudarc opens, then on Linux the
/// name that is always there.
const NAMES: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so", "libcuda.so.1"] };

/// A symbol that only the driver of kernel-registry-sim has.
const SIMULATED: &str = "kernelRegistrySimulatedDriver";

/// The loaded driver. It is never unloaded, because it has threads of its own.
pub struct Library {
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
pub enum Attribute {
    /// The number of multiprocessors.
    Multiprocessors = 16,
    /// Whether the driver ends kernels after some seconds.
    Watchdog = 17,
    /// Which processes may use the device.
    ComputeMode = 20,
    /// The number of threads that a multiprocessor holds.
    ThreadsEach = 39,
    /// The number before the point of the compute capability.
    Major = 75,
    /// The number after the point of the compute capability.
    Minor = 76,
    /// Whether several processes share the device through the Multi-Process Service.
    Mps = 133,
}

impl Library {
    /// Opens the driver under the first of its file names that the loader finds. The error is the loader's message for
    /// the last name, with this name. `calls` receives the name of each driver call.
    pub fn open(calls: Sender<&'static str>) -> Result<Self, String> {
        let mut why = String::new();
        for name in NAMES {
            match load(name.as_ref()) {
                Ok(shared) => return Ok(Library { shared, calls }),
                // The loader of Windows does not name the file.
                Err(error) => why = if error.contains(name) { error } else { format!("{name}: {error}") },
            }
        }
        Err(why)
    }

    /// Opens the driver like [`open`](Self::open), but nothing watches its calls for a timeout.
    pub fn found() -> Result<Self, String> {
        Self::open(mpsc::channel().0)
    }

    /// Opens the driver in this file; nothing watches its calls for a timeout. The error is the loader's message.
    pub fn open_file(path: &Path) -> Result<Self, String> {
        Ok(Library { shared: load(path.as_ref())?, calls: mpsc::channel().0 })
    }

    /// Returns whether this driver is kernel-registry-sim.
    pub fn is_simulated(&self) -> bool {
        self.function::<*const c_void>(SIMULATED).is_some()
    }

    /// Returns whether a program written for this CUDA version finds a function of this name.
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

    /// Returns the newest CUDA version that the driver supports. The driver need not be initialised before.
    pub fn version(&self) -> Answer<CudaVersion> {
        let mut version: c_int = 0;
        call!(self, cuDriverGetVersion(*mut c_int = &mut version))?;
        Ok(CudaVersion::from_number(version.unsigned_abs()))
    }

    /// Initialises the driver.
    pub fn init(&self) -> Answer<()> {
        // `cuInit` has no flags.
        call!(self, cuInit(c_uint = 0))
    }

    /// Returns whether the driver loads a kernel at its first use.
    pub fn loads_lazily(&self) -> Answer<bool> {
        // The mode is an enumeration of C, which is as wide as an integer.
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
        // The driver refuses a number that no device has.
        call!(self, cuDeviceGet(*mut c_int = &mut handle, c_int = ordinal))?;
        Ok(Device { library: self, handle })
    }

    /// Returns the bytes of free memory on the device of the current context.
    pub fn free_memory(&self) -> Answer<u64> {
        let (mut free, mut total) = (0_usize, 0_usize);
        call!(self, cuMemGetInfo_v2(*mut usize = &mut free, *mut usize = &mut total))?;
        Ok(free as u64)
    }

    /// Returns the stack limit of the current context, in bytes for each thread.
    pub fn stack_limit(&self) -> Answer<u64> {
        const STACK_SIZE: c_uint = 0;
        let mut bytes = 0_usize;
        call!(self, cuCtxGetLimit(*mut usize = &mut bytes, c_uint = STACK_SIZE))?;
        Ok(bytes as u64)
    }

    /// Compiles PTX for the device of the current context, with the driver's linker. `max_registers` is the most registers of a thread, and `level` the
    /// level of optimisation.
    pub fn link(&self, ptx: &[u8], max_registers: Option<u32>, level: Option<u8>) -> Answer<Vec<u8>> {
        const MAX_REGISTERS: c_uint = 0;
        const LEVEL: c_uint = 7;
        const PTX: c_uint = 1;
        let given = [(MAX_REGISTERS, max_registers), (LEVEL, level.map(u32::from))];
        let given = given.into_iter().filter_map(|(option, value)| Some((option, value? as usize)));
        // A value is as wide as a pointer.
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
        // SAFETY: the linker has so many bytes there, until it is destroyed.
        let bytes = compiled.map(|()| unsafe { std::slice::from_raw_parts(code, length) }.to_vec());
        call!(self, cuLinkDestroy(*mut c_void = link))?;
        bytes
    }

    /// Calls the driver function `name`, whose type is `F`, by the closure `call`.
    fn call<F: Copy>(&self, name: &'static str, call: impl FnOnce(F) -> c_int) -> Answer<()> {
        const NOT_FOUND: i32 = 500;
        // Sending fails if the receiver is gone, after its time limit has passed.
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
        // SAFETY: the driver's names are literals, which end with a zero and are there as long as it is.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

fn load(name: &OsStr) -> Result<ManuallyDrop<libloading::Library>, String> {
    // SAFETY: the callers name a driver, whose initialisers run as in every program that uses a GPU.
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
    /// Returns the name of the GPU.
    pub fn name(&self) -> Answer<String> {
        let Device { library, handle } = *self;
        let mut name = [0_u8; 256];
        // The driver writes at most the 256 bytes that are named here.
        call!(library, cuDeviceGetName(*mut c_char = name.as_mut_ptr().cast(), c_int = 256, c_int = handle))?;
        let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Returns the bytes of memory of the GPU.
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
        // The driver refuses the numbers of attributes that it does not know.
        call!(library, cuDeviceGetAttribute(*mut c_int = &mut value, c_int = which as c_int, c_int = handle))?;
        Ok(value.unsigned_abs())
    }

    /// Retains the primary context, runs `ask` in it, and releases it.
    pub fn in_context<T>(&self, ask: impl FnOnce(&Library) -> Answer<T>) -> Answer<T> {
        let Device { library, handle } = *self;
        let mut context = ptr::null_mut();
        call!(library, cuDevicePrimaryCtxRetain(*mut *mut c_void = &mut context, c_int = handle))?;
        // The context exists until it is released once, below; nothing is created in it.
        let current = call!(library, cuCtxSetCurrent(*mut c_void = context));
        let answer = current.and_then(|()| ask(library));
        call!(library, cuDevicePrimaryCtxRelease_v2(c_int = handle))?;
        answer
    }
}

/// Finds the driver's library in `maps`, a list of mapped files as Linux writes it in `/proc/self/maps`.
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
