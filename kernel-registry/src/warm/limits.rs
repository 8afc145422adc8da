//! The stage that gives kernels the memory they need beside their own: a stack for each thread, and shared memory.

use super::failure::Cause;
use super::load::cause;
use super::work::{Candidate, Work};
use crate::driver::DriverError;

/// Gives the kernels what they need, and hands on those that could get it.
pub(super) fn apply(work: &mut Work<'_>, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, DriverError> {
    let shared: Vec<_> =
        candidates.into_iter().filter_map(|candidate| grant_shared(work, candidate)).collect();
    raise_stack(work, shared)
}

/// Lets a kernel have the dynamic shared memory that it declares. Without being asked the driver grants 48 KiB.
fn grant_shared(work: &mut Work<'_>, mut candidate: Candidate) -> Option<Candidate> {
    let Candidate { planned, function, ref mut report, ref mut limits } = candidate;
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

/// Raises the stack limit to the largest frame, in this context for good: lowering it would make the next launch wait.
fn raise_stack(work: &mut Work<'_>, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, DriverError> {
    let limit = work.current.stack_limit()?;
    let budget = work.job.stack_budget.unwrap_or(work.free / 16);
    let most = highest_limit(limit, budget, work.device.threads);

    let (fitting, others) = split(candidates, most);
    for Candidate { planned, report, .. } in others {
        let frame = report.local.into();
        let needed = stack_memory(limit, frame, work.device.threads);
        work.failed(planned, Cause::StackBudget { frame, needed, budget, free: work.free });
    }

    // Somebody else may have lowered the limit below what was warm already.
    let frames = fitting.iter().map(|candidate| u64::from(candidate.report.local));
    let largest = frames.max().unwrap_or(0).max(work.loaded.largest_frame());
    if largest <= limit {
        return Ok(fitting);
    }
    work.watch.call("cuCtxSetLimit", "the stack of each thread");
    let Err(error) = work.current.raise_stack_limit(largest) else { return Ok(fitting) };
    let (fitting, others) = split(fitting, limit);
    if others.is_empty() {
        return Err(error);
    }
    for Candidate { planned, .. } in others {
        work.failed(planned, cause(error.into(), work.free));
    }
    Ok(fitting)
}

/// Raises the stack limit to the largest frame of what a hook has preloaded.
pub(super) fn raise_stack_for(work: &Work<'_>, frame: u64) -> Result<(), Cause> {
    let driver = |error| Cause::Driver { error };
    let limit = work.current.stack_limit().map_err(driver)?;
    if frame <= limit {
        return Ok(());
    }
    let budget = work.job.stack_budget.unwrap_or(work.free / 16);
    if frame > highest_limit(limit, budget, work.device.threads) {
        let needed = stack_memory(limit, frame, work.device.threads);
        return Err(Cause::StackBudget { frame, needed, budget, free: work.free });
    }
    work.watch.call("cuCtxSetLimit", "the stack of each thread");
    work.current.raise_stack_limit(frame).map_err(|error| cause(error.into(), work.free))
}

/// Those whose frames fit the limit, and the others.
fn split(candidates: Vec<Candidate>, limit: u64) -> (Vec<Candidate>, Vec<Candidate>) {
    candidates.into_iter().partition(|candidate| u64::from(candidate.report.local) <= limit)
}

/// Device memory that raising the limit takes.
fn stack_memory(limit: u64, frame: u64, threads: u64) -> u64 {
    frame.saturating_sub(limit).saturating_mul(threads)
}

/// The highest limit that the budget allows.
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
    fn memory_is_what_was_measured() {
        for (frame, mebibytes) in [(2048, 264), (4096, 792), (8192, 1848), (32_768, 8184)] {
            assert_eq!(stack_memory(1024, frame, THREADS), mebibytes * MIB);
        }
        assert_eq!(stack_memory(1024, 800, THREADS), 0);
    }

    #[test]
    fn a_budget_allows_what_it_pays_for() {
        assert_eq!(highest_limit(1024, 264 * MIB, THREADS), 2048);
        assert_eq!(highest_limit(1024, 264 * MIB - 1, THREADS), 2047);
        assert_eq!(highest_limit(1024, 0, THREADS), 1024);
        assert_eq!(highest_limit(1024, u64::MAX, 0), u64::MAX);
    }
}
