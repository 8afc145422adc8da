//! Errors of driver calls, and of a missing or unusable driver.

use std::error::Error;
use std::ffi::{CStr, c_char};
use std::fmt;

use cudarc::driver::{DriverError, sys};
use kernel_registry_cuda::sticky;

use super::version::CudaVersion;

/// A driver call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DriverCallError {
    /// The driver's function.
    pub call: &'static str,
    /// The code that the function returned, such as 200.
    pub code: u32,
    /// The name of the code, such as `CUDA_ERROR_INVALID_IMAGE`.
    pub name: &'static str,
    /// The driver's description of the code, such as `device kernel image is invalid`.
    pub description: &'static str,
}

impl DriverCallError {
    /// Creates the error of a call. Asks the driver for name and description. There must be a driver, because it returned the
    /// result.
    pub(crate) fn new(call: &'static str, result: sys::CUresult) -> Self {
        DriverCallError {
            call,
            code: result as u32,
            name: describe(result, sys::cuGetErrorName),
            description: describe(result, sys::cuGetErrorString),
        }
    }

    /// Creates the error of a call of CUDA's runtime library. The runtime library's codes have other names and
    /// descriptions than the driver's codes.
    pub(crate) fn from_runtime(
        call: &'static str,
        code: u32,
        name: &'static str,
        description: &'static str,
    ) -> Self {
        DriverCallError { call, code, name, description }
    }

    /// Returns call and code without the description, for the text of an error whose `source` is this error.
    pub fn in_short(&self) -> String {
        format!("`{}` failed ({})", self.call, self.code)
    }

    /// Returns whether every later call of the process fails with this error, too.
    pub fn is_sticky(&self) -> bool {
        sticky::reason(self.code).is_some()
    }

    pub(crate) fn is(&self, result: sys::CUresult) -> bool {
        self.code == result as u32
    }

    /// Writes what follows from the code, whichever call returned it.
    fn write_consequence(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = sticky::reason(self.code) {
            // After a sticky error NVIDIA's driver does not create new contexts either, on any device.
            write!(
                f,
                "; this error is sticky ({reason}): every later call of this process fails, in every context; \
                 start the process anew"
            )?;
        }
        // Not only an audit returns this code: NVIDIA's driver does, too, for example to calls from a host function in a stream.
        if self.is(sys::CUresult::CUDA_ERROR_NOT_PERMITTED) {
            f.write_str(
                "; if an audit has refused the call, because the program was sealed (`Warm::seal`), has said that it is ready, \
                 or has a resident kernel, the standard error output says why, and what prevents it",
            )?;
        }
        Ok(())
    }
}

/// Returns the driver's name or description of a result. The text is static, because the driver is never unloaded.
fn describe(
    result: sys::CUresult,
    ask: unsafe fn(sys::CUresult, *mut *const c_char) -> sys::CUresult,
) -> &'static str {
    let mut text = std::ptr::null();
    // SAFETY: both functions store the address of a text, or null.
    unsafe { ask(result, &mut text) };
    if text.is_null() {
        return "unknown";
    }
    // SAFETY: the pointer is not null, so it points to one of the driver's texts. They end with a zero and are never freed.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("unknown")
}

impl fmt::Display for DriverCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} returned {}: {}", self.call, self.name, self.description)?;
        self.write_consequence(f)
    }
}

impl Error for DriverCallError {}

/// An error of cudarc, written as a sentence. cudarc's own text is that of `Debug`, and it does not say which call failed.
pub(crate) struct OfCudarc<'a>(pub(crate) &'a DriverError);

impl fmt::Display for OfCudarc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OfCudarc(DriverError(result)) = *self;
        // Without the driver's library, asking it for the text would panic.
        if !kernel_registry_cudarc::has_driver() {
            return write!(f, "the driver returned {result:?} ({})", *result as u32);
        }
        let error = DriverCallError::new("the driver", *result);
        write!(f, "{} returned {} ({}): {}", error.call, error.name, error.code, error.description)?;
        error.write_consequence(f)?;
        match *result {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => write!(f, "; {DEVICE_FULL}"),
            sys::CUresult::CUDA_ERROR_INVALID_DEVICE => write!(f, "; {NO_SUCH_DEVICE}"),
            sys::CUresult::CUDA_ERROR_NO_DEVICE => write!(f, "; {DEVICE_HIDDEN}"),
            _ => Ok(()),
        }
    }
}

// Remedies for codes that most calls return for one reason.
const DEVICE_FULL: &str = "the device has too little memory; `nvidia-smi` shows whether another process has it: end that process, or \
    choose another device";

const NO_SUCH_DEVICE: &str = "no device has this number; devices are counted from 0, `nvidia-smi` lists them, and \
    `CUDA_VISIBLE_DEVICES` may hide some";

const DEVICE_HIDDEN: &str =
    "make sure that `nvidia-smi` shows a device, and that `CUDA_VISIBLE_DEVICES` does not hide it";

/// Why there is no usable driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverUnavailable {
    /// The driver's library was not found.
    Missing,
    /// The driver is too old.
    TooOld {
        /// The newest CUDA that the driver supports.
        version: CudaVersion,
        /// The oldest CUDA that this library needs.
        oldest: CudaVersion,
    },
    /// The process was forked from a process that had used the driver. The driver does not work in the child.
    Forked,
    /// The driver does not work, for example because there is no device.
    Failed(DriverCallError),
}

impl From<DriverCallError> for DriverUnavailable {
    fn from(error: DriverCallError) -> Self {
        DriverUnavailable::Failed(error)
    }
}

impl fmt::Display for DriverUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriverUnavailable::Missing => {
                f.write_str(
                    "no CUDA driver: `libcuda.so` (`nvcuda.dll` on Windows) was not found; \
                     install NVIDIA's driver, or start the container with its GPUs",
                )?;
                if cfg!(target_os = "linux") {
                    f.write_str(
                        "; without a GPU `cargo kernels sim PROGRAM` runs it on a simulated driver",
                    )?;
                }
                Ok(())
            }
            DriverUnavailable::TooOld { version, oldest } => write!(
                f,
                "the CUDA driver supports CUDA {version}, and kernels are warmed with functions of CUDA {oldest}; \
                 install a driver of the 525 series or newer"
            ),
            DriverUnavailable::Forked => f.write_str(
                "this process was forked from one that had used CUDA, and the driver does not work in the child; \
                 fork before CUDA is used, or start a new program",
            ),
            DriverUnavailable::Failed(error)
                if error.is(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) && error.call == "cuMemHostAlloc" =>
            {
                write!(f, "{}: the host has too little memory for the driver; ask for less, or free some", error.in_short())
            }
            DriverUnavailable::Failed(error) if error.is(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
                write!(f, "{}: {DEVICE_FULL}", error.in_short())
            }
            DriverUnavailable::Failed(error)
                if error.is(sys::CUresult::CUDA_ERROR_INVALID_DEVICE) && error.call != "cuInit" =>
            {
                write!(f, "{}: {NO_SUCH_DEVICE}", error.in_short())
            }
            DriverUnavailable::Failed(error) if error.is_sticky() => {
                write!(f, "{}: the driver does not work in this process any more", error.in_short())
            }
            DriverUnavailable::Failed(error) => {
                write!(f, "{}: the driver does not work; {DEVICE_HIDDEN}", error.in_short())
            }
        }
    }
}

impl Error for DriverUnavailable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            DriverUnavailable::Missing | DriverUnavailable::TooOld { .. } | DriverUnavailable::Forked => None,
            DriverUnavailable::Failed(error) => Some(error),
        }
    }
}

/// Converts a result into an error that names the call.
pub fn call(name: &'static str, result: sys::CUresult) -> Result<(), DriverCallError> {
    match result {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        _ => Err(DriverCallError::new(name, result)),
    }
}
