//! Reads and sets properties of a kernel: its carve-out, and how many blocks fit on a multiprocessor.

use cudarc::driver::{CudaContext, sys};
use kernel_registry::__private_0_1::resident::{Current, Function, bind, call};
use kernel_registry::{DriverCallError, LaunchConfig};
use sys::CUfunction_attribute_enum as FunctionAttribute;

/// Returns a function's preferred carve-out: the share of a multiprocessor's memory for shared memory, in
/// percent of the largest carve-out. `None` means that the driver chooses.
pub(crate) fn carveout(_current: &Current<'_>, function: Function) -> Result<Option<u32>, DriverCallError> {
    let which = FunctionAttribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    let mut percent = 0;
    // SAFETY: the function is one of the current context.
    call("cuFuncGetAttribute", unsafe { sys::cuFuncGetAttribute(&mut percent, which, function.0) })?;
    Ok(u32::try_from(percent).ok())
}

/// Sets a function's preferred carve-out. `None` lets the driver choose.
pub(crate) fn prefer_carveout(
    _current: &Current<'_>,
    function: Function,
    percent: Option<u32>,
) -> Result<(), DriverCallError> {
    const DRIVERS_CHOICE: i32 = -1;
    let which = FunctionAttribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    let percent = percent.map_or(DRIVERS_CHOICE, u32::cast_signed);
    // SAFETY: the function is one of the current context.
    call("cuFuncSetAttribute", unsafe { sys::cuFuncSetAttribute(function.0, which, percent) })
}

/// Returns how many blocks of a kernel fit on one multiprocessor at once.
///
/// # Safety
///
/// The function belongs to the context.
pub(crate) unsafe fn blocks_on_each(
    context: &CudaContext,
    function: sys::CUfunction,
    config: &LaunchConfig,
) -> Result<u32, DriverCallError> {
    bind(context)?;
    let threads = config.block.iter().fold(1_u32, |threads, side| threads.saturating_mul(*side));
    let threads = i32::try_from(threads).unwrap_or(i32::MAX);
    let mut blocks = 0;
    // SAFETY: the caller's promise.
    call("cuOccupancyMaxActiveBlocksPerMultiprocessor", unsafe {
        sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &mut blocks,
            function,
            threads,
            config.shared as usize,
        )
    })?;
    Ok(blocks.unsigned_abs())
}
