//! Warming, stage by stage, in the thread that talks to the driver.

use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use cudarc::driver::CudaContext;
use cudarc::driver::sys::CUresult;

use super::device::Device;
use super::failure::{Cause, Failure};
use super::plan::{Plan, Planned};
use super::prime::Needs;
use super::report::{HookReport, KernelReport, Report, Stage, Unavailable};
use super::state::{Loaded, State, Warmed, lock};
use super::watch::Watch;
use super::{Progress, WarmError, hooks, limits, load, prime, resolve, trace};
use crate::driver::{self, Current, Driver, DriverError, Function, LoadError};
use crate::table::{self, Limits, Ready};

/// What is to be done.
pub(super) struct Job {
    pub(super) driver: &'static Driver,
    pub(super) plan: &'static Plan,
    pub(super) selected: Vec<&'static Planned>,
    pub(super) context: Arc<CudaContext>,
    pub(super) state: Arc<State>,
    pub(super) threads: usize,
    pub(super) stack_budget: Option<u64>,
    pub(super) sizes: Sizes,
    /// Whether functions with `#[warmup]` run.
    pub(super) hooks: bool,
    pub(super) planned_in: Duration,
}

/// Bytes that the driver is to keep for kernels, at least. It fixes both when it sets them up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    pub(super) printf_fifo: Option<u64>,
    pub(super) heap: Option<u64>,
}

/// What all stages need.
pub(super) struct Work<'w> {
    pub(super) job: &'w Job,
    pub(super) watch: &'w Watch<Progress>,
    pub(super) current: Current<'w>,
    pub(super) device: &'w Device,
    pub(super) loaded: MutexGuard<'w, Loaded>,
    /// Bytes of device memory that were free when work began.
    pub(super) free: u64,
    failures: Vec<Failure>,
    stages: Vec<(Stage, Duration)>,
}

/// What the stages came to, beside kernels that are warm or not.
#[derive(Default)]
struct Done {
    hooks: Vec<HookReport>,
    images_loaded: usize,
    stack: u64,
    device_memory: u64,
    verified: bool,
}

/// A kernel on its way to being warm.
pub(super) struct Candidate {
    pub(super) planned: &'static Planned,
    pub(super) function: Function,
    pub(super) report: KernelReport,
    pub(super) limits: Limits,
}

impl Job {
    /// Goes through the stages, each call of which the device may keep waiting. The caller has the context's turn.
    pub(super) fn run(&self, watch: &Watch<Progress>) -> Result<Report, WarmError> {
        // A driver that loads a kernel for somebody else makes other calls wait, too.
        watch.call("cuCtxGetLimit", "");
        self.begin(lock(&self.state.loaded), watch)?.run()
    }

    fn begin<'w>(
        &'w self,
        loaded: MutexGuard<'w, Loaded>,
        watch: &'w Watch<Progress>,
    ) -> Result<Work<'w>, DriverError> {
        let current = Current::new(&self.context, self.driver)?;
        // The context may have been reset since the warm-up began, and others may have found that out.
        if loaded.forgotten || driver::context_id(&self.context)? != self.state.id {
            let destroyed = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
            return Err(DriverError::new("cuCtxGetId", destroyed));
        }
        self.state.rehome(&self.context, &loaded);
        let device = Device::of(&self.state, &current)?;
        let free = current.free_memory()?;
        let stages = vec![(Stage::Plan, self.planned_in)];
        Ok(Work { job: self, watch, current, device, loaded, free, failures: Vec::new(), stages })
    }
}

impl Work<'_> {
    fn run(mut self) -> Result<Report, WarmError> {
        let pending = self.pending();
        match self.go_through(&pending) {
            Ok(done) => Ok(self.report(done)),
            Err(error) => Err(self.stopped(&pending, error)),
        }
    }

    fn go_through(&mut self, pending: &[&'static Planned]) -> Result<Done, WarmError> {
        let mut images = self.stage(Stage::Load, |work| load::load(work, pending));
        let resolved = self.stage(Stage::Resolve, |work| resolve::resolve(work, pending, &mut images));
        let read = self.stage(Stage::Read, |work| resolve::read(work, resolved));
        let fitting = self.stage(Stage::Limits, |work| limits::apply(work, read))?;
        self.stage(Stage::Prime, |work| work.prime(pending))?;
        // Once launches can find the kernels, what fails is the failure of a kernel or hook, and no error of them all.
        let (mut free, mut stack) = (self.current.free_memory()?, self.current.stack_limit()?);
        let verified = self.stage(Stage::Verify, |work| work.verify(fitting));
        let hooks = self.stage(Stage::Hooks, hooks::run);
        if !hooks.is_empty() {
            free = self.current.free_memory().unwrap_or(free);
            stack = self.current.stack_limit().unwrap_or(stack);
        }
        Ok(Done {
            hooks,
            images_loaded: images.values().filter(|image| image.is_new).count(),
            stack,
            device_memory: self.free.saturating_sub(free),
            verified,
        })
    }

    /// A call failed that is about no kernel. If kernels have failed before it, they say more: after some errors all calls
    /// of a context fail, and one of theirs was the first. None of those that were to become warm has.
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
            device: self.device.name.clone(),
            arch: self.device.arch,
            driver: self.job.driver.version,
            loads_lazily: self.device.loads_lazily,
            hooks,
            kernels: self.warm().map(|warmed| warmed.report).collect(),
            unavailable: self.unavailable().collect(),
            failures: self.failures,
            other_copies: &self.job.plan.registry.other_copies,
            images_loaded,
            stack,
            device_memory,
            verified,
            stages: self.stages,
        }
    }

    fn stage<T>(&mut self, stage: Stage, work: impl FnOnce(&mut Self) -> T) -> T {
        self.watch.event(Progress { stage, done: 0, of: 0 });
        let since = Instant::now();
        let result = trace::stage(stage, || work(self));
        self.stages.push((stage, since.elapsed()));
        result
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        self.failures.push(failure);
    }

    pub(super) fn failed(&mut self, planned: &Planned, cause: Cause) {
        let kernel = &planned.kernel;
        self.failures.push(Failure {
            kernel: kernel.path,
            place: planned.info.location(),
            image: kernel.image.map(|image| image.file),
            variants: kernel.image.map_or("", |image| image.variants),
            arch: self.device.arch,
            cause,
        });
    }

    /// The kernels that have yet to be warmed.
    fn pending(&mut self) -> Vec<&'static Planned> {
        let mut pending = Vec::new();
        for planned in &self.job.selected {
            let needs = planned.kernel.min_arch.unwrap_or(0);
            if self.loaded.knows(planned) {
                continue;
            } else if planned.image.is_none() {
                self.failed(planned, Cause::NoImage);
            } else if needs > self.device.arch {
                self.enter(planned, Function::NONE, Limits { unavailable_below: needs, ..Limits::default() });
                self.loaded.unavailable.insert(planned.place, planned.info);
            } else {
                pending.push(*planned);
            }
        }
        pending
    }

    /// What these kernels need that nobody has set up in this context.
    pub(super) fn needs(&self, pending: &[&Planned]) -> Needs {
        // Also where nothing is pending: the stack may have been raised for kernels that were warm before.
        let launch = if self.loaded.is_used() { Needs::LAUNCH } else { Needs::default() };
        let needs = pending.iter().map(|planned| prime::needs(planned)).fold(launch, Needs::or);
        needs.but_not(self.loaded.primed)
    }

    fn prime(&mut self, pending: &[&Planned]) -> Result<(), WarmError> {
        self.set_up(self.needs(pending)).map_err(|LoadError { error, log }| WarmError::Driver {
            error,
            about: prime::OURS,
            log,
        })
    }

    /// Sets up what is needed and was not before.
    pub(super) fn set_up(&mut self, needs: Needs) -> Result<(), LoadError> {
        prime::prime(&self.current, self.device.arch, needs, self.watch, &mut self.loaded.ours)?;
        self.loaded.primed = self.loaded.primed.or(needs);
        if needs != Needs::default() {
            self.loaded.stack_at_launch = self.current.stack_limit()?;
        }
        Ok(())
    }

    /// Asks the driver for every kernel, also those that were warm before, and lets launches find the new ones.
    fn verify(&mut self, candidates: Vec<Candidate>) -> bool {
        let mut verified = true;
        let selected = &self.job.selected;
        for planned in selected {
            let Some(warmed) = self.loaded.kernels.get(planned.place) else { continue };
            let is_loaded = self.current.is_loaded(warmed.function);
            verified &= matches!(is_loaded, Ok(Some(true)));
            match is_loaded {
                Ok(Some(true) | None) => {}
                Ok(Some(false)) => self.lost(planned, Cause::NotLoaded),
                // The module was unloaded, and the handle with it.
                Err(error) if error.is(CUresult::CUDA_ERROR_INVALID_HANDLE) => {
                    self.lost(planned, Cause::Unloaded);
                }
                Err(error) => self.failed(planned, Cause::Driver { error }),
            }
        }
        for Candidate { planned, function, report, limits } in candidates {
            match self.current.is_loaded(function) {
                Err(error) => self.failed(planned, Cause::Driver { error }),
                Ok(Some(false)) => self.failed(planned, Cause::NotLoaded),
                Ok(is_loaded) => {
                    verified &= is_loaded.is_some();
                    self.enter(planned, function, limits);
                    let warmed = Warmed { info: planned.info, function, report };
                    self.loaded.kernels.insert(planned.place, warmed);
                }
            }
        }
        verified
    }

    /// A kernel that was warm is not loaded any more: launches do not find it, and the next warm-up loads it anew.
    fn lost(&mut self, planned: &Planned, cause: Cause) {
        let state = &self.job.state;
        planned.info.table().forget(state.ordinal, state.id);
        table::next_epoch();
        self.loaded.kernels.remove(planned.place);
        planned.image.into_iter().for_each(|image| self.loaded.modules.remove(image));
        self.failed(planned, cause);
    }

    fn enter(&self, planned: &Planned, function: Function, limits: Limits) {
        let state = &self.job.state;
        planned.info.table().set(state.ordinal, Ready { function, context: state.owner(), limits });
    }

    /// The selected kernels that are warm, in the order of the plan.
    pub(super) fn warm(&self) -> impl Iterator<Item = &Warmed> {
        self.job.selected.iter().filter_map(|planned| self.loaded.kernels.get(planned.place))
    }

    fn unavailable(&self) -> impl Iterator<Item = Unavailable> {
        let unavailable = |planned: &&&Planned| self.loaded.unavailable.get(planned.place).is_some();
        let selected = self.job.selected.iter().filter(unavailable);
        selected.map(|planned| Unavailable {
            path: planned.kernel.path,
            needs: planned.kernel.min_arch.unwrap_or(0),
        })
    }
}
