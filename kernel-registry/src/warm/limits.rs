//! The stage that raises the context's limits for its kernels: printf buffer, heap, stack and dynamic shared memory.

use cudarc::driver::sys::CUresult;
use kernel_registry_cuda::prime::Primed;

use super::error::{FrozenLimit, WarmError};
use super::failure::Cause;
use super::load::cause;
use super::work::{Candidate, Sizes, Work};
use crate::contexts::WarmKernel;
use crate::driver::{Current, DriverCallError, Limit};

/// Raises the limits. Returns the kernels for which the limits now suffice; the others become failures.
pub(super) fn apply(work: &mut Work<'_>, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, WarmError> {
    set_sizes(&work.current, work.job.sizes)?;
    let shared: Vec<_> =
        candidates.into_iter().filter_map(|candidate| grant_shared(work, candidate)).collect();
    Ok(raise_stack(work, shared)?)
}

impl Sizes {
    fn each(self) -> impl Iterator<Item = (FrozenLimit, Limit, u64)> {
        let Sizes { printf_fifo, heap } = self;
        let printf =
            printf_fifo.map(|bytes| (FrozenLimit::PrintfFifo, Limit::CU_LIMIT_PRINTF_FIFO_SIZE, bytes));
        let heap = heap.map(|bytes| (FrozenLimit::Heap, Limit::CU_LIMIT_MALLOC_HEAP_SIZE, bytes));
        printf.into_iter().chain(heap)
    }
}

/// Enlarges the printf buffer and the heap. The driver allows that until the first launch of a kernel that uses them.
fn set_sizes(current: &Current<'_>, sizes: Sizes) -> Result<(), WarmError> {
    for (what, limit, asked) in sizes.each() {
        let size = current.limit(limit)?;
        if size >= asked {
            continue;
        }
        current.set_limit(limit, asked).map_err(|error| {
            match error.is(CUresult::CUDA_ERROR_INVALID_VALUE) {
                true => WarmError::LimitFrozen { limit: what, asked, size },
                false => error.into(),
            }
        })?;
    }
    Ok(())
}

/// Grants a kernel the dynamic shared memory that it declares. By default the driver grants 48 KiB.
fn grant_shared(work: &mut Work<'_>, mut candidate: Candidate) -> Option<Candidate> {
    let Candidate { planned, kernel: WarmKernel { function, ref mut report, ref mut limits, .. } } =
        candidate;
    let dynamic = planned.kernel.shared.unwrap_or(0);
    if dynamic > limits.shared {
        let (fixed, most) = (report.static_shared, work.device.shared);
        if u64::from(fixed) + u64::from(dynamic) > most.into() {
            work.failed(planned, Cause::Shared { fixed, dynamic, most });
            return None;
        }
        work.watch.call("cuFuncSetAttribute", planned.kernel.path);
        if let Err(error) = work.current.grant_shared(function, dynamic) {
            work.failed(planned, Cause::Driver { error });
            return None;
        }
        (limits.shared, report.dynamic_shared) = (dynamic, dynamic);
    }
    Some(candidate)
}

/// Raises the stack limit to the largest stack that a kernel needs. Never lowers the limit, because the next launch would
/// wait.
fn raise_stack(work: &mut Work<'_>, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, DriverCallError> {
    let limit = limit(work)?;
    let budget = work.job.stack_budget.unwrap_or(work.free / 16);
    let most = highest_limit(limit, budget, work.device.threads);

    let (fitting, others) = split(candidates, most);
    for Candidate { planned, kernel } in others {
        let stack = kernel.report.stack.into();
        let needed = stack_memory(limit, stack, work.device.threads);
        work.failed(planned, Cause::StackBudget { stack, needed, budget, free: work.free });
    }

    // Other code may have lowered the limit below the stack of kernels that are already warm.
    let stacks = fitting.iter().map(|candidate| u64::from(candidate.kernel.report.stack));
    let largest = stacks.max().unwrap_or(0).max(work.loaded.largest_stack());
    if largest <= limit {
        return Ok(fitting);
    }
    let Err(error) = set_limit(work, largest) else { return Ok(fitting) };
    let (fitting, others) = split(fitting, limit);
    if others.is_empty() {
        return Err(error);
    }
    for Candidate { planned, .. } in others {
        work.failed(planned, cause(error.into(), work.free));
    }
    Ok(fitting)
}

/// Reads the stack limit. If the limit has changed since this library's last launch, the next launch may wait. Then the
/// next priming launches one of kernel-registry's own kernels, so that no other launch waits.
fn limit(work: &mut Work<'_>) -> Result<u64, DriverCallError> {
    work.watch.call("cuCtxGetLimit", "the stack of each thread");
    let limit = work.current.stack_limit()?;
    if limit != work.loaded.stack_at_launch {
        work.loaded.primed = work.loaded.primed.but_not(Primed::LAUNCH);
    }
    Ok(limit)
}

/// Raises the stack limit if it is lower than `stack`: for kernels that a hook loaded, or after a hook lowered the limit.
pub(super) fn raise_stack_for(work: &mut Work<'_>, stack: u64) -> Result<(), Cause> {
    let driver = |error| Cause::Driver { error };
    let limit = limit(work).map_err(driver)?;
    if stack <= limit {
        return Ok(());
    }
    let budget = work.job.stack_budget.unwrap_or(work.free / 16);
    // The stack of kernels that are already warm was within the budget when they were warmed.
    if stack > highest_limit(limit, budget, work.device.threads) && stack > work.loaded.largest_stack() {
        let needed = stack_memory(limit, stack, work.device.threads);
        return Err(Cause::StackBudget { stack, needed, budget, free: work.free });
    }
    set_limit(work, stack).map_err(|error| cause(error.into(), work.free))
}

/// Raises the stack limit. The next launch of any kernel then waits for the device, so this has to be one of
/// kernel-registry's own kernels.
fn set_limit(work: &mut Work<'_>, stack: u64) -> Result<(), DriverCallError> {
    work.watch.call("cuCtxSetLimit", "the stack of each thread");
    work.loaded.primed = work.loaded.primed.but_not(Primed::LAUNCH);
    work.current.raise_stack_limit(stack)
}

/// Splits kernels into kernels whose stacks fit the limit, and kernels whose stacks do not.
fn split(candidates: Vec<Candidate>, limit: u64) -> (Vec<Candidate>, Vec<Candidate>) {
    candidates.into_iter().partition(|candidate| u64::from(candidate.kernel.report.stack) <= limit)
}

/// Returns the device memory that raising the limit to `frame` takes.
fn stack_memory(limit: u64, frame: u64, threads: u64) -> u64 {
    frame.saturating_sub(limit).saturating_mul(threads)
}

/// Returns the highest limit that the budget allows.
fn highest_limit(limit: u64, budget: u64, threads: u64) -> u64 {
    limit.saturating_add(budget / threads.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An H200: 132 multiprocessors of 2,048 threads.
    const THREADS: u64 = 132 * 2048;
    const MIB: u64 = 1 << 20;

    #[test]
    fn stack_memory_is_as_measured() {
        for (frame, mebibytes) in [(2048, 264), (4096, 792), (8192, 1848), (32_768, 8184)] {
            assert_eq!(stack_memory(1024, frame, THREADS), mebibytes * MIB);
        }
        assert_eq!(stack_memory(1024, 800, THREADS), 0);
    }

    #[test]
    fn the_budget_bounds_the_limit() {
        assert_eq!(highest_limit(1024, 264 * MIB, THREADS), 2048);
        assert_eq!(highest_limit(1024, 264 * MIB - 1, THREADS), 2047);
        assert_eq!(highest_limit(1024, 0, THREADS), 1024);
        assert_eq!(highest_limit(1024, u64::MAX, 0), u64::MAX);
    }
}
