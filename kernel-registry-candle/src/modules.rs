//! candle's modules, registered as images.

use std::sync::OnceLock;
use std::thread;

use candle_kernels as candle;
use kernel_registry::{KernelInfo, RuntimeImage, RuntimeImageError};

/// A module of candle, and its kernels.
pub(crate) struct Module {
    pub(crate) module: candle::Module,
    pub(crate) kernels: Vec<&'static KernelInfo>,
}

/// All modules. The name of the image, before the name of a kernel, is the kernel's path.
const ALL: [(&str, candle::Module); candle::ALL_IDS.len()] = [
    ("candle_kernels::affine", candle::AFFINE),
    ("candle_kernels::binary", candle::BINARY),
    ("candle_kernels::cast", candle::CAST),
    ("candle_kernels::conv", candle::CONV),
    ("candle_kernels::fill", candle::FILL),
    ("candle_kernels::indexing", candle::INDEXING),
    ("candle_kernels::quantized", candle::QUANTIZED),
    ("candle_kernels::reduce", candle::REDUCE),
    ("candle_kernels::sort", candle::SORT),
    ("candle_kernels::ternary", candle::TERNARY),
    ("candle_kernels::unary", candle::UNARY),
];

/// Registers the modules at the first call, and returns them.
pub(crate) fn register() -> Result<&'static [Module], RuntimeImageError> {
    static MODULES: OnceLock<Result<Vec<Module>, RuntimeImageError>> = OnceLock::new();
    MODULES.get_or_init(register_all).as_deref().map_err(Clone::clone)
}

/// Registers each module in a thread of its own, because reading megabytes of PTX takes time.
fn register_all() -> Result<Vec<Module>, RuntimeImageError> {
    let register = |(name, module): (&'static str, candle::Module)| {
        let kernels = RuntimeImage::new(name, module.ptx()).adopt().register()?;
        Ok(Module { module, kernels })
    };
    thread::scope(|scope| {
        let threads: Vec<_> = ALL.into_iter().map(|each| scope.spawn(move || register(each))).collect();
        let modules = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked)));
        modules.collect()
    })
}
