//! Resident kernels: checked before the launch, and guarded while they are on the device.
//!
//! A resident kernel, such as a worker that takes tasks from a queue, is launched as a [`Resident`]. [`Resident::check`] finds
//! out before whether all of its blocks, and a block of each kernel named beside it, fit on the device at once. The launch
//! returns a [`Section`], which refuses calls that would wait for the kernel:
//!
//! ```no_run
//! # mod demo {
//! use kernel_registry::{KernelParam, gpu_kernel};
//! use kernel_registry::resident::{Control, Queue};
//!
//! #[derive(Clone, Copy, KernelParam)]
//! #[repr(C)]
//! pub struct Task {
//!     pub x: *const f32,
//!     pub n: u32,
//! }
//!
//! #[gpu_kernel(image = "tests/images/resident.ptx")]
//! pub unsafe fn consumer(control: *mut Control, queue: *mut Queue<Task>);
//! # #[gpu_kernel(image = "tests/images/saxpy.ptx", block = 256)]
//! # pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
//! # }
//! # use demo::{Task, consumer, saxpy};
//! use std::time::Duration;
//! # use kernel_registry::resident::Queue;
//! use kernel_registry::resident::Resident;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = kernel_registry::context(0)?;
//! let warm = kernel_registry::warm_all(&context)?;
//! let mut queue = Queue::<Task>::for_blocks(&context, 66, 2)?;
//!
//! let resident = Resident::<consumer>::new(consumer::config(66).block(128)).beside(saxpy::INFO, saxpy::over(1000));
//! let resident = resident.check(&warm)?;
//! println!("{}", resident.fit());
//! let stream = context.new_stream()?;
//! // SAFETY: the queue is freed when no kernel stays any more.
//! let section = resident.launch(&stream, |launch| unsafe { consumer::launch(&stream, launch, launch.control(), &queue) })?;
//! section.wait_for_blocks(Duration::from_secs(1))?;
//! queue.push(Task { x: std::ptr::null(), n: 0 })?;
//! // Launch `saxpy` in other streams, copy ..
//! section.stop()?;
//! # Ok(())
//! # }
//! ```
//!
//! `docs/resident.md` says how to write such a kernel.
//!
//! # Not settled
//!
//! This is the newest part of the library. Until it is settled, any minor version may change or remove what is here; the rest of the
//! library does not depend on it.

mod checked;
mod error;
mod fit;
mod section;

use std::marker::PhantomData;
use std::time::Duration;
use std::{env, fmt};

use kernel_registry_cuda::fit::{Device, Launch as Figure};

use crate::contexts::{KnownContext, Loaded, WarmKernel};
use crate::driver::{Current, Driver};
use crate::sections::{self, Family, Processors, ResidentGrid};
use crate::{Kernel, KernelInfo, LaunchConfig, LaunchError, Pass, Prepared, RecheckError, Untyped, Warm};
use fit::{Beside, CannotRun, Figures};

pub use crate::control::{Control, Ended, Missing, Presence};
pub use crate::mapped::Mapped;
pub use crate::partition::{Part, Partition, PartitionError};
pub use crate::queue::{Full, Pushed, Queue, Unfinished};
pub use crate::sections::WouldWait;
pub use checked::{Checked, Starting};
pub use error::{ResidentError, SectionError};
pub use fit::{Companion, Fit};
pub use kernel_registry_cuda::OnWait;
pub use kernel_registry_cuda::fit::{Limit, Refused, Shortage};
pub use section::Section;

/// The launch of a resident kernel, before it is checked.
///
/// See the [module](self) for an example.
#[must_use = "nothing is launched before `check` and `launch`"]
pub struct Resident<K = Untyped> {
    kernel: &'static KernelInfo,
    config: LaunchConfig,
    beside: Vec<(&'static KernelInfo, LaunchConfig)>,
    all: bool,
    except: Vec<&'static KernelInfo>,
    /// Whether the launch takes slices of cudarc for parameters that are declared as slices.
    typed: bool,
    carveout: Option<u32>,
    /// The multiprocessors of a part.
    part: Option<Processors>,
    limit: Option<Duration>,
    on_wait: OnWait,
    stop_within: Duration,
    _kernel: PhantomData<fn() -> K>,
}

/// How long [`Section::stop`] waits for the kernel.
const STOP_WITHIN: Duration = Duration::from_secs(5);

impl<K: Kernel> Resident<K> {
    /// A launch of the kernel `K`.
    pub fn new(config: impl Into<LaunchConfig>) -> Self {
        Self::launch_of(K::INFO, config.into(), true)
    }
}

impl Resident<Untyped> {
    /// A launch of a kernel that is known only at run time.
    pub fn of(kernel: &'static KernelInfo, config: impl Into<LaunchConfig>) -> Self {
        Self::launch_of(kernel, config.into(), false)
    }
}

impl<K> Resident<K> {
    fn launch_of(kernel: &'static KernelInfo, config: LaunchConfig, typed: bool) -> Self {
        Resident {
            kernel,
            config,
            beside: Vec::new(),
            all: false,
            except: Vec::new(),
            typed,
            carveout: None,
            part: None,
            limit: None,
            on_wait: OnWait::default(),
            stop_within: STOP_WITHIN,
            _kernel: PhantomData,
        }
    }

    /// A kernel that is launched while this one runs. The size of its grid does not matter, if it is one that can be launched: its
    /// blocks run one after the other if not at once.
    pub fn beside(mut self, kernel: &'static KernelInfo, config: impl Into<LaunchConfig>) -> Self {
        self.beside.push((kernel, config.into()));
        self
    }

    /// All kernels that are warm in the context, each with the `block` and `shared` of its declaration. One that declares no block is
    /// checked with the smallest and with the largest that it can have.
    pub fn beside_all(self) -> Self {
        Resident { all: true, ..self }
    }

    /// Leaves kernels out of [`beside_all`](Self::beside_all), which are not launched while this one runs.
    pub fn except(mut self, kernels: impl IntoIterator<Item = &'static KernelInfo>) -> Self {
        self.except.extend(kernels);
        self
    }

    /// The carve-out that the kernel prefers, in percent. By default it is 100 if a kernel beside it needs that, and the driver's
    /// choice otherwise. It stays set for later launches of the kernel.
    pub fn carveout(self, percent: u32) -> Self {
        Resident { carveout: Some(percent.min(100)), ..self }
    }

    /// Launches the kernel in this part of the device, by one of its streams. The kernels beside it are those that are launched in the same
    /// part.
    pub fn within(self, part: &Part) -> Self {
        Resident { part: Some(part.processors()), ..self }
    }

    /// Ends the kernel after this time, if it uses the control block of its [`Starting`]. By default it stays until its section ends.
    pub fn limit(self, time: Duration) -> Self {
        Resident { limit: Some(time), ..self }
    }

    /// What an audit does with calls of other code that would wait for the kernel. [`OnWait::Defer`] by default. Calls of this library
    /// are refused in any case, or deferred if they free something.
    pub fn on_wait(self, on_wait: OnWait) -> Self {
        Resident { on_wait, ..self }
    }

    /// How long [`Section::stop`], or its drop, waits for the kernel to end. 5 seconds by default.
    pub fn stop_within(self, time: Duration) -> Self {
        Resident { stop_within: time, ..self }
    }

    /// Checks that the kernel can stay, without launching it:
    ///
    /// - it and the kernels beside it are [still warm](Warm::recheck) in the receipt's context;
    /// - all of its blocks are on the device at once, beside the resident kernels that are there already;
    /// - a block of each kernel beside it finds room;
    /// - nothing of its declaration or of the environment makes the host wait.
    ///
    /// It takes less than a millisecond. How certain the answer is, and what it does not know (kernels of other programs on the
    /// device), is in `docs/resident.md`.
    ///
    /// # Errors
    ///
    /// [`ResidentError`] says what is wrong, with numbers and a remedy.
    pub fn check(self, warm: &Warm) -> Result<Checked<K>, ResidentError> {
        let kernel = self.kernel.path();
        let not_warm = |error| ResidentError::NotWarm { kernel, error };
        if env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|value| value != "0" && !value.is_empty()) {
            return Err(ResidentError::LaunchBlocking { kernel });
        }
        if self.typed && warm.context().is_event_tracking() {
            let is_slice = |param: &crate::Param<'_>| matches!(param.pass, Pass::Slice | Pass::SliceMut);
            if let Some(param) = self.kernel.params().iter().find(is_slice) {
                return Err(ResidentError::TrackedSlice { kernel, param: param.name, ty: param.ty });
            }
        }
        warm.recheck().map_err(not_warm)?;
        let known = KnownContext::find(warm.id()).ok_or_else(|| not_warm(RecheckError::Reset))?;
        let device = known.device.get().ok_or_else(|| not_warm(RecheckError::Reset))?;
        let unknown = ResidentError::UnknownDevice { kernel, arch: device.arch };
        let mut room = device.room.clone().ok_or(unknown)?;
        let whole = Processors { device: known.ordinal, part: None, count: room.processors };
        let on = self.part.unwrap_or(whole);
        room.processors = on.count;

        let driver = Driver::get().map_err(|error| ResidentError::DriverUnavailable { kernel, error })?;
        let current = Current::new(warm.context(), driver);
        let current = current.map_err(|error| ResidentError::Driver { kernel, error })?;
        let loaded = known.lock_within(crate::warm::MOMENT).ok_or_else(|| not_warm(RecheckError::Warming))?;
        let mut figures = self.figures(&known, &loaded, &current)?;
        drop((loaded, current));
        let prepared = Prepared::<K>::checked(self.kernel, warm.context(), self.config)?;
        let stay = sections::residents(on);
        let mut fit = fits(&figures, &room, on, &stay)?;
        if self.carveout.is_none() && fit.is_refused() {
            let mut carved = figures.clone();
            carved.launch.carveout = Some(100);
            // If that does not help, the first answer says why.
            if let Ok(better) = fits(&carved, &room, on, &stay)
                && !better.is_refused()
            {
                (figures, fit) = (carved, better);
            }
        }
        if fit.is_refused() {
            return Err(ResidentError::NoRoom { kernel, fit: Box::new(fit) });
        }
        let within = Family::of(warm.context(), warm.id());
        let Resident { limit, on_wait, stop_within, .. } = self;
        let options = Options { limit, on_wait, stop_within };
        Ok(Checked { prepared, figures, room, stay, fit, on, within, options })
    }

    /// The figures of all kernels, as the driver told them when they were warmed, with the carve-outs that were set since.
    fn figures(
        &self,
        known: &KnownContext,
        loaded: &Loaded,
        current: &Current<'_>,
    ) -> Result<Figures, ResidentError> {
        let kernel = self.kernel.path();
        let not_warm = |kernel: &'static KernelInfo| {
            let needs = kernel
                .table()
                .find(known.ordinal, known.id)
                .map_or(0, |found| found.limits.unavailable_below);
            let arch = known.device.get().map_or(0, |device| device.arch);
            if needs > 0 {
                LaunchError::Unavailable { kernel, needs, arch }
            } else {
                LaunchError::NotWarm { kernel }
            }
        };
        let warm = |kernel| {
            let mut there = loaded.kernels.values().filter(|_| !loaded.forgotten);
            there.find(|warm| warm.info == kernel).ok_or_else(|| not_warm(kernel))
        };
        let stays = warm(self.kernel)?;
        if !stays.report.stack_known {
            return Err(ResidentError::UnknownStack { kernel, of: kernel });
        }
        let launch = Figure { carveout: self.carveout, ..stays.figure(&self.config) };
        let mut beside = Vec::new();
        let mut add = |other: &WarmKernel, launches: Vec<Figure>| {
            if !other.report.stack_known {
                return Err(ResidentError::UnknownStack { kernel, of: other.report.path });
            }
            let carveout = current.carveout(other.function);
            let carveout = carveout.map_err(|error| ResidentError::Driver { kernel, error })?;
            let launches = launches.into_iter().map(|launch| Figure { carveout, ..launch }).collect();
            beside.push(Beside { kernel: other.report.path, launches });
            Ok(())
        };
        for (kernel, config) in &self.beside {
            let other = warm(kernel)?;
            crate::launch::check(kernel, config, &other.limits)?;
            add(other, vec![other.beside(config)])?;
        }
        if self.all {
            let named = |info| self.beside.iter().any(|(kernel, _)| *kernel == info);
            let left_out = |info| info == self.kernel || self.except.contains(&info) || named(info);
            for other in loaded.kernels.values().filter(|other| !left_out(other.info)) {
                add(other, other.launches())?;
            }
        }
        Ok(Figures { kernel, launch, beside })
    }
}

/// What the section needs of a [`Resident`].
#[derive(Clone, Copy, Debug)]
struct Options {
    limit: Option<Duration>,
    on_wait: OnWait,
    stop_within: Duration,
}

/// A warm kernel, in the figures that decide what fits.
impl WarmKernel {
    fn figure(&self, config: &LaunchConfig) -> Figure {
        let product = |size: [u32; 3]| size.into_iter().map(u64::from).fold(1, u64::saturating_mul);
        let WarmKernel { report, limits, .. } = self;
        let fixed = (limits.cluster != [0; 3]).then(|| limits.cluster.map(u32::from));
        let cluster = fixed.or(config.cluster).map_or(1, product);
        Figure {
            grid: product(config.grid),
            threads: u32::try_from(product(config.block)).unwrap_or(u32::MAX),
            registers: report.registers,
            static_shared: report.static_shared,
            dynamic_shared: config.shared,
            cluster: u32::try_from(cluster).unwrap_or(u32::MAX),
            carveout: None,
        }
    }

    /// The smallest launch with these blocks.
    fn beside(&self, config: &LaunchConfig) -> Figure {
        let figure = self.figure(config);
        Figure { grid: figure.cluster.into(), ..figure }
    }

    /// Its launches as it is declared: without a block those of the smallest and of the largest.
    fn launches(&self) -> Vec<Figure> {
        const WARP: u32 = 32;
        let config = self.info.config(1);
        if config.block != [0; 3] {
            return vec![self.beside(&config)];
        }
        let most = self.limits.threads;
        [WARP.min(most), most].map(|threads| self.beside(&config.block(threads))).into()
    }
}

/// What fits, unless the whole grid does not.
fn fits(
    figures: &Figures,
    room: &Device,
    on: Processors,
    stay: &[ResidentGrid],
) -> Result<Fit, ResidentError> {
    let launches: Vec<_> = stay.iter().map(|grid| grid.launch_on(on)).collect();
    let fit = figures.fit(room, &launches);
    let (residency, fit) =
        fit.map_err(|CannotRun { kernel, why }| ResidentError::CannotRun { kernel, why })?;
    if residency.fits() {
        return Ok(fit);
    }
    Err(ResidentError::GridTooLarge {
        kernel: figures.kernel,
        grid: residency.grid,
        capacity: residency.capacity,
        limit: residency.limit,
        beside: stay.iter().map(|grid| grid.kernel).collect(),
    })
}

impl<K> Clone for Resident<K> {
    fn clone(&self) -> Self {
        let Resident { ref beside, ref except, .. } = *self;
        Resident { beside: beside.clone(), except: except.clone(), ..*self }
    }
}

impl<K> fmt::Debug for Resident<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resident")
            .field("kernel", &self.kernel.path())
            .field("config", &self.config)
            .field("on_wait", &self.on_wait)
            .field("stop_within", &self.stop_within)
            .finish_non_exhaustive()
    }
}
