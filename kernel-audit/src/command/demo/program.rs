//! The program of the demonstration. A kernel spins until a second kernel sets a flag. The second kernel is loaded only
//! at its launch, and loading waits until nothing runs. The spinning kernel has a time limit.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem;
use std::ptr::{self, null_mut};
use std::time::{Duration, Instant};

use crate::command::failure::Failure;

/// The kernels, as a text that ends with a zero.
const PTX: &str = concat!(include_str!("kernels.ptx"), "\0");

/// The time limit of the spinning kernel, which is also in the PTX.
const LIMIT: Duration = Duration::from_secs(30);

/// A handle of the driver, or an address.
type Handle = *mut c_void;

/// Calls a function of the driver, with arguments of the types that cuda.h has. Returns from the function around it if
/// the driver refuses.
macro_rules! call {
    ($driver:expr, $function:ident($($ty:ty = $value:expr),* $(,)?)) => {{
        let name = stringify!($function);
        let function = $driver.find(name)?;
        // SAFETY: each use names the types of cuda.h. What arguments point to outlives the call, and handles are those
        // that the driver gave.
        let code = unsafe {
            mem::transmute::<Handle, unsafe extern "C" fn($($ty),*) -> c_int>(function)($($value),*)
        };
        if code != 0 {
            return Err(format!("`{name}` returned {code}"));
        }
    }};
}

/// Runs the program. It fails if the driver refuses a call, or if only the time limit ended the spinning kernel.
pub(crate) fn run() -> Result<(), Failure> {
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call only reads the limit. An audit aborts this program on purpose, so nobody needs its memory.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &no_core) };
    let took = spin_and_set_flag().map_err(|why| Failure::DemoProgram { why })?;
    if took >= LIMIT {
        let why = format!("only its time limit of {LIMIT:?} ended `spin_until_flag`");
        return Err(Failure::DemoProgram { why });
    }
    println!("`set_flag` ran, and `spin_until_flag` has ended");
    Ok(())
}

/// Launches both kernels, and waits for both. Returns how long that took.
fn spin_and_set_flag() -> Result<Duration, String> {
    let driver = Driver::open()?;
    let mut context: Handle = null_mut();
    call!(driver, cuInit(c_uint = 0));
    call!(driver, cuDevicePrimaryCtxRetain(*mut Handle = &mut context, c_int = 0));
    call!(driver, cuCtxSetCurrent(Handle = context));

    let mut library: Handle = null_mut();
    call!(driver, cuLibraryLoadData(
        *mut Handle = &mut library,
        *const c_char = PTX.as_ptr().cast(),
        Handle = null_mut(),
        Handle = null_mut(),
        c_uint = 0,
        Handle = null_mut(),
        Handle = null_mut(),
        c_uint = 0,
    ));
    let spins = driver.kernel(library, c"spin_until_flag")?;
    let sets = driver.kernel(library, c"set_flag")?;
    let streams = [driver.stream()?, driver.stream()?];

    const MAPPED: c_uint = 2;
    let mut flag: Handle = null_mut();
    call!(driver, cuMemHostAlloc(*mut Handle = &mut flag, usize = size_of::<u32>(), c_uint = MAPPED));
    // SAFETY: the memory has this size, and no kernel uses it yet.
    unsafe { flag.cast::<u32>().write_volatile(0) };

    let begun = Instant::now();
    driver.launch(spins, streams[0], flag)?;
    println!("`spin_until_flag` runs, until `set_flag` sets its flag");
    driver.say_ready();
    println!("the program is ready, and launches `set_flag` for the first time");
    driver.launch(sets, streams[1], flag)?;
    for stream in streams {
        call!(driver, cuStreamSynchronize(Handle = stream));
    }
    Ok(begun.elapsed())
}

/// The open driver. It is never closed, because it has threads of its own.
struct Driver(Handle);

impl Driver {
    fn open() -> Result<Self, String> {
        // SAFETY: loading the driver does what it does in every program that uses a GPU.
        let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() { Err("there is no CUDA driver".to_owned()) } else { Ok(Driver(handle)) }
    }

    fn find(&self, name: &str) -> Result<Handle, String> {
        let symbol = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: the library is open, and the name ends with a zero.
        let function = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        if function.is_null() { Err(format!("the driver has no `{name}`")) } else { Ok(function) }
    }

    fn kernel(&self, library: Handle, name: &CStr) -> Result<Handle, String> {
        let mut kernel: Handle = null_mut();
        call!(self, cuLibraryGetKernel(*mut Handle = &mut kernel, Handle = library, *const c_char = name.as_ptr()));
        Ok(kernel)
    }

    fn stream(&self) -> Result<Handle, String> {
        const NON_BLOCKING: c_uint = 1;
        let mut stream: Handle = null_mut();
        call!(self, cuStreamCreate(*mut Handle = &mut stream, c_uint = NON_BLOCKING));
        Ok(stream)
    }

    /// Launches one thread of a kernel, which takes an address. The device uses the host's addresses.
    fn launch(&self, kernel: Handle, stream: Handle, mut flag: Handle) -> Result<(), String> {
        let mut arguments = [ptr::from_mut(&mut flag).cast()];
        call!(self, cuLaunchKernel(
            Handle = kernel,
            c_uint = 1,
            c_uint = 1,
            c_uint = 1,
            c_uint = 1,
            c_uint = 1,
            c_uint = 1,
            c_uint = 0,
            Handle = stream,
            *mut Handle = arguments.as_mut_ptr(),
            Handle = null_mut(),
        ));
        Ok(())
    }

    /// Tells the audit, if there is one, that the program is ready.
    fn say_ready(&self) {
        if let Ok(function) = self.find("kernel_registry_audit_ready") {
            // SAFETY: this is the type of the function of that name in every version.
            let ready: extern "C" fn() = unsafe { mem::transmute(function) };
            ready();
        }
    }
}
