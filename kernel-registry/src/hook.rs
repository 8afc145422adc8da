//! Hooks: `#[warmup]` functions, and the `WarmContext` that is passed to them.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, sys};

use crate::Place;
use crate::driver::{self, Current, DriverCallError, Function, FunctionAttribute};
use crate::error::WithCauses;

/// The types that a hook can return.
#[diagnostic::on_unimplemented(
    message = "a function with `#[warmup]` cannot return `{Self}`",
    label = "neither nothing nor a `Result<(), E>`",
    note = "`E` is any error, or text"
)]
pub trait Outcome {
    /// Converts an error to one line of text, with the texts of its sources.
    fn text(self) -> Result<(), String>;
}

impl Outcome for () {
    fn text(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: Into<Box<dyn Error>>> Outcome for Result<(), E> {
    fn text(self) -> Result<(), String> {
        self.map_err(|error| WithCauses(&*error.into()).to_string())
    }
}

/// A registered `#[warmup]` function.
pub struct Hook {
    place: Place,
    order: i32,
    run: fn(&WarmContext<'_>) -> Result<(), String>,
}

inventory::collect!(Hook);

impl Hook {
    /// Creates the hook that `#[warmup]` registers.
    pub const fn new(place: Place, order: i32, run: fn(&WarmContext<'_>) -> Result<(), String>) -> Self {
        Hook { place, order, run }
    }

    /// Returns all hooks in the program, in the order in which they run.
    pub(crate) fn list() -> Vec<&'static Hook> {
        let mut all: Vec<&'static Hook> = inventory::iter::<Hook>.into_iter().collect();
        all.sort_by_key(|hook| (hook.order, hook.place.path, hook.place.line));
        all
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    pub(crate) fn run(&self, context: &WarmContext<'_>) -> Result<(), String> {
        (self.run)(context)
    }

    /// Returns the hook's address, which identifies it.
    pub(crate) fn key(&'static self) -> usize {
        ptr::from_ref(self).addr()
    }
}

/// The context that is being warmed, as a `#[warmup]` function gets it. The context is current in the function's thread.
pub struct WarmContext<'a> {
    context: &'a Arc<CudaContext>,
    current: &'a Current<'a>,
    loads: Cell<HookLoads>,
}

/// The kernels that a hook has loaded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HookLoads {
    pub(crate) count: usize,
    /// The largest stack frame of these kernels, in bytes.
    pub(crate) frame: u64,
}

impl<'a> WarmContext<'a> {
    pub(crate) fn new(context: &'a Arc<CudaContext>, current: &'a Current<'a>) -> Self {
        WarmContext { context, current, loads: Cell::default() }
    }

    /// Returns the context.
    pub fn context(&self) -> &Arc<CudaContext> {
        self.context
    }

    /// Loads a kernel that is not registered, so that its first launch does not wait. After the hook has returned, the warm-up
    /// raises the stack limit for the kernel, and sets up printf, assert and the heap.
    ///
    /// The stack limit is raised to what the driver's attribute says. This is too little for recursive calls and for kernels that
    /// launch kernels. For these the hook itself raises `CU_LIMIT_STACK_SIZE`.
    ///
    /// # Errors
    ///
    /// The kernel belongs to another context, or the driver refuses. If the kernel's stack exceeds the stack budget, this function
    /// succeeds, and the warm-up reports a failure of the hook.
    pub fn load_function(&self, function: &CudaFunction) -> Result<(), LoadError> {
        self.load(Function(function.cu_function()))
    }

    /// Loads a kernel by the driver's handle, as [`load_function`](Self::load_function) does. The handle can come from a C library,
    /// for example, or from CUDA's runtime API: `cudaGetFuncBySymbol` returns the handle of a kernel that nvcc linked into the program.
    ///
    /// ```no_run
    /// use kernel_registry::cudarc::driver::sys::CUfunction;
    /// use kernel_registry::{LoadError, WarmContext, warmup};
    ///
    /// # #[cfg(any())]
    /// unsafe extern "C" {
    ///     /// `cudaGetFuncBySymbol(&function, attention_kernel)`, in a C++ file of the program.
    ///     fn attention_function() -> CUfunction;
    /// }
    /// # unsafe fn attention_function() -> CUfunction { std::ptr::null_mut() }
    ///
    /// #[warmup]
    /// fn attention(warm: &WarmContext<'_>) -> Result<(), LoadError> {
    ///     // SAFETY: the kernel is part of the program, and never unloaded.
    ///     unsafe { warm.load_raw(attention_function()) }
    /// }
    /// ```
    ///
    /// # Safety
    ///
    /// The kernel's module is loaded, and stays loaded.
    ///
    /// # Errors
    ///
    /// The same errors as [`load_function`](Self::load_function).
    pub unsafe fn load_raw(&self, function: sys::CUfunction) -> Result<(), LoadError> {
        self.load(Function(function))
    }

    /// Loads every kernel of a library that `cuLibraryLoadData` has returned. Returns the number of kernels.
    ///
    /// # Safety
    ///
    /// The library is loaded, and stays loaded.
    ///
    /// # Errors
    ///
    /// The driver refuses. Drivers before CUDA 12.4 cannot list a library's kernels.
    pub unsafe fn load_library(&self, library: sys::CUlibrary) -> Result<usize, LoadError> {
        // The hook may have made another context current.
        driver::bind(self.context)?;
        // SAFETY: the caller's promise.
        unsafe { self.load_module(self.current.module_of(library)?) }
    }

    /// Loads every kernel of a module of this context. Returns the number of kernels.
    ///
    /// # Safety
    ///
    /// The module is loaded, and stays loaded.
    ///
    /// # Errors
    ///
    /// The module belongs to another context, or the driver refuses. Drivers before CUDA 12.4 cannot list a module's kernels.
    pub unsafe fn load_module(&self, module: sys::CUmodule) -> Result<usize, LoadError> {
        // SAFETY: the caller's promise.
        let functions = unsafe { self.current.functions_of(module)? };
        functions.iter().try_for_each(|function| self.load(*function))?;
        Ok(functions.len())
    }

    fn load(&self, function: Function) -> Result<(), LoadError> {
        // The hook may have made another context current.
        driver::bind(self.context)?;
        // SAFETY: the function belongs to a loaded module: a `CudaFunction` keeps its module, and other callers have promised it.
        if !unsafe { self.current.owns(function)? } {
            return Err(LoadError::OtherContext);
        }
        self.current.load_function(function)?;
        let frame =
            self.current.attribute(function, FunctionAttribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?;
        let HookLoads { count, frame: largest } = self.loads.get();
        self.loads.set(HookLoads { count: count + 1, frame: largest.max(frame.into()) });
        Ok(())
    }

    pub(crate) fn loads(&self) -> HookLoads {
        self.loads.get()
    }
}

/// Why a kernel that is not registered was not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The kernel does not belong to the context that is being warmed.
    OtherContext,
    /// A driver call failed.
    Driver(DriverCallError),
}

impl From<DriverCallError> for LoadError {
    fn from(error: DriverCallError) -> Self {
        LoadError::Driver(error)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::OtherContext => f.write_str(
                "the kernel does not belong to the context that is being warmed; load its module through \
                 `WarmContext::context`",
            ),
            LoadError::Driver(error) => {
                write!(f, "the kernel was not loaded, because {}", error.in_short())
            }
        }
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            LoadError::OtherContext => None,
            LoadError::Driver(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no handle")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn errors_are_reported_with_their_causes() {
        let cause = "x".parse::<u32>().unwrap_err();
        let failed: Result<(), Outer> = Err(Outer(cause));
        assert_eq!(failed.text(), Err("no handle: invalid digit found in string".to_owned()));
        let said: Result<(), &str> = Err("not today");
        assert_eq!(said.text(), Err("not today".to_owned()));
        assert_eq!(().text(), Ok(()));
    }
}
