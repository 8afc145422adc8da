//! Warming: makes kernels ready, so that no launch waits for loading or for a larger stack.
//!
//! The module `plan` chooses kernels and images before any CUDA call, and `stages` runs the stages. Each stage has its own
//! module; `work` holds the state that the stages share.

mod adopted;
mod baked;
#[cfg(feature = "indicatif")]
mod bar;
mod causes;
mod code;
mod error;
mod expected;
mod failure;
mod handle;
mod hooks;
mod limits;
mod load;
mod not_baked;
mod pieces;
mod plan;
mod prime;
mod progress;
mod ptx_version;
mod receipt;
mod recheck;
mod report;
mod resolve;
mod stages;
mod trace;
mod verify;
mod words;
mod work;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::CudaContext;

use crate::KernelInfo;
use crate::contexts::{KnownContext, Late, LateLoad, Policy, Turn};
use crate::driver::{ContextId, Current, Driver};
use crate::watch::{self, Activity, LEAST_TIMEOUT, NoResult, Overdue, TIMEOUT, Timeouts};
use work::{Job, Sizes};

pub use error::{FrozenLimit, WarmError};
pub use failure::{Cause, Failure, HookCause, HookFailure};
pub(crate) use hooks::running_for as hook_running_for;
pub use not_baked::NotBaked;
pub(crate) use plan::Plan;
pub use progress::{Progress, Stage};
pub use receipt::Warm;
pub(crate) use recheck::MOMENT;
pub use recheck::RecheckError;
pub use report::{HookReport, NotAdopted, Report, Unavailable};

/// Makes every registered kernel ready in a context. After that, no launch of these kernels waits for loading or for a
/// larger stack, whatever else runs on the device.
///
/// `warm_all` can be called from any thread, and for several contexts at once. Calling it again is cheap. If a kernel fails,
/// the other kernels are warmed nevertheless; the error lists all failures.
///
/// # Sizes that warming fixes
///
/// The first launch of a kernel with `printf` fixes the size of the printf buffer. The first launch of a kernel with `malloc`
/// fixes the size of the heap. Warming launches kernels with both. The driver gives 8 MiB to each. A program that needs
/// more sets [`Warmup::printf_fifo`] or [`Warmup::heap`] in the context's first warm-up.
///
/// # Large PTX images
///
/// The driver compiles PTX when it is loaded, each image in one thread. So an image that is PTX text of 64 KiB or more is cut
/// into pieces of some kernels each, which are compiled in parallel. Kernels of such an image that are not warmed are not
/// compiled; a late load compiles its kernel alone.
///
/// Cutting must not change what kernels do. So the macro decides at compile time whether an image can be cut. An image stays
/// whole if:
///
/// - its code uses a variable of the image in global or constant memory: kernels may share the variable;
/// - such a variable is `.visible` to other modules, as `__device__` and `__constant__` variables without `static` are: the
///   host may set the variable. The compiler's own constants, such as the text of a `printf`, are no obstacle;
/// - it has textures, surfaces or managed variables;
/// - it takes the address of a function, has virtual functions, or launches kernels itself;
/// - it was compiled with `-G`, or has a form that the macro does not know;
/// - it is a fatbin, in which PTX is compressed.
///
/// A driver of CUDA 13.0 or newer compiles a large image that stays whole in several threads, too, but not as fast. For a
/// kernel of a piece, `cuFuncGetModule` returns the piece's module, which lacks the image's other kernels.
/// [`Warmup::whole_images`] turns cutting off.
///
/// # Recursive kernels
///
/// No tool can compute the stack of a kernel with recursive calls. The kernel's declaration states it:
/// `#[gpu_kernel(stack = 16 * 1024)]`. Without a declared stack, the kernel gets the stack of one pass through its calls, and
/// [`Report::unknown_stacks`] lists the kernel.
///
/// # Errors
///
/// [`WarmError`], for example if there is no driver, if kernels failed, or if the device stays busy.
///
/// ```no_run
/// # fn main() -> Result<(), kernel_registry::MainError> {
/// let context = kernel_registry::context(0)?;
/// let warm = kernel_registry::warm_all(&context)?;
/// println!("{}", warm.report());
/// # Ok(())
/// # }
/// ```
pub fn warm_all(context: &Arc<CudaContext>) -> Result<Warm, WarmError> {
    Warmup::new().warm(context)
}

/// A warm-up with options. [`warm_all`] is the warm-up with default options.
///
/// ```no_run
/// use std::time::Duration;
/// use kernel_registry::{Late, Warmup};
///
/// # fn main() -> Result<(), kernel_registry::MainError> {
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
    expected: Vec<String>,
    /// Options that also apply to late loads.
    policy: Policy,
    /// Whether this is a late load. Then `policy` is already the context's policy.
    is_late: bool,
    sizes: Sizes,
    progress: Option<Box<dyn FnMut(Progress) + 'a>>,
    allow_partial: bool,
    hooks: bool,
    hook_timeout: Duration,
}

/// How long a `#[warmup]` function may take by default. The time is long because a function may compile, or load a model.
const HOOK_TIMEOUT: Duration = Duration::from_secs(300);

type Filter<'a> = Box<dyn Fn(&KernelInfo) -> bool + 'a>;

impl<'a> Warmup<'a> {
    /// Creates a warm-up with default options, as [`warm_all`] uses it.
    pub fn new() -> Self {
        Warmup {
            only: None,
            skip: Vec::new(),
            expected: Vec::new(),
            policy: Policy::default(),
            is_late: false,
            sizes: Sizes::default(),
            progress: None,
            allow_partial: false,
            hooks: true,
            hook_timeout: HOOK_TIMEOUT,
        }
    }

    /// Warms only kernels for which `filter` returns true.
    pub fn only(self, filter: impl Fn(&KernelInfo) -> bool + 'a) -> Self {
        Warmup { only: Some(Box::new(filter)), ..self }
    }

    /// Leaves out these kernels.
    pub fn skip(mut self, kernels: impl IntoIterator<Item = &'static KernelInfo>) -> Self {
        self.skip.extend(kernels);
        self
    }

    /// States crates whose kernels must be registered. If one has none, the warm-up fails with [`WarmError::NotRegistered`] and warms
    /// nothing. Without this, a crate that was not linked, because no code names it, goes unnoticed.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), kernel_registry::MainError> {
    /// # let context = kernel_registry::context(0)?;
    /// let warm = kernel_registry::Warmup::new().expect(["kernels", "attention-kernels"]).warm(&context)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn expect<C: Into<String>>(mut self, crates: impl IntoIterator<Item = C>) -> Self {
        self.expected.extend(crates.into_iter().map(Into::into));
        self
    }

    /// Sets how many threads compile PTX, from 1 to 1024. The default is the number of cores.
    pub fn threads(mut self, threads: usize) -> Self {
        self.policy.threads = Some(threads.clamp(1, 1024));
        self
    }

    /// Compiles each PTX image whole: [large images](warm_all#large-ptx-images) are not cut into pieces. This also holds for
    /// late loads in the context.
    pub fn whole_images(mut self) -> Self {
        self.policy.whole_images = true;
        self
    }

    /// Takes machine code of PTX images from this file, which `cargo kernels bake` made. Late loads in the context use the file, too.
    ///
    /// By default, the environment variable `KERNEL_REGISTRY_BAKED` names the file. If it is not set, the file is next to the program:
    /// `app.baked` for `app`. `KERNEL_REGISTRY_BAKED=0` turns this default off.
    ///
    /// The driver compiles an image for which the file has no code for the device. It compiles all images if the file is damaged, or
    /// if other users can write to it; [`Report::not_baked`] says why. A missing file is an error.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), kernel_registry::MainError> {
    /// # let context = kernel_registry::context(0)?;
    /// let warm = kernel_registry::Warmup::new().baked("/usr/lib/app/app.baked").warm(&context)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn baked(mut self, file: impl AsRef<Path>) -> Self {
        self.policy.baked = Some(file.as_ref().into());
        self
    }

    /// Sets how much device memory larger stacks may take, in bytes. The default is a sixteenth of the free memory.
    pub fn stack_budget(mut self, bytes: u64) -> Self {
        self.policy.stack_budget = Some(bytes);
        self
    }

    /// Sets the least size of the printf buffer, in bytes. The driver fixes the size at the first launch of a kernel with
    /// `printf` or `assert`, and warming launches such a kernel. So only a context's first warm-up can set the size; later
    /// warm-ups fail with [`WarmError::LimitFrozen`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), kernel_registry::MainError> {
    /// # let context = kernel_registry::context(0)?;
    /// let warm = kernel_registry::Warmup::new().printf_fifo(32 << 20).heap(256 << 20).warm(&context)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn printf_fifo(mut self, bytes: u64) -> Self {
        self.sizes.printf_fifo = Some(bytes);
        self
    }

    /// Sets the least size of the heap for `malloc` and `new` in kernels, in bytes. As with
    /// [`printf_fifo`](Self::printf_fifo), only a context's first warm-up can set the size.
    pub fn heap(mut self, bytes: u64) -> Self {
        self.sizes.heap = Some(bytes);
        self
    }

    /// Sets what a launch of a kernel that is not warm does. The default is [`Late::Warn`], unless a warm-up of the context
    /// has set another policy.
    pub fn late(mut self, late: Late) -> Self {
        self.policy.late = Some(late);
        self
    }

    /// Calls this function before each late load in the context, if the policy is [`Late::Warn`]. Without a function, each late
    /// load is a line on standard error. With the feature `tracing` each is also an event.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), kernel_registry::MainError> {
    /// # let context = kernel_registry::context(0)?;
    /// let warmup = kernel_registry::Warmup::new().on_late(|load| eprintln!("late: {}", load.kernel.path()));
    /// let warm = warmup.warm(&context)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_late(mut self, report: impl Fn(&LateLoad) + Send + Sync + 'static) -> Self {
        self.policy.on_late = Some(Arc::new(report));
        self
    }

    /// Calls this function as the warm-up progresses, in the thread that has called [`warm`](Self::warm).
    pub fn progress(self, progress: impl FnMut(Progress) + 'a) -> Self {
        Warmup { progress: Some(Box::new(progress)), ..self }
    }

    /// Lets the warm-up succeed even if kernels or `#[warmup]` functions failed. The report lists these failures.
    pub fn allow_partial(self) -> Self {
        Warmup { allow_partial: true, ..self }
    }

    /// Sets whether [`#[warmup]`](macro@crate::warmup) functions run, once in each context. By default they run.
    pub fn hooks(self, run: bool) -> Self {
        Warmup { hooks: run, ..self }
    }

    /// Sets how long one driver call may wait for the device before the warm-up fails with [`WarmError::TimedOut`]. The default
    /// is 30 seconds, and the least 100 ms, because a call may take as long while the device is free. Compiling and `#[warmup]`
    /// functions do not count. Late loads in the context and [`Warm::recheck`] wait no longer, either.
    ///
    /// While another warm-up runs in the same context, this warm-up waits. It fails when a driver call of the other warm-up has
    /// lasted for this timeout, counted from the beginning of that call.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy.timeout = Some(timeout.max(LEAST_TIMEOUT));
        self
    }

    /// Sets how long one [`#[warmup]`](macro@crate::warmup) function may take before the warm-up fails with
    /// [`WarmError::HookTimedOut`]. The default is five minutes.
    pub fn hook_timeout(self, hook_timeout: Duration) -> Self {
        Warmup { hook_timeout, ..self }
    }

    /// Creates the warm-up of a late load, which warms one kernel with its context's policy.
    pub(crate) fn late_load(kernel: &'static KernelInfo, policy: Policy) -> Self {
        Warmup { policy, is_late: true, hooks: false, ..Warmup::new().only(move |other| other == kernel) }
    }

    /// Makes kernels ready in a context. An image that was compiled for one device is not compiled again for other devices of
    /// the same architecture.
    ///
    /// # Errors
    ///
    /// The same errors as [`warm_all`].
    pub fn warm(mut self, context: &Arc<CudaContext>) -> Result<Warm, WarmError> {
        let begun = Instant::now();
        if let Some(file) = self.policy.baked.as_deref().filter(|file| !self.is_late && !file.exists()) {
            return Err(WarmError::NoBakedFile { file: file.to_owned() });
        }
        expected::check(&self.expected)?;
        let driver = Driver::get()?;
        let plan = Plan::get()?;
        let selected = plan.kernels.iter().filter(|planned| self.selects(planned.info)).collect();
        let id = ContextId::query(context)?;
        if let Some(hook) = hooks::running_for(id) {
            return Err(WarmError::InHook { hook });
        }
        let changes = if self.is_late { &Policy::default() } else { &self.policy };
        let known = KnownContext::find_or_add(context, changes)?;
        let id = known.id;
        let Policy { threads, stack_budget, timeout, whole_images, ref baked, .. } = self.policy;
        let job = Job {
            driver,
            plan,
            selected,
            context: context.clone(),
            known,
            threads: threads.or_else(cores).unwrap_or(1),
            stack_budget,
            whole_images,
            baked: baked.clone(),
            sizes: self.sizes,
            hooks: self.hooks,
            planned_in: begun.elapsed(),
        };

        let caller = trace::Caller::new(job.selected.len());
        let progress = |progress| {
            if let Some(on_progress) = &mut self.progress {
                on_progress(progress);
            }
        };
        let timeouts = Timeouts { device: timeout.unwrap_or(TIMEOUT), hook: self.hook_timeout };
        let overdue_error = |overdue| timed_out(overdue, &timeouts);
        let activity = Activity::new(probe(driver, context));
        job.known.turns.take(&activity, &timeouts).map_err(overdue_error)?;
        let turn = Turn(job.known.clone());
        let work = move |watch: &_| {
            let _turn = turn;
            caller.in_scope(|| stages::run(&job, watch))
        };
        let report = watch::watched(activity, &timeouts, progress, work).map_err(|error| match error {
            NoResult::Overdue(overdue) => overdue_error(overdue),
            NoResult::NoThread(error) => WarmError::NoThread { reason: error.to_string() },
        })??;
        trace::report(&report);
        if report.is_complete() || self.allow_partial {
            Ok(Warm::new(context.clone(), id, report))
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
        let Policy { late, on_late: _, threads, stack_budget, timeout, whole_images, baked } = policy;
        let Sizes { printf_fifo, heap } = sizes;
        f.debug_struct("Warmup")
            .field("threads", threads)
            .field("stack_budget", stack_budget)
            .field("whole_images", whole_images)
            .field("baked", baked)
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

fn cores() -> Option<usize> {
    thread::available_parallelism().map(usize::from).ok()
}

/// Returns the error of a warm-up that stopped waiting.
fn timed_out(overdue: Overdue, timeouts: &Timeouts) -> WarmError {
    match overdue {
        Overdue::Device(call) => {
            WarmError::TimedOut { call: call.name, about: call.about, timeout: timeouts.device }
        }
        Overdue::Hook(hook) => WarmError::HookTimedOut { hook, timeout: timeouts.hook },
    }
}

/// Returns a function that waits for the kernels that run in the context. The caller runs it in a separate thread.
fn probe(driver: &'static Driver, context: &Arc<CudaContext>) -> impl Fn() + Send + Sync + 'static {
    let context = context.clone();
    move || {
        // A failed call counts, too: it has returned, so it does not wait for the device.
        let Ok(current) = Current::new(&context, driver) else { return };
        let _ = prime::wait_for_all(&current);
    }
}
