//! Runs the stages of a warm-up in order, in the thread that calls the driver.

use kernel_registry_cuda::prime::Primed;
use kernel_registry_cuda::rules::{self, Rule};

use super::error::WarmError;
use super::failure::Cause;
use super::load::Images;
use super::plan::Planned;
use super::progress::{Progress, Stage};
use super::report::{HookReport, Report, Unavailable};
use super::verify::verify;
use super::work::{Candidate, Job, Work};
use super::{adopted, hooks, limits, load, prime, resolve};
use crate::contexts::WarmKernel;
use crate::driver::{Function, LoadError};
use crate::lock::lock;
use crate::sections::{self, Family};
use crate::table::Limits;
use crate::watch::Watch;

/// Results of the stages that go into the report, other than kernels and failures.
#[derive(Default)]
struct Done {
    hooks: Vec<HookReport>,
    images_loaded: usize,
    stack: u64,
    device_memory: u64,
    verified: bool,
}

/// Runs all stages. Any of their driver calls may wait for the device. The caller holds the context's turn, so no other
/// warm-up runs in the context.
pub(super) fn run(job: &Job, watch: &Watch<Progress>) -> Result<Report, WarmError> {
    // Even `cuCtxGetLimit` waits while the driver loads a kernel for another thread.
    watch.call("cuCtxGetLimit", "");
    job.begin(lock(&job.known.loaded), watch)?.run()
}

impl Work<'_> {
    fn run(mut self) -> Result<Report, WarmError> {
        let pending = self.pending();
        let within = Family::new(&self.job.context, self.job.known.id);
        let change = self.first_change(&pending)?;
        // Held until the end, so that no resident kernel starts before the changes are made.
        let _loading = change
            .map(|(call, rule)| sections::loading(within, call, rule).map_err(WarmError::WouldWait))
            .transpose()?;
        match self.go_through(&pending) {
            Ok(done) => Ok(self.report(done)),
            Err(error) => Err(self.stopped(&pending, error)),
        }
    }

    /// Returns the first call of this warm-up that would wait for running kernels, and its rule. Returns `None` if there is
    /// nothing to load, no hook to run, no limit to raise and no kernel to launch.
    fn first_change(&self, pending: &[&Planned]) -> Result<Option<(&'static str, &'static Rule)>, WarmError> {
        if !pending.is_empty() {
            return Ok(Some(("cuModuleLoadDataEx", &rules::MODULE)));
        }
        if self.job.hooks && hooks::pending(self).next().is_some() {
            return Ok(Some(("#[warmup]", &rules::LOAD)));
        }
        if self.loaded.is_used() && self.current.stack_limit()? != self.loaded.stack_at_launch {
            return Ok(Some(("cuCtxSetLimit", &rules::STACK_CHANGED)));
        }
        let is_primed = self.needs(pending) == Primed::default();
        Ok((!is_primed).then_some(("cuLaunchKernel", &rules::FIRST_LAUNCH)))
    }

    fn go_through(&mut self, pending: &[&'static Planned]) -> Result<Done, WarmError> {
        let mut images = self.stage(Stage::Load, |work| load::load(work, pending));
        let resolved = self.stage(Stage::Resolve, |work| work.resolve(pending, &mut images))?;
        let read = self.stage(Stage::Read, |work| resolve::read(work, resolved));
        let fitting = self.stage(Stage::Limits, |work| limits::apply(work, read))?;
        self.stage(Stage::Prime, |work| work.prime(pending))?;
        // After `verify`, launches find the kernels, so no error may fail the whole warm-up any more. These two calls can
        // fail, so they come before it.
        let (mut free, mut stack) = (self.current.free_memory()?, self.current.stack_limit()?);
        let verified = self.stage(Stage::Verify, |work| verify(work, fitting));
        adopted::enter(self);
        let hooks = self.stage(Stage::Hooks, hooks::run);
        if !hooks.is_empty() {
            free = self.current.free_memory().unwrap_or(free);
            stack = self.current.stack_limit().unwrap_or(stack);
        }
        Ok(Done {
            hooks,
            images_loaded: images.loaded(),
            stack,
            device_memory: self.free.saturating_sub(free),
            verified,
        })
    }

    /// Returns the error of a warm-up that a failed call for the whole context has stopped. If kernels failed before, the
    /// error lists kernels: after some errors every call in a context fails, and the first failed call was one for a kernel.
    /// Then all pending kernels are listed, because none of them has become warm.
    fn stopped(mut self, pending: &[&Planned], stopped: WarmError) -> WarmError {
        let WarmError::Driver { error, .. } = stopped else { return stopped };
        if self.failures.is_empty() {
            return stopped;
        }
        for planned in pending {
            let place = planned.info.location();
            if self.failures.iter().all(|failure| failure.place != place) {
                self.failed(planned, Cause::Driver { error });
            }
        }
        WarmError::Kernels { report: Box::new(self.report(Done::default())) }
    }

    fn report(self, done: Done) -> Report {
        let Done { hooks, images_loaded, stack, device_memory, verified } = done;
        Report {
            not_adopted: adopted::refused(&self),
            device: self.device.name.clone(),
            arch: self.device.arch,
            driver: self.job.driver.version,
            loads_lazily: self.device.loads_lazily,
            hooks,
            kernels: self.warm().map(|warmed| warmed.report).collect(),
            unavailable: self.unavailable().collect(),
            failures: self.failures,
            hook_failures: self.hook_failures,
            other_copies: &self.job.plan.registry.other_copies,
            images_loaded,
            stack,
            device_memory,
            verified,
            baked: self.baked,
            not_baked: self.not_baked,
            stages: self.stages,
        }
    }

    /// Returns the kernels to warm. Records kernels without an image as failures, and kernels for newer devices as
    /// unavailable.
    fn pending(&mut self) -> Vec<&'static Planned> {
        let mut pending = Vec::new();
        for planned in &self.job.selected {
            let min_arch = planned.kernel.min_arch.unwrap_or(0);
            if self.loaded.knows(planned.index) {
                continue;
            } else if let Some(Err(problem)) = planned.linked {
                self.failed(planned, Cause::not_linked(planned, problem));
            } else if planned.image.is_none() && planned.linked.is_none() {
                self.failed(planned, Cause::NoImage);
            } else if min_arch > self.device.arch {
                self.job.known.enter(
                    planned.info,
                    Function::NONE,
                    Limits { unavailable_below: min_arch, ..Limits::default() },
                );
                self.loaded.unavailable.insert(planned.index, planned.info);
            } else {
                pending.push(*planned);
            }
        }
        pending
    }

    fn resolve(
        &mut self,
        pending: &[&'static Planned],
        images: &mut Images,
    ) -> Result<Vec<Candidate>, WarmError> {
        let resolved = resolve::resolve(self, pending, images);
        if let (true, Some(last)) = (self.device.loads_lazily, resolved.last()) {
            prime::settle(&self.current, self.watch, last.planned.kernel.path).map_err(ours)?;
        }
        Ok(resolved)
    }

    fn prime(&mut self, pending: &[&Planned]) -> Result<(), WarmError> {
        self.set_up(self.needs(pending)).map_err(ours)
    }

    /// Returns the selected kernels that are warm, in the order of the plan.
    fn warm(&self) -> impl Iterator<Item = &WarmKernel> {
        self.job.selected.iter().filter_map(|planned| self.loaded.kernels.get(planned.index))
    }

    fn unavailable(&self) -> impl Iterator<Item = Unavailable> {
        let unavailable = |planned: &&&Planned| self.loaded.unavailable.get(planned.index).is_some();
        let selected = self.job.selected.iter().filter(unavailable);
        selected.map(|planned| Unavailable {
            path: planned.kernel.path,
            min_arch: planned.kernel.min_arch.unwrap_or(0),
        })
    }
}

/// Returns the error of a call that concerns this library's own kernels.
fn ours(LoadError { error, log }: LoadError) -> WarmError {
    WarmError::Driver { error, about: prime::OURS, log }
}
