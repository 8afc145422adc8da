//! A warm-up with options.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fmt, mem};

use candle_core::{CudaDevice, DType, Device};
use kernel_registry::KernelInfo;

use crate::dtype;
use crate::error::Error;
use crate::modules::{self, Module};
use crate::report::Report;

/// A warm-up with options. [`warm_all`](crate::warm_all) is the warm-up with default options.
///
/// ```no_run
/// use candle_core::{DType, Device, Tensor};
/// use kernel_registry_candle::Warmup;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::new_cuda(0)?;
/// let report = Warmup::new()
///     .dtypes(&[DType::BF16, DType::F32])
///     .only(|kernel| !kernel.path().starts_with("candle_kernels::quantized::"))
///     .hook(|device| {
///         let ones = Tensor::ones((1, 512), DType::BF16, device)?;
///         ones.matmul(&ones.t()?)?; // The first use of cuBLAS.
///         Ok(())
///     })
///     .warm(&device)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is warmed before `warm` is called"]
#[derive(Default)]
pub struct Warmup<'a> {
    dtypes: Option<Vec<DType>>,
    only: Option<Filter<'a>>,
    baked: Option<PathBuf>,
    options: Option<Options<'a>>,
    hooks: Vec<Hook<'a>>,
}

type Filter<'a> = Box<dyn Fn(&KernelInfo) -> bool + 'a>;
type Hook<'a> = Box<dyn FnMut(&Device) -> candle_core::Result<()> + 'a>;
type Options<'a> = Box<dyn for<'w> Fn(kernel_registry::Warmup<'w>) -> kernel_registry::Warmup<'w> + 'a>;

impl<'a> Warmup<'a> {
    /// Creates a warm-up with default options.
    pub fn new() -> Self {
        Warmup::default()
    }

    /// Warms only kernels of candle for these floating point types, as the kernels' names tell. Kernels for integers, and kernels that
    /// name no type, are warmed too.
    ///
    /// A model computes with more types than that of its weights: candle's models use `F32` for norms and rotations. A kernel that was left
    /// out is loaded at its first use, and reported as a [late load](kernel_registry::Late).
    pub fn dtypes(self, dtypes: &[DType]) -> Self {
        Warmup { dtypes: Some(dtypes.to_vec()), ..self }
    }

    /// Warms only kernels of candle for which `filter` returns true. Their paths are `candle_kernels::affine::affine_f32`.
    pub fn only(self, filter: impl Fn(&KernelInfo) -> bool + 'a) -> Self {
        Warmup { only: Some(Box::new(filter)), ..self }
    }

    /// Takes machine code from this file: see [`kernel_registry::Warmup::baked`]. Without this, a file beside the program is taken.
    pub fn baked(self, file: impl AsRef<Path>) -> Self {
        Warmup { baked: Some(file.as_ref().to_owned()), ..self }
    }

    /// Sets further options of kernel-registry: `options(|warmup| warmup.threads(8))`.
    pub fn options(
        self,
        options: impl for<'w> Fn(kernel_registry::Warmup<'w>) -> kernel_registry::Warmup<'w> + 'a,
    ) -> Self {
        Warmup { options: Some(Box::new(options)), ..self }
    }

    /// Calls this function when the kernels are warm: for example with one forward pass of the model, so that libraries such as
    /// cuBLAS are ready, too. It is called once for each device. Afterwards the device is idle.
    pub fn hook(mut self, hook: impl FnMut(&Device) -> candle_core::Result<()> + 'a) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }

    /// Makes kernels ready on a device, and gives candle its modules.
    ///
    /// # Errors
    ///
    /// The same errors as [`warm_all`](crate::warm_all), and those of hooks.
    pub fn warm(mut self, device: &impl OnCuda) -> Result<Report, Error> {
        self.warm_one(device.cuda()?)
    }

    /// Makes kernels ready on several devices, one after the other. PTX is compiled once for all devices of one architecture.
    ///
    /// # Errors
    ///
    /// The same errors as [`warm`](Self::warm). After an error the remaining devices are not warmed.
    pub fn warm_each<'d, D: OnCuda + 'd>(
        mut self,
        devices: impl IntoIterator<Item = &'d D>,
    ) -> Result<Vec<Report>, Error> {
        devices.into_iter().map(|device| self.warm_one(device.cuda()?)).collect()
    }

    fn warm_one(&mut self, device: &CudaDevice) -> Result<Report, Error> {
        let mut begun = Instant::now();
        let mut lap = || {
            let now = Instant::now();
            now - mem::replace(&mut begun, now)
        };
        let modules = modules::register()?;
        let registered_in = lap();
        let stream = device.cuda_stream();
        let warm = self.registry(modules).warm(stream.context())?;
        let warmed_in = lap();
        let warm_paths: HashSet<&str> = warm.report().kernels.iter().map(|kernel| kernel.path).collect();
        let mut taken = 0;
        for Module { module, kernels } in modules {
            let is_warm = |kernel: &&&'static KernelInfo| warm_paths.contains(kernel.path());
            let Some(kernel) = kernels.iter().find(is_warm) else { continue };
            let got = device.get_or_load_func(kernel.symbol(), module);
            got.map_err(|error| Error::Candle { kernel: kernel.path(), error })?;
            taken += 1;
        }
        let taken_in = lap();
        let hooks_in = if self.hooks.is_empty() {
            Duration::ZERO
        } else {
            self.run_hooks(&Device::Cuda(device.clone())).map_err(Error::Hook)?;
            // The hooks may have changed limits of the context, and the next launch would wait for that.
            self.registry(modules).warm(stream.context())?;
            lap()
        };
        let registry = warm.report().clone();
        Ok(Report { registry, modules: taken, registered_in, warmed_in, taken_in, hooks_in })
    }

    fn run_hooks(&mut self, device: &Device) -> candle_core::Result<()> {
        self.hooks.iter_mut().try_for_each(|hook| hook(device))?;
        device.synchronize()
    }

    /// Returns the registry's warm-up.
    fn registry<'w>(&'w self, modules: &'static [Module]) -> kernel_registry::Warmup<'w> {
        let mut warmup = kernel_registry::Warmup::new();
        if self.dtypes.is_some() || self.only.is_some() {
            warmup = warmup.only(|kernel| self.selects(kernel, modules));
        }
        if let Some(file) = &self.baked {
            warmup = warmup.baked(file);
        }
        match &self.options {
            Some(options) => options(warmup),
            None => warmup,
        }
    }

    fn selects(&self, kernel: &KernelInfo, modules: &[Module]) -> bool {
        let is_candles = modules.iter().any(|module| module.kernels.contains(&kernel));
        let has_dtype = || self.dtypes.as_ref().is_none_or(|dtypes| dtype::is_for(kernel.symbol(), dtypes));
        !is_candles || has_dtype() && self.only.as_ref().is_none_or(|only| only(kernel))
    }
}

impl fmt::Debug for Warmup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warmup { dtypes, baked, .. } = self;
        f.debug_struct("Warmup").field("dtypes", dtypes).field("baked", baked).finish_non_exhaustive()
    }
}

/// A device of candle that may be a CUDA device: [`Device`] or [`CudaDevice`].
pub trait OnCuda {
    /// Returns the CUDA device.
    ///
    /// # Errors
    ///
    /// It is another device.
    fn cuda(&self) -> Result<&CudaDevice, Error>;
}

impl OnCuda for Device {
    fn cuda(&self) -> Result<&CudaDevice, Error> {
        self.as_cuda_device().map_err(|_| Error::NotCuda)
    }
}

impl OnCuda for CudaDevice {
    fn cuda(&self) -> Result<&CudaDevice, Error> {
        Ok(self)
    }
}
