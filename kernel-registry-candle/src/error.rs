//! Why a warm-up failed.

use std::fmt;

use kernel_registry::{RuntimeImageError, WarmError};

/// Why candle's kernels are not ready.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The device is not a CUDA device.
    NotCuda,
    /// A module could not be registered: most often because the program is not linked with the driver.
    Image(RuntimeImageError),
    /// Kernels could not be warmed.
    Warm(WarmError),
    /// candle could not take a module.
    Candle {
        /// A kernel of the module.
        kernel: &'static str,
        /// candle's error.
        error: candle_core::Error,
    },
    /// A function that was passed to [`Warmup::hook`](crate::Warmup::hook) failed.
    Hook(candle_core::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotCuda => f.write_str(
                "the device is not a CUDA device, so candle loads no kernels on it: warm only `Device::new_cuda(..)`",
            ),
            Error::Image(_) => f.write_str("candle's modules could not be registered"),
            Error::Warm(_) => f.write_str("candle's kernels could not be warmed"),
            Error::Candle { kernel, .. } => write!(f, "candle could not take the module of kernel `{kernel}`"),
            Error::Hook(_) => f.write_str("a hook of the warm-up failed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::NotCuda => None,
            Error::Image(error) => Some(error),
            Error::Warm(error) => Some(error),
            Error::Candle { error, .. } | Error::Hook(error) => Some(error),
        }
    }
}

impl From<RuntimeImageError> for Error {
    fn from(error: RuntimeImageError) -> Self {
        Error::Image(error)
    }
}

impl From<WarmError> for Error {
    fn from(error: WarmError) -> Self {
        Error::Warm(error)
    }
}
