//! `Loaded`, a kernel that kernel-registry has warmed or that cudarc has loaded, which is launched in the same way.

use std::sync::Arc;

use kernel_registry::cudarc::driver::{self, CudaContext, CudaFunction, CudaStream, PushKernelArg};
use kernel_registry::cudarc::nvrtc::Ptx;
use kernel_registry::{KernelInfo, LaunchConfig, Prepared};

use crate::Outcome;

/// A kernel that is ready to launch.
#[derive(Clone, Debug)]
pub enum Loaded {
    /// A kernel that kernel-registry has warmed.
    Warm(&'static KernelInfo),
    /// A kernel that was loaded by cudarc's `load_module` and `load_function`, as in programs without kernel-registry.
    ByHand(CudaFunction),
}

impl Loaded {
    /// Loads a kernel with cudarc alone.
    pub fn by_hand(context: &Arc<CudaContext>, kernel: &KernelInfo) -> Outcome<Self> {
        let image = kernel.image().ok_or("the kernel has no image: build with a CUDA compiler")?;
        let mut image = image.bytes().to_vec();
        // The driver reads PTX up to a zero byte, which the image lacks.
        image.push(0);
        let module = context.load_module(Ptx::from_binary(image))?;
        Ok(Loaded::ByHand(module.load_function(kernel.symbol())?))
    }

    /// Launches the kernel.
    ///
    /// # Safety
    ///
    /// Each argument begins with the bytes of a value of its parameter's type. The memory that an argument refers to exists until the
    /// kernel has ended.
    pub unsafe fn launch(&self, stream: &Arc<CudaStream>, config: LaunchConfig, args: &[u64]) -> Outcome {
        match self {
            Loaded::Warm(kernel) => {
                let mut args: Vec<_> = args.iter().map(|arg| (&raw const *arg).cast_mut().cast()).collect();
                let prepared = Prepared::untyped(kernel, stream.context(), config)?;
                // SAFETY: the caller's promise.
                unsafe { prepared.launch(stream, &mut args)? };
            }
            Loaded::ByHand(function) => {
                let mut launch = stream.launch_builder(function);
                args.iter().for_each(|arg| {
                    launch.arg(arg);
                });
                let LaunchConfig { grid, block, shared, .. } = config;
                let config = driver::LaunchConfig {
                    grid_dim: grid.into(),
                    block_dim: block.into(),
                    shared_mem_bytes: shared,
                };
                // SAFETY: the caller's promise.
                unsafe { launch.launch(config)? };
            }
        }
        Ok(())
    }
}
