//! The state that all stages of a warm-up share.

use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use cudarc::driver::CudaContext;
use cudarc::driver::sys::CUresult;
use kernel_registry_cuda::prime::Primed;

use super::failure::{Cause, Failure, HookFailure};
use super::not_baked::NotBaked;
use super::plan::{Plan, Planned};
use super::progress::{Progress, Stage};
use super::{prime, ptx_version, trace};
use crate::contexts::{Device, KnownContext, Loaded, WarmKernel};
use crate::driver::{ContextId, Current, Driver, DriverCallError, LoadError};
use crate::watch::Watch;

/// The task of a warm-up: which kernels to warm, in which context, with which options.
pub(super) struct Job {
    pub(super) driver: &'static Driver,
    pub(super) plan: &'static Plan,
    pub(super) selected: Vec<&'static Planned>,
    pub(super) context: Arc<CudaContext>,
    /// The context's entry in the registry of contexts.
    pub(super) known: Arc<KnownContext>,
    pub(super) threads: usize,
    pub(super) stack_budget: Option<u64>,
    /// Whether images are compiled whole, and not cut into pieces.
    pub(super) whole_images: bool,
    /// The file of baked code, if the application names one.
    pub(super) baked: Option<Arc<Path>>,
    pub(super) sizes: Sizes,
    /// Whether `#[warmup]` functions run.
    pub(super) hooks: bool,
    pub(super) planned_in: Duration,
}

/// The least sizes that the application asks for, in bytes, of the printf buffer and the heap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    pub(super) printf_fifo: Option<u64>,
    pub(super) heap: Option<u64>,
}

/// A job in progress.
pub(super) struct Work<'w> {
    pub(super) job: &'w Job,
    pub(super) watch: &'w Watch<Progress>,
    pub(super) current: Current<'w>,
    pub(super) device: &'w Device,
    pub(super) loaded: MutexGuard<'w, Loaded>,
    /// Bytes of device memory that were free at the start.
    pub(super) free: u64,
    pub(super) failures: Vec<Failure>,
    pub(super) hook_failures: Vec<HookFailure>,
    /// The file of baked code that was used.
    pub(super) baked: Option<String>,
    pub(super) not_baked: Vec<NotBaked>,
    pub(super) stages: Vec<(Stage, Duration)>,
}

/// A kernel that is being warmed.
pub(super) struct Candidate {
    pub(super) planned: &'static Planned,
    /// The result. Each stage fills in a part of it, and the stage `verify` moves it to the warm kernels.
    pub(super) kernel: WarmKernel,
}

impl Job {
    /// Makes the context current, and queries its device. `loaded` stays locked until the work ends.
    pub(super) fn begin<'w>(
        &'w self,
        loaded: MutexGuard<'w, Loaded>,
        watch: &'w Watch<Progress>,
    ) -> Result<Work<'w>, DriverCallError> {
        let current = Current::new(&self.context, self.driver)?;
        // The context may have been reset since the warm-up began, and another thread may have noticed.
        if loaded.forgotten || ContextId::query(&self.context)? != self.known.id {
            let destroyed = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
            return Err(DriverCallError::new("cuCtxGetId", destroyed));
        }
        self.known.rehome(&self.context, &loaded);
        let device = Device::get_or_query(&self.known.device, &current)?;
        let free = current.free_memory()?;
        let stages = vec![(Stage::Plan, self.planned_in)];
        Ok(Work {
            job: self,
            watch,
            current,
            device,
            loaded,
            free,
            failures: Vec::new(),
            hook_failures: Vec::new(),
            baked: None,
            not_baked: Vec::new(),
            stages,
        })
    }
}

impl Work<'_> {
    /// Runs a stage, and records how long the stage took.
    pub(super) fn stage<T>(&mut self, stage: Stage, work: impl FnOnce(&mut Self) -> T) -> T {
        self.watch.event(Progress { stage, done: 0, of: 0 });
        let since = Instant::now();
        let result = trace::stage(stage, || work(self));
        self.stages.push((stage, since.elapsed()));
        result
    }

    pub(super) fn failed(&mut self, planned: &Planned, cause: Cause) {
        let kernel = &planned.kernel;
        let cause = match cause {
            Cause::NoVariant { error } if error.is(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION) => {
                match ptx_version::newest(planned.info.image_bytes()) {
                    Some(ptx) => Cause::NewPtx { error, ptx, driver: self.job.driver.version },
                    None => Cause::NoVariant { error },
                }
            }
            cause => cause,
        };
        self.failures.push(Failure {
            kernel: kernel.path,
            place: planned.info.location(),
            image: kernel.image.map(|image| image.file),
            variants: kernel.image.map_or("", |image| image.variants),
            arch: self.device.arch,
            cause,
        });
    }

    /// Returns what the context must still set up for these kernels.
    pub(super) fn needs(&self, pending: &[&Planned]) -> Primed {
        // A launch is needed even if no kernel is pending: the stack limit may have been raised for kernels that were warm
        // before.
        let launch = if self.loaded.is_used() { Primed::LAUNCH } else { Primed::default() };
        let needs = pending.iter().map(|planned| prime::needs(planned)).fold(launch, Primed::or);
        needs.but_not(self.loaded.primed)
    }

    /// Launches this library's own kernels, so that the context sets up these needs.
    pub(super) fn set_up(&mut self, needs: Primed) -> Result<(), LoadError> {
        prime::prime(&self.current, self.device.arch, needs, self.watch, &mut self.loaded.ours)?;
        self.loaded.primed = self.loaded.primed.or(needs);
        if needs != Primed::default() {
            self.loaded.stack_at_launch = self.current.stack_limit()?;
        }
        Ok(())
    }
}
