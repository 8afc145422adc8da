//! The first launch of any kernel that contains printf, assert or malloc waits for the whole device, and in some
//! situations the first launch of a context at all. Kernels of our own have them behind them before it matters.

use std::ffi::{CStr, c_void};
use std::ptr;

use cudarc::driver::sys;

use super::plan::Planned;
use super::state;
use super::watch::Watch;
use crate::driver::{Code, Current, DriverError, Function, LoadError, call};

static IMAGE: &[u8] = include_bytes!("../../cuda/prime.ptx");

/// What a launch can need of the driver that only a launch sets up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    printf: bool,
    assert: bool,
    malloc: bool,
}

/// What the kernels need. Their records do not say it, so it is everything.
pub(super) fn needs(_: &[&Planned]) -> Needs {
    Needs { printf: true, assert: true, malloc: true }
}

/// Launches what is needed, each with one thread that does nothing, and waits for it.
pub(super) fn prime<E>(current: &Current<'_>, needs: Needs, watch: &Watch<E>) -> Result<(), LoadError> {
    let names =
        [(needs.printf, c"prime_printf"), (needs.assert, c"prime_assert"), (needs.malloc, c"prime_malloc")];
    watch.call("cuLibraryLoadData", "kernel-registry's own kernels");
    let library = state::library(IMAGE, || current.load_library(&Code::new(IMAGE, true)))?;
    let resolve = |name: &CStr| {
        watch.call("cuKernelGetFunction", "kernel-registry's own kernels");
        current.function_of_library(library, name)
    };
    let needed = names.iter().filter(|(needed, _)| *needed);
    let functions = needed.map(|(_, name)| resolve(name)).collect::<Result<Vec<_>, _>>()?;

    watch.call("cuStreamCreate", "");
    let stream = Stream::new()?;
    for function in functions {
        watch.call("cuLaunchKernel", "kernel-registry's own kernels");
        stream.launch(function)?;
    }
    watch.call("cuStreamSynchronize", "kernel-registry's own kernels");
    Ok(stream.wait()?)
}

/// A stream that waits for no other.
struct Stream(sys::CUstream);

impl Stream {
    fn new() -> Result<Self, DriverError> {
        let mut stream = ptr::null_mut();
        const FLAGS: u32 = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: there is a current context: who calls this has a `Current`.
        call("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, FLAGS) })?;
        Ok(Stream(stream))
    }

    /// Launches one thread of a kernel whose only parameter, an `int`, is 0.
    fn launch(&self, function: Function) -> Result<(), DriverError> {
        let mut zero = 0_i32;
        let mut args: [*mut c_void; 1] = [(&raw mut zero).cast()];
        // SAFETY: the kernels of prime.cu take one `int`, and with 0 they do nothing.
        call("cuLaunchKernel", unsafe {
            let none = ptr::null_mut();
            sys::cuLaunchKernel(function.0, 1, 1, 1, 1, 1, 1, 0, self.0, args.as_mut_ptr(), none)
        })
    }

    fn wait(&self) -> Result<(), DriverError> {
        // SAFETY: the stream is there until it is dropped.
        call("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.0) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: nobody else has it. What fails here has failed before, and was reported then.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.0) };
    }
}

impl From<DriverError> for LoadError {
    fn from(error: DriverError) -> Self {
        LoadError { error, log: String::new() }
    }
}
