//! The stage that runs the functions with `#[warmup]`, each once in a context.

use std::cell::Cell;
use std::time::Instant;

use super::failure::{Cause, Failure};
use super::limits;
use super::prime::Needs;
use super::report::HookReport;
use super::work::Work;
use crate::driver::{self, LoadError};
use crate::hook::{Hook, WarmContext};

/// Runs those that have not run in this context, or that failed there. They may launch kernels, which launches can find
/// already.
pub(super) fn run(work: &mut Work<'_>) -> Vec<HookReport> {
    let mut reports = Vec::new();
    if !work.job.hooks {
        return reports;
    }
    for hook in Hook::all() {
        if work.loaded.hooks.contains(&hook.key()) {
            continue;
        }
        let begun = Instant::now();
        match run_one(work, hook) {
            Ok(()) => {
                work.loaded.hooks.insert(hook.key());
                reports.push(HookReport { path: hook.place().path, took: begun.elapsed() });
            }
            Err(cause) => {
                let place = hook.place();
                let arch = work.device.arch;
                work.fail(Failure { kernel: place.path, place, image: None, variants: "", arch, cause });
            }
        }
    }
    reports
}

fn run_one(work: &mut Work<'_>, hook: &Hook) -> Result<(), Cause> {
    let path = hook.place().path;
    // If it never returns, the caller names it.
    work.watch.hook(path);
    let driver_error = |error| Cause::Driver { error };
    driver::bind(&work.job.context).map_err(driver_error)?;
    let context = WarmContext::new(&work.job.context, &work.current);
    let outcome = inside(work.job.state.id, path, || hook.run(&context));
    let preloaded = context.preloaded();
    // It may have made another context current, or lowered the stack limit.
    driver::bind(&work.job.context).map_err(driver_error)?;
    limits::raise_stack_for(work, work.loaded.largest_stack())?;
    // Or changed it and changed it back, which nothing tells, and for which the next launch pays.
    work.loaded.primed = work.loaded.primed.but_not(Needs::LAUNCH);
    let refused = |refused: LoadError| driver_error(refused.error);
    work.set_up(work.needs(&[])).map_err(refused)?;
    outcome.map_err(|error| Cause::Hook { error })?;
    let Some(frame) = preloaded else { return Ok(()) };
    limits::raise_stack_for(work, frame)?;
    work.loaded.preloaded_frame = work.loaded.preloaded_frame.max(frame);
    // Nothing tells what kernels of others need.
    work.set_up(Needs::EVERYTHING.but_not(work.loaded.primed)).map_err(refused)
}

thread_local! {
    /// The hook that this thread runs, and the context that is being warmed.
    static INSIDE: Cell<Option<(u64, &'static str)>> = const { Cell::new(None) };
}

/// Runs a hook, and remembers that meanwhile.
fn inside<T>(context: u64, path: &'static str, run: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            INSIDE.set(None);
        }
    }
    INSIDE.set(Some((context, path)));
    let _leave = Leave;
    run()
}

/// The hook that this thread runs for this context: to wait for the end of that warm-up would be to wait for ever.
pub(super) fn running_for(context: u64) -> Option<&'static str> {
    INSIDE.get().filter(|(id, _)| *id == context).map(|(_, path)| path)
}
