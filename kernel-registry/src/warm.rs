//! Making kernels ready: after it, no launch waits for loading or for resizing.
//!
//! `plan` decides before CUDA is touched, `work` goes through the stages, each of which has a module, in a thread that
//! `watch` looks after, and `state` remembers what is loaded.

#[cfg(feature = "indicatif")]
mod bar;
mod code;
mod cold;
mod device;
mod failure;
mod hooks;
mod limits;
mod load;
mod plan;
mod prime;
mod recheck;
mod report;
mod resolve;
mod state;
mod trace;
mod watch;
mod work;

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::CudaContext;

use crate::driver::{self, Driver, DriverError};
use crate::{KernelInfo, LaunchError};
use plan::Plan;
use state::State;
use work::Job;

pub use failure::{Cause, Failure, WarmError};
pub use recheck::Stale;
pub use report::{HookReport, KernelReport, Report, Stage, Unavailable};

/// Makes every registered kernel ready in a context. After that no launch of one waits for loading or for
/// resizing, whatever else runs on the device.
///
/// It can be called from any thread, for several contexts at once, and again, which is cheap. Kernels that fail
/// do not keep the others from being warmed; the error lists all of them.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let context = kernel_registry::context(0)?;
/// let warm = kernel_registry::warm_all(&context)?;
/// println!("{}", warm.report());
/// # Ok(())
/// # }
/// ```
pub fn warm_all(context: &Arc<CudaContext>) -> Result<Warm, WarmError> {
    Warmup::new().warm(context)
}

/// How to warm, where [`warm_all`] does not suit.
///
/// ```no_run
/// use std::time::Duration;
/// use kernel_registry::{Late, Warmup};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let context = kernel_registry::context(0)?;
/// let warm = Warmup::new()
///     .only(|kernel| kernel.package() == "kernels")
///     .skip([kernel_registry::find("kernels::memory::shuffle")?])
///     .late(Late::Deny)
///     .patience(Duration::from_secs(5))
///     .progress(|progress| eprintln!("{} {}/{}", progress.stage, progress.done, progress.of))
///     .warm(&context)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is warmed before `warm` is called"]
pub struct Warmup<'a> {
    only: Option<Filter<'a>>,
    skip: Vec<&'static KernelInfo>,
    threads: Option<usize>,
    stack_budget: Option<u64>,
    late: Option<Late>,
    progress: Option<Box<dyn FnMut(Progress) + 'a>>,
    allow_partial: bool,
    hooks: bool,
    patience: Duration,
}

type Filter<'a> = Box<dyn Fn(&KernelInfo) -> bool + 'a>;

/// What happens when a kernel is launched that is not warm, in a context in which others are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// It is warmed then and there, and `tracing`, if that feature is on, or else the standard error output says so.
    #[default]
    Warn,
    /// The launch is an error.
    Deny,
    /// It is warmed then and there.
    Allow,
}

/// How far a warm-up is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The stage that is at work.
    pub stage: Stage,
    /// How many images are compiled, while images are loaded.
    pub done: usize,
    /// How many there are to compile.
    pub of: usize,
}

impl<'a> Warmup<'a> {
    /// What [`warm_all`] does.
    pub fn new() -> Self {
        Warmup {
            only: None,
            skip: Vec::new(),
            threads: None,
            stack_budget: None,
            late: Some(Late::default()),
            progress: None,
            allow_partial: false,
            hooks: true,
            patience: Duration::from_secs(30),
        }
    }

    /// Only kernels for which this is true.
    pub fn only(self, filter: impl Fn(&KernelInfo) -> bool + 'a) -> Self {
        Warmup { only: Some(Box::new(filter)), ..self }
    }

    /// Not these kernels.
    pub fn skip(mut self, kernels: impl IntoIterator<Item = &'static KernelInfo>) -> Self {
        self.skip.extend(kernels);
        self
    }

    /// How many threads compile PTX. All cores by default.
    pub fn threads(self, threads: usize) -> Self {
        Warmup { threads: Some(threads.max(1)), ..self }
    }

    /// How much device memory larger stacks may take, in bytes. A sixteenth of what is free by default.
    pub fn stack_budget(self, bytes: u64) -> Self {
        Warmup { stack_budget: Some(bytes), ..self }
    }

    /// What happens when a kernel is launched that is not warm. [`Late::Warn`] by default.
    pub fn late(self, late: Late) -> Self {
        Warmup { late: Some(late), ..self }
    }

    /// Is told how far it is, in the thread that waits.
    pub fn progress(self, progress: impl FnMut(Progress) + 'a) -> Self {
        Warmup { progress: Some(Box::new(progress)), ..self }
    }

    /// Kernels that could not be warmed are in the report, and no error.
    pub fn allow_partial(self) -> Self {
        Warmup { allow_partial: true, ..self }
    }

    /// Whether functions with [`#[warmup]`](macro@crate::warmup) run, which they do by default, once in a context.
    pub fn hooks(self, run: bool) -> Self {
        Warmup { hooks: run, ..self }
    }

    /// How long one call of the driver may wait for the device, before [`WarmError::GaveUp`]. 30 seconds by default.
    pub fn patience(self, patience: Duration) -> Self {
        Warmup { patience, ..self }
    }

    /// Makes kernels ready in a context.
    pub fn warm(mut self, context: &Arc<CudaContext>) -> Result<Warm, WarmError> {
        self.warm_one(context)
    }

    /// Makes kernels ready in several contexts, one after the other: what the driver compiles for one device serves
    /// all that are like it. The first context that fails is the error; those before it are warm.
    pub fn warm_each(mut self, contexts: &[Arc<CudaContext>]) -> Result<Vec<Warm>, WarmError> {
        contexts.iter().map(|context| self.warm_one(context)).collect()
    }

    fn warm_one(&mut self, context: &Arc<CudaContext>) -> Result<Warm, WarmError> {
        let begun = Instant::now();
        let driver = Driver::get()?;
        let plan = Plan::get()?;
        let selected = plan.kernels.iter().filter(|planned| self.selects(planned.info)).collect();
        let id = driver::context_id(context)?;
        let state = State::of(context, id);
        if let Some(late) = self.late {
            state.set_late(late);
        }
        let job = Job {
            driver,
            plan,
            selected,
            context: context.clone(),
            state,
            threads: self.threads.or_else(cores).unwrap_or(1),
            stack_budget: self.stack_budget,
            hooks: self.hooks,
            planned_in: begun.elapsed(),
        };

        let caller = trace::Caller::new(job.selected.len());
        let report = match caller.in_scope(|| job.repeat()) {
            Some(report) => report?,
            None => {
                let progress = |progress| {
                    if let Some(told) = &mut self.progress {
                        told(progress);
                    }
                };
                let work = move |watch: &_| caller.in_scope(|| job.run(watch));
                let patience = self.patience;
                watch::watched(patience, progress, work)
                    .map_err(|watch::Waiting { call, about }| WarmError::GaveUp { call, about, patience })??
            }
        };
        trace::report(&report);
        if report.failures.is_empty() || self.allow_partial {
            Ok(Warm { context: context.clone(), id, report })
        } else {
            Err(WarmError::Kernels { report: Box::new(report) })
        }
    }

    fn selects(&self, kernel: &KernelInfo) -> bool {
        self.only.as_ref().is_none_or(|only| only(kernel)) && !self.skip.contains(&kernel)
    }
}

impl Default for Warmup<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Warmup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warmup { threads, stack_budget, late, allow_partial, patience, .. } = self;
        f.debug_struct("Warmup")
            .field("threads", threads)
            .field("stack_budget", stack_budget)
            .field("late", late)
            .field("allow_partial", allow_partial)
            .field("patience", patience)
            .finish_non_exhaustive()
    }
}

/// The receipt of a warm-up: the kernels in its report were warm in its context.
///
/// It keeps the context alive. What it cannot do is keep others from lowering the stack limit or resetting the
/// device: [`recheck`](Warm::recheck) sees that, and whoever is about to launch a kernel that stays calls it.
#[derive(Clone, Debug)]
pub struct Warm {
    context: Arc<CudaContext>,
    id: u64,
    report: Report,
}

impl Warm {
    /// The context.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// What was found and done.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Asks the driver whether everything is still as it was.
    pub fn recheck(&self) -> Result<(), Stale> {
        recheck::recheck(self)
    }
}

fn cores() -> Option<usize> {
    thread::available_parallelism().map(usize::from).ok()
}

/// The architecture of a context's device: 90 for sm_90.
pub(crate) fn architecture(context: &CudaContext) -> Result<u32, DriverError> {
    let capability = context.compute_capability();
    let (major, minor) = capability.map_err(|error| DriverError::new("cuDeviceGetAttribute", error.0))?;
    Ok(major.unsigned_abs() * 10 + minor.unsigned_abs())
}

/// Warms a kernel that is launched although it is not warm, if that was allowed when others were warmed in
/// its context.
pub(crate) fn late(
    kernel: &'static KernelInfo,
    context: &CudaContext,
    id: u64,
) -> Result<crate::table::Ready, LaunchError> {
    let state = State::find(id).filter(|state| state.late() != Late::Deny);
    let Some((state, owner)) = state.and_then(|state| state.context().map(|owner| (state, owner))) else {
        return Err(cold::not_warm(kernel));
    };
    if state.late() == Late::Warn {
        warn(kernel);
    }
    let only = Warmup { late: None, hooks: false, ..Warmup::new().only(|other| other == kernel) };
    match only.warm(&owner) {
        Ok(_) => kernel.table().find(context.ordinal(), id).ok_or(LaunchError::NotWarm { kernel }),
        Err(error) => Err(LaunchError::Late { kernel, error: Box::new(error) }),
    }
}

fn warn(kernel: &KernelInfo) {
    let path = kernel.path();
    #[cfg(feature = "tracing")]
    tracing::warn!(kernel = path, "a kernel is loaded late, which waits for the whole device");
    #[cfg(not(feature = "tracing"))]
    eprintln!(
        "kernel-registry: `{path}` is loaded late, which waits for the whole device; include it in `warm_all`"
    );
}
