//! A loaded image: a module of one context, or a library of the process.

use std::ffi::CStr;

use crate::driver::{Current, DriverError, Function, Library, Module};

#[derive(Clone, Copy)]
pub(super) enum Handle {
    Module(Module),
    Library(Library),
}

impl Handle {
    /// What the device can make wait when a kernel is taken out of it.
    pub(super) fn call(self) -> &'static str {
        match self {
            Handle::Module(_) => "cuModuleGetFunction",
            Handle::Library(_) => "cuKernelGetFunction",
        }
    }

    /// The kernel of this name, loaded.
    pub(super) fn function(self, current: &Current<'_>, name: &CStr) -> Result<Function, DriverError> {
        match self {
            Handle::Module(module) => current.function_of_module(module, name),
            Handle::Library(library) => current.function_of_library(library, name),
        }
    }
}
