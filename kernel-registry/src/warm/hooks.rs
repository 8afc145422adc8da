//! The stage that runs the `#[warmup]` functions, here called hooks, each once in a context.

mod inside;

use std::time::Instant;

use kernel_registry_cuda::prime::Primed;

use super::failure::{Cause, HookCause, HookFailure};
use super::limits;
use super::report::HookReport;
use super::work::Work;
use crate::driver::{self, LoadError};
use crate::hook::{Hook, HookLoads, WarmContext};

pub(crate) use inside::running_for;

/// Runs the hooks that have not yet succeeded in this context. They may launch registered kernels, which are warm by now.
pub(super) fn run(work: &mut Work<'_>) -> Vec<HookReport> {
    let mut reports = Vec::new();
    if !work.job.hooks {
        return reports;
    }
    for hook in pending(work).collect::<Vec<_>>() {
        let begun = Instant::now();
        match run_one(work, hook) {
            Ok(HookLoads { count: loaded, .. }) => {
                work.loaded.hooks.insert(hook.key());
                reports.push(HookReport { path: hook.place().path, took: begun.elapsed(), loaded });
            }
            Err(cause) => {
                let place = hook.place();
                work.hook_failures.push(HookFailure { path: place.path, place, cause });
            }
        }
    }
    reports
}

/// Returns the hooks that have not yet succeeded in this context.
pub(super) fn pending(work: &Work<'_>) -> impl Iterator<Item = &'static Hook> {
    Hook::list().into_iter().filter(|hook| !work.loaded.hooks.contains(&hook.key()))
}

fn run_one(work: &mut Work<'_>, hook: &Hook) -> Result<HookLoads, HookCause> {
    let path = hook.place().path;
    // If the hook never returns, the error names it.
    work.watch.hook(path);
    let driver_error = |error| HookCause::Setup { cause: Cause::Driver { error } };
    let setup = |cause| HookCause::Setup { cause };
    driver::bind(&work.job.context).map_err(driver_error)?;
    let context = WarmContext::new(&work.job.context, &work.current);
    let outcome = inside::run(work.job.known.id, path, || hook.run(&context));
    let loads = context.loads();
    // The hook may have made another context current, or lowered the stack limit.
    driver::bind(&work.job.context).map_err(driver_error)?;
    limits::raise_stack_for(work, work.loaded.largest_stack()).map_err(setup)?;
    // The hook may also have changed the stack limit and restored it. Nothing detects that, and the next launch would
    // wait, so it has to be a launch of kernel-registry's own kernel.
    work.loaded.primed = work.loaded.primed.but_not(Primed::LAUNCH);
    let refused = |refused: LoadError| driver_error(refused.error);
    work.set_up(work.needs(&[])).map_err(refused)?;
    outcome.map_err(|error| HookCause::Returned { error })?;
    if loads.count > 0 {
        limits::raise_stack_for(work, loads.frame).map_err(setup)?;
        work.loaded.hook_frame = work.loaded.hook_frame.max(loads.frame);
        // The needs of unregistered kernels are unknown, so everything is set up.
        work.set_up(Primed::EVERYTHING.but_not(work.loaded.primed)).map_err(refused)?;
    }
    Ok(loads)
}
