//! A loaded image: a module of one context, or a library of the process.

use std::ffi::CStr;

use crate::driver::{Current, DriverCallError, Function, Library, Module};

/// The driver's handle of a loaded image.
#[derive(Clone, Copy)]
pub(super) enum Handle {
    Module(Module),
    Library(Library),
}

impl Handle {
    /// Returns the name of the driver call that resolves a kernel of this image. That call may wait for the device.
    pub(super) fn call(self) -> &'static str {
        match self {
            Handle::Module(_) => "cuModuleGetFunction",
            Handle::Library(_) => "cuKernelGetFunction",
        }
    }

    /// Resolves the kernel of this name. Resolving loads the kernel.
    pub(super) fn function(self, current: &Current<'_>, name: &CStr) -> Result<Function, DriverCallError> {
        match self {
            Handle::Module(module) => current.function_of_module(module, name),
            Handle::Library(library) => current.function_of_library(library, name),
        }
    }
}
