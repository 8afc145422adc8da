//! Making kernels ready: after it, no launch waits for loading or for resizing.
//!
//! `plan` decides before CUDA is touched. `stages` is their sequence, each has a module, and `work` is what all of them work with.

#[cfg(feature = "indicatif")]
mod bar;
mod code;
mod failure;
mod handle;
mod hooks;
mod limits;
mod load;
mod plan;
mod prime;
mod recheck;
mod report;
mod resolve;
mod stages;
mod trace;
mod verify;
mod work;

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::CudaContext;

use crate::KernelInfo;
use crate::contexts::{KnownContext, Late, LateLoad, Policy, Turn};
use crate::driver::{Code, ContextId, Current, Driver};
use crate::watch::{self, Activity, NoResult, Overdue, Timeouts};
use work::{Job, Sizes};

pub use failure::{Cause, Failure, HookCause, HookFailure, SetLimit, WarmEachError, WarmError};
pub(crate) use hooks::running_for as hook_running_for;
pub(crate) use plan::Plan;
pub use recheck::RecheckError;
pub use report::{HookReport, KernelReport, Report, Stage, Unavailable};

/// Makes every registered kernel ready in a context. After that no launch of one waits for loading or for
/// resizing, whatever else runs on the device.
///
/// It can be called from any thread, for several contexts at once, and again, which is cheap. Kernels that fail
/// do not keep the others from being warmed; the error lists all of them.
///
/// # What is fixed from then on
///
/// The first launch of a kernel with `printf`, or with `malloc`, fixes the size of the printf buffer, or of the heap, and
/// warming launches such kernels. A program that needs more than the driver's 8 MiB says so beforehand, with
/// [`Warmup::printf_fifo`] and [`Warmup::heap`].
///
/// # What it cannot know
///
/// No tool knows the stack of a kernel with recursive calls. Its declaration says it: `#[gpu_kernel(stack = 16 * 1024)]`.
/// Without that, the kernel gets the stack of one pass through its calls, and the report names it:
/// [`Report::unknown_stacks`].
///
/// # Errors
///
/// See [`WarmError`]: there is no driver, kernels failed, or the device is busy and stays so.
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
///     .timeout(Duration::from_secs(5))
///     .progress(|progress| eprintln!("{} {}/{}", progress.stage, progress.done, progress.of))
///     .warm(&context)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is warmed before `warm` is called"]
pub struct Warmup<'a> {
    only: Option<Filter<'a>>,
    skip: Vec<&'static KernelInfo>,
    /// What is said here holds for late loads, too.
    policy: Policy,
    /// The policy is that of the context already: this is a late load.
    is_late: bool,
    sizes: Sizes,
    progress: Option<Box<dyn FnMut(Progress) + 'a>>,
    allow_partial: bool,
    hooks: bool,
    hook_timeout: Duration,
}

/// How long a call of the driver may wait for the device.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long a function with `#[warmup]` may take: it may compile, or load a model.
const HOOK_TIMEOUT: Duration = Duration::from_secs(300);

type Filter<'a> = Box<dyn Fn(&KernelInfo) -> bool + 'a>;

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
            policy: Policy::default(),
            is_late: false,
            sizes: Sizes::default(),
            progress: None,
            allow_partial: false,
            hooks: true,
            hook_timeout: HOOK_TIMEOUT,
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
    pub fn threads(mut self, threads: usize) -> Self {
        self.policy.threads = Some(threads.max(1));
        self
    }

    /// How much device memory larger stacks may take, in bytes. A sixteenth of what is free by default.
    pub fn stack_budget(mut self, bytes: u64) -> Self {
        self.policy.stack_budget = Some(bytes);
        self
    }

    /// The least size of the printf buffer, in bytes. The driver fixes it at the first launch of a kernel with `printf`
    /// or `assert`, which warming is; so it can only be said in a context's first warm-up, and later is
    /// [`WarmError::LimitFrozen`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let context = kernel_registry::context(0)?;
    /// let warm = kernel_registry::Warmup::new().printf_fifo(32 << 20).heap(256 << 20).warm(&context)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn printf_fifo(mut self, bytes: u64) -> Self {
        self.sizes.printf_fifo = Some(bytes);
        self
    }

    /// The least size of the heap of which kernels take memory with `malloc` and `new`, in bytes. As with
    /// [`printf_fifo`](Self::printf_fifo), it can only be said in a context's first warm-up.
    pub fn heap(mut self, bytes: u64) -> Self {
        self.sizes.heap = Some(bytes);
        self
    }

    /// What happens when a kernel is launched that is not warm. [`Late::Warn`] if no warm-up of the context has said
    /// anything else.
    pub fn late(mut self, late: Late) -> Self {
        self.policy.late = Some(late);
        self
    }

    /// Is told of late loads in the context, before each, with [`Late::Warn`]. Without it they are lines on the standard
    /// error output. With the feature `tracing` they are events, too.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let context = kernel_registry::context(0)?;
    /// let warmup = kernel_registry::Warmup::new().on_late(|load| eprintln!("late: {}", load.kernel.path()));
    /// let warm = warmup.warm(&context)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_late(mut self, tell: impl Fn(&LateLoad) + Send + Sync + 'static) -> Self {
        self.policy.on_late = Some(Arc::new(tell));
        self
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

    /// How long one call of the driver may wait for the device, before [`WarmError::TimedOut`]. 30 seconds by default.
    /// Compiling does not count, nor do functions with `#[warmup]`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy.timeout = Some(timeout);
        self
    }

    /// How long one function with [`#[warmup]`](macro@crate::warmup) may take, before [`WarmError::HookTimedOut`]. Five
    /// minutes by default.
    pub fn hook_timeout(self, hook_timeout: Duration) -> Self {
        Warmup { hook_timeout, ..self }
    }

    /// Makes kernels ready in a context.
    ///
    /// # Errors
    ///
    /// As of [`warm_all`].
    pub fn warm(mut self, context: &Arc<CudaContext>) -> Result<Warm, WarmError> {
        self.warm_one(context)
    }

    /// Makes kernels ready in several contexts, one after the other: what the driver compiles for one device serves
    /// all that are like it.
    ///
    /// # Errors
    ///
    /// [`WarmEachError`] at the first context that fails, with the receipts of those before it.
    pub fn warm_each(mut self, contexts: &[Arc<CudaContext>]) -> Result<Vec<Warm>, WarmEachError> {
        let mut warm = Vec::with_capacity(contexts.len());
        for context in contexts {
            match self.warm_one(context) {
                Ok(receipt) => warm.push(receipt),
                Err(error) => return Err(WarmEachError { warm, device: context.ordinal(), error }),
            }
        }
        Ok(warm)
    }

    /// Warms one kernel with the policy that its context has.
    pub(crate) fn late_load(kernel: &'static KernelInfo, policy: Policy) -> Self {
        Warmup { policy, is_late: true, hooks: false, ..Warmup::new().only(move |other| other == kernel) }
    }

    fn warm_one(&mut self, context: &Arc<CudaContext>) -> Result<Warm, WarmError> {
        let begun = Instant::now();
        let driver = Driver::get()?;
        let plan = Plan::get()?;
        let selected = plan.kernels.iter().filter(|planned| self.selects(planned.info)).collect();
        let id = ContextId::of(context)?;
        if let Some(hook) = hooks::running_for(id) {
            return Err(WarmError::InHook { hook });
        }
        let said = if self.is_late { &Policy::default() } else { &self.policy };
        let known = KnownContext::of(context, said)?;
        let id = known.id;
        let Policy { threads, stack_budget, timeout, .. } = self.policy;
        let job = Job {
            driver,
            plan,
            selected,
            context: context.clone(),
            known,
            threads: threads.or_else(cores).unwrap_or(1),
            stack_budget,
            sizes: self.sizes,
            hooks: self.hooks,
            planned_in: begun.elapsed(),
        };

        let caller = trace::Caller::new(job.selected.len());
        let progress = |progress| {
            if let Some(told) = &mut self.progress {
                told(progress);
            }
        };
        let timeouts = Timeouts { device: timeout.unwrap_or(TIMEOUT), hook: self.hook_timeout };
        let late = |overdue| timed_out(overdue, &timeouts);
        let activity = Activity::new(probe(driver, context));
        job.known.turns.take(&activity, &timeouts).map_err(late)?;
        let turn = Turn(job.known.clone());
        let work = move |watch: &_| {
            let _turn = turn;
            caller.in_scope(|| stages::run(&job, watch))
        };
        let report = watch::watched(activity, &timeouts, progress, work).map_err(|error| match error {
            NoResult::Overdue(overdue) => late(overdue),
            NoResult::NoThread(error) => WarmError::NoThread { reason: error.to_string() },
        })??;
        trace::report(&report);
        if report.is_complete() || self.allow_partial {
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
        let Warmup { policy, sizes, allow_partial, hooks, hook_timeout, .. } = self;
        let Policy { late, on_late: _, threads, stack_budget, timeout } = policy;
        let Sizes { printf_fifo, heap } = sizes;
        f.debug_struct("Warmup")
            .field("threads", threads)
            .field("stack_budget", stack_budget)
            .field("late", late)
            .field("allow_partial", allow_partial)
            .field("timeout", timeout)
            .field("printf_fifo", printf_fifo)
            .field("heap", heap)
            .field("hooks", hooks)
            .field("hook_timeout", hook_timeout)
            .finish_non_exhaustive()
    }
}

/// The receipt of a warm-up: the kernels in its report were warm in its context.
///
/// It keeps the context alive. It cannot keep others from lowering the stack limit, unloading modules or resetting the
/// device: [`recheck`](Warm::recheck) sees that, and a program calls it before it launches a kernel that stays. A limit that was
/// changed and changed back makes the next launch wait, too, and nothing tells: leave `CU_LIMIT_STACK_SIZE` alone.
#[derive(Clone, Debug)]
pub struct Warm {
    context: Arc<CudaContext>,
    id: ContextId,
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
    ///
    /// # Errors
    ///
    /// [`RecheckError`] says what changed, or why nobody can tell.
    pub fn recheck(&self) -> Result<(), RecheckError> {
        recheck::recheck(self)
    }
}

fn cores() -> Option<usize> {
    thread::available_parallelism().map(usize::from).ok()
}

/// Why a warm-up did not wait any longer.
fn timed_out(overdue: Overdue, timeouts: &Timeouts) -> WarmError {
    match overdue {
        Overdue::Device(call) => {
            WarmError::TimedOut { call: call.name, about: call.about, timeout: timeouts.device }
        }
        Overdue::Hook(hook) => WarmError::HookTimedOut { hook, limit: timeouts.hook },
    }
}

/// Loads a small image, which waits for the kernels that run in the context, and for nothing else.
fn probe(driver: &'static Driver, context: &Arc<CudaContext>) -> impl Fn() + Send + Sync + 'static {
    let context = context.clone();
    move || {
        // An error is an answer, too.
        let Ok(current) = Current::new(&context, driver) else { return };
        if let Ok(module) = current.load_module(&Code::new(prime::PLAIN, false)) {
            current.unload(module);
        }
    }
}
