//! Defines `Resident`, the launch of a resident kernel with its options, and the check whether it fits.

mod checked;
mod error;
mod figures;
mod fit;
mod room;
mod section;

use std::marker::PhantomData;
use std::time::Duration;
use std::{env, fmt};

use kernel_registry::__private_0_1::resident::{Current, Driver, Family, Known, prepare};
use kernel_registry::{Kernel, KernelInfo, LaunchConfig, Param, Pass, Untyped, Warm};
use kernel_registry_cuda::OnWait;

use crate::partition::Part;
use crate::sections::{self, Processors};
use room::fits;
use section::Options;

pub use checked::{Checked, Starting};
pub use error::{ResidentError, SectionError};
pub use fit::{Companion, Fit};
pub use section::Section;

/// The launch of a resident kernel with its options, before it's checked.
///
/// See the [crate](crate) for an example.
#[must_use = "nothing is launched before `check` and `launch`"]
pub struct Resident<K = Untyped> {
    kernel: &'static KernelInfo,
    config: LaunchConfig,
    companions: Vec<(&'static KernelInfo, LaunchConfig)>,
    all: bool,
    except: Vec<&'static KernelInfo>,
    /// Whether the kernel's typed `launch` is used, which takes cudarc's slices for parameters declared as
    /// slices.
    typed: bool,
    carveout: Option<u32>,
    /// The multiprocessors of the kernel's part, if it runs in one.
    part: Option<Processors>,
    limit: Option<Duration>,
    on_wait: OnWait,
    stop_within: Duration,
    _kernel: PhantomData<fn() -> K>,
}

/// How long [`Section::stop`] waits for the kernel by default.
const STOP_WITHIN: Duration = Duration::from_secs(5);

impl<K: Kernel> Resident<K> {
    /// Creates a launch of the kernel `K`.
    pub fn new(config: impl Into<LaunchConfig>) -> Self {
        Self::launch_of(K::INFO, config.into(), true)
    }
}

impl Resident<Untyped> {
    /// Creates a launch of a kernel that is only known at run time.
    pub fn untyped(kernel: &'static KernelInfo, config: impl Into<LaunchConfig>) -> Self {
        Self::launch_of(kernel, config.into(), false)
    }
}

impl<K> Resident<K> {
    fn launch_of(kernel: &'static KernelInfo, config: LaunchConfig, typed: bool) -> Self {
        Resident {
            kernel,
            config,
            companions: Vec::new(),
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

    /// Adds a kernel that is launched while the resident kernel runs. It only needs room for one block,
    /// because its blocks can run one after the other, so the size of its grid doesn't matter.
    pub fn beside(mut self, kernel: &'static KernelInfo, config: impl Into<LaunchConfig>) -> Self {
        self.companions.push((kernel, config.into()));
        self
    }

    /// Adds all kernels that are warm in the context, each with the `block` and `shared` of its declaration.
    /// A kernel without a declared block is checked with the smallest and the largest block that it can have.
    pub fn beside_all(self) -> Self {
        Resident { all: true, ..self }
    }

    /// Leaves kernels out of [`beside_all`](Self::beside_all), because they aren't launched while the
    /// resident kernel runs.
    pub fn except(mut self, kernels: impl IntoIterator<Item = &'static KernelInfo>) -> Self {
        self.except.extend(kernels);
        self
    }

    /// Sets the kernel's preferred carve-out, in percent. By default it's 100 if another kernel needs that to
    /// run alongside, and otherwise the driver chooses. The carve-out stays set for later launches of the
    /// kernel.
    pub fn carveout(self, percent: u32) -> Self {
        Resident { carveout: Some(percent.min(100)), ..self }
    }

    /// Launches the kernel in this part of the device. The launch must use a stream of the part. Then only
    /// kernels that are launched in the same part have to fit alongside.
    pub fn within(self, part: &Part) -> Self {
        Resident { part: Some(part.processors()), ..self }
    }

    /// Ends the kernel after this time, if the kernel uses the control block of its [`Starting`]. By default
    /// the kernel runs until its section ends.
    pub fn limit(self, time: Duration) -> Self {
        Resident { limit: Some(time), ..self }
    }

    /// Sets what an audit does with other code's calls that would wait for the kernel. The default is
    /// [`OnWait::Defer`]. Calls of this library are always refused, or deferred if they free something.
    pub fn on_wait(self, on_wait: OnWait) -> Self {
        Resident { on_wait, ..self }
    }

    /// Sets how long [`Section::stop`], or dropping the section, waits for the kernel to end. The default is
    /// 5 seconds.
    pub fn stop_within(self, time: Duration) -> Self {
        Resident { stop_within: time, ..self }
    }

    /// Checks that the kernel can be resident, without launching it:
    ///
    /// - the kernel and those that run alongside are [still warm](Warm::recheck) in the receipt's context;
    /// - all blocks of the kernel fit on the device at once, together with the resident kernels that already
    ///   run there;
    /// - a block of each kernel that runs alongside fits too;
    /// - nothing in the kernel's declaration or in the environment makes the host wait for the kernel.
    ///
    /// The check takes less than a millisecond. `docs/resident.md` says how certain the answer is. The check
    /// does not know of kernels of other programs on the device.
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
            let is_slice = |param: &Param<'_>| matches!(param.pass, Pass::Slice | Pass::SliceMut);
            if let Some(param) = self.kernel.params().iter().find(is_slice) {
                return Err(ResidentError::TrackedSlice { kernel, param: param.name, ty: param.ty });
            }
        }
        warm.recheck().map_err(not_warm)?;
        let known = Known::find(warm).map_err(not_warm)?;
        let unknown = ResidentError::UnknownDevice { kernel, arch: known.arch };
        let mut room = known.room.clone().ok_or(unknown)?;
        let whole = Processors { device: known.ordinal, part: None, count: room.processors };
        let on = self.part.unwrap_or(whole);
        room.processors = on.count;

        let driver = Driver::get().map_err(|error| ResidentError::DriverUnavailable { kernel, error })?;
        let current = Current::new(warm.context(), driver);
        let current = current.map_err(|error| ResidentError::Driver { kernel, error })?;
        let mut figures = self.figures(&known, &current)?;
        drop(current);
        let prepared = prepare::<K>(self.kernel, warm.context(), self.config)?;
        let residents = sections::residents(on);
        let mut fit = fits(&figures, &room, on, &residents)?;
        if self.carveout.is_none() && fit.is_refused() {
            let mut carved = figures.clone();
            carved.launch.carveout = Some(100);
            // If a larger carve-out does not help, the first answer is kept, which says why the kernels do
            // not fit.
            if let Ok(better) = fits(&carved, &room, on, &residents)
                && !better.is_refused()
            {
                (figures, fit) = (carved, better);
            }
        }
        if fit.is_refused() {
            return Err(ResidentError::NoRoom { kernel, fit: Box::new(fit) });
        }
        let within = Family::new(warm.context(), known.id);
        let Resident { limit, on_wait, stop_within, .. } = self;
        let options = Options { limit, on_wait, stop_within };
        Ok(Checked { prepared, figures, room, residents, fit, on, within, options })
    }
}

impl<K> Clone for Resident<K> {
    fn clone(&self) -> Self {
        let Resident { ref companions, ref except, .. } = *self;
        Resident { companions: companions.clone(), except: except.clone(), ..*self }
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
