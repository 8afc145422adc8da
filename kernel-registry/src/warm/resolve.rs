//! Two stages of a warm-up: resolving kernels, which is getting their handles from loaded images, and reading their
//! attributes.

use std::ffi::CString;
use std::mem;
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUresult;
use kernel_registry_format::{KernelRecord, StackFrames};

use super::failure::Cause;
use super::handle::Handle;
use super::load::{Images, cause, load_again};
use super::plan::Planned;
use super::work::{Candidate, Work};
use crate::contexts::{KernelReport, MachineCode, WarmKernel};
use crate::driver::{DriverCallError, Function, FunctionAttribute, LoadError};
use crate::linked::{self, Linked};
use crate::table::Limits;

/// Gets the handle of each pending kernel from its image. Getting the handle makes the driver load the kernel.
pub(super) fn resolve(
    work: &mut Work<'_>,
    pending: &[&'static Planned],
    images: &mut Images,
) -> Vec<Candidate> {
    let mut resolved = Vec::with_capacity(pending.len());
    let mut begun = Instant::now();
    for planned in pending {
        if let Some(Ok(linked)) = planned.linked {
            work.watch.call(linked::GET_FUNCTION, planned.kernel.path);
            match load_linked(work, *linked) {
                Ok(function) => {
                    resolved.push(candidate(planned, function, MachineCode::Image, lap(&mut begun)));
                }
                // CUDA's libraries contain kernels for other devices. They aren't launched on this one, so this is no failure.
                Err(error) if NO_CODE.contains(&error.code) && planned.info.registration().is_some() => {
                    work.loaded.unavailable.insert(planned.index, planned.info);
                }
                Err(error) => {
                    work.failed(planned, cause(LoadError::from(error), work.free));
                    begun = Instant::now();
                }
            }
            continue;
        }
        let Some(image) = images.find(planned) else { continue };
        let mut resolved_one = image.result.clone().and_then(|handle| resolve_one(work, planned, handle));
        let refused = match (&image.result, &resolved_one) {
            // `cuLibraryLoadData` succeeded, and only now the driver reports that the image does not compile.
            (Ok(Handle::Library(_)), Err(Cause::Refused { error, .. })) => Some(*error),
            (Ok(_), Err(Cause::Refused { error, .. })) if image.code == MachineCode::Baked => Some(*error),
            _ => None,
        };
        if let Some(error) = refused {
            image.result = load_again(work, image, error);
            image.code = MachineCode::Compiled;
            resolved_one = image.result.clone().and_then(|handle| resolve_one(work, planned, handle));
        }
        match resolved_one {
            Ok(function) => {
                resolved.push(candidate(planned, function, image.code, lap(&mut begun)));
            }
            Err(cause) => {
                if matches!(cause, Cause::Refused { .. }) {
                    // The image's other kernels would fail the same way, after a long time.
                    image.result = Err(cause.clone());
                }
                work.failed(planned, cause);
                begun = Instant::now();
            }
        }
    }
    resolved
}

fn candidate(
    planned: &'static Planned,
    function: Function,
    code: MachineCode,
    resolved_in: Duration,
) -> Candidate {
    let report = KernelReport {
        path: planned.kernel.path,
        image: match planned.kernel.image {
            Some(image) => image.file,
            None => "linked by nvcc",
        },
        code,
        resolved_in,
        ..KernelReport::default()
    };
    let kernel = WarmKernel { info: planned.info, function, report, limits: Limits::default() };
    Candidate { planned, kernel }
}

/// The error codes of a runtime library for a kernel without code for the device: `cudaErrorInvalidDeviceFunction` and
/// `cudaErrorNoKernelImageForDevice`.
const NO_CODE: [u32; 2] = [98, 209];

/// Gets the handle of a kernel that nvcc linked, and loads the kernel.
fn load_linked(work: &Work<'_>, linked: Linked) -> Result<Function, DriverCallError> {
    let function = linked.function()?;
    work.current.load_function(function).map(|()| function)
}

/// Returns the time since `begun`, and sets `begun` to now.
fn lap(begun: &mut Instant) -> Duration {
    let now = Instant::now();
    now - mem::replace(begun, now)
}

fn resolve_one(work: &Work<'_>, planned: &Planned, handle: Handle) -> Result<Function, Cause> {
    let (path, symbol) = (planned.kernel.path, planned.kernel.symbol);
    let no_entry = Cause::NoEntry { symbol };
    let Ok(name) = CString::new(symbol) else { return Err(no_entry) };
    work.watch.call(handle.call(), path);
    let function = handle.function(&work.current, &name);
    // Getting the handle has loaded the kernel. So `cuFuncLoad` costs next to nothing here, and never waits.
    let loaded = function.and_then(|function| work.current.load_function(function).map(|()| function));
    loaded.map_err(|error| {
        if error.is(CUresult::CUDA_ERROR_NOT_FOUND) {
            return no_entry;
        }
        cause(LoadError::from(error), work.free)
    })
}

/// Reads the attributes of each kernel. A kernel whose attributes cannot be read becomes a failure.
pub(super) fn read(work: &mut Work<'_>, resolved: Vec<Candidate>) -> Vec<Candidate> {
    let mut candidates = Vec::with_capacity(resolved.len());
    for mut candidate in resolved {
        match read_one(work, &mut candidate) {
            Ok(()) => candidates.push(candidate),
            Err(error) => work.failed(candidate.planned, Cause::Driver { error }),
        }
    }
    candidates
}

/// Returns the bytes of stack that a thread of a kernel needs, and whether the thread can never need more.
///
/// The attribute `local` leaves out the frames of recursive functions, and of kernels that this kernel launches. The driver
/// enlarges the stack for these frames at the kernel's first launch, and that launch waits for the device.
fn stack(kernel: &KernelRecord<'_>, local: u32) -> (u32, bool) {
    let StackFrames { recursive, launched } = kernel.frames;
    let own = kernel.stack.max(recursive).unwrap_or(0);
    (local.max(own).max(launched.unwrap_or(0)), recursive.is_none() || kernel.stack.is_some())
}

fn read_one(work: &Work<'_>, candidate: &mut Candidate) -> Result<(), DriverCallError> {
    use FunctionAttribute::*;
    let Candidate { planned, kernel: WarmKernel { function, report, limits, .. } } = candidate;
    let read = |attribute| work.current.attribute(*function, attribute);

    let local = read(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?;
    let (stack, stack_known) = stack(planned.kernel, local);
    *report = KernelReport {
        registers: read(CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        local,
        stack,
        stack_known,
        static_shared: read(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
        dynamic_shared: read(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)?,
        constants: read(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)?,
        threads: read(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        ptx_version: read(CU_FUNC_ATTRIBUTE_PTX_VERSION)?,
        binary_version: read(CU_FUNC_ATTRIBUTE_BINARY_VERSION)?,
        ..mem::take(report)
    };
    // Either all three dimensions are zero, or none is.
    let cluster = match read(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH)? {
        0 => [0; 3],
        width => [
            width,
            read(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT)?,
            read(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)?,
        ],
    };
    *limits = Limits {
        unavailable_below: 0,
        threads: report.threads,
        shared: report.dynamic_shared,
        // A cluster has 16 blocks at most.
        cluster: cluster.map(|blocks| blocks as u8),
        cluster_must_be_set: cluster == [0; 3] && read(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET)? != 0,
    };
    Ok(())
}
