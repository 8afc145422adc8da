//! Answers requests of other code for kernels and variables that an adopted module lacks. A kernel that is not warm is loaded as at
//! a late launch. If that fails, or if no piece has the variable, the whole image is loaded, as if it were not adopted.

use std::ffi::{CStr, CString};
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::Mutex;

use cudarc::driver::sys::{CUfunction, CUmodule, CUresult};

use super::{bytes, real};
use crate::contexts::KnownContext;
use crate::contexts::adopted::{self, Module};
use crate::driver::{Pushed, own};
use crate::lock::lock;
use crate::{KernelInfo, late};

/// Returns the kernel with this symbol of an adopted module, and loads it if it is not warm. Returns `None` to let the driver answer.
pub(super) fn function(module: CUmodule, symbol: &CStr) -> Option<CUfunction> {
    let adopted = adopted::module(module)?;
    let kernel = bytes::kernel(adopted.image, symbol.to_bytes())?;
    if let Some(function) = warm(kernel, &adopted) {
        return Some(function);
    }
    let whole = load_whole(module, &adopted)?;
    let mut function = ptr::null_mut();
    // SAFETY: registered images are never unloaded, and the name ends with a zero.
    let result = unsafe { real::get_function(&mut function, whole, symbol.as_ptr()) };
    (result == CUresult::CUDA_SUCCESS).then_some(function)
}

/// Warms a kernel, if the policy of the context allows it.
///
/// The function of `Warmup::on_late` may panic. Unwinding out of an `extern "C"` function would abort the process, so the panic is
/// caught here, after the panic hook has printed it. The caller then loads the whole image.
fn warm(kernel: &'static KernelInfo, adopted: &Module) -> Option<CUfunction> {
    let context = KnownContext::find(adopted.id)?.home()?;
    let load = || late::load(kernel, &context, adopted.id).ok();
    let ready = panic::catch_unwind(AssertUnwindSafe(load)).ok()??;
    Some(ready.function.0).filter(|function| !function.is_null())
}

/// Returns the module of an adopted module's whole image, and loads it if it is not loaded yet.
fn load_whole(module: CUmodule, adopted: &Module) -> Option<CUmodule> {
    static LOADING: Mutex<()> = Mutex::new(());
    if let Some(whole) = adopted.whole {
        return Some(whole);
    }
    let context = KnownContext::find(adopted.id)?.home()?;
    let _loading = lock(&LOADING);
    // Another thread may have loaded it while this one waited for the lock.
    if let Some(whole) = adopted::module(module)?.whole {
        return Some(whole);
    }
    let _pushed = Pushed::new(&context).ok()?;
    // Only PTX is loaded in pieces, and it contains no zero.
    let text = CString::new(adopted.image).ok()?;
    let mut whole = ptr::null_mut();
    // SAFETY: the text ends with a zero.
    let result = own(|| unsafe { real::load_data(&mut whole, text.as_ptr().cast()) });
    if result != CUresult::CUDA_SUCCESS {
        return None;
    }
    adopted::set_whole(module, whole);
    Some(whole)
}

/// Returns the other modules to search for a variable of an adopted module: its pieces, then the whole image, which is only loaded
/// when the iterator reaches it.
pub(super) fn others(module: CUmodule) -> impl Iterator<Item = CUmodule> {
    let adopted = adopted::module(module);
    let pieces = adopted.iter().flat_map(|adopted| adopted.modules.clone());
    let pieces: Vec<_> = pieces.filter(|piece| *piece != module).collect();
    let mut not_whole = adopted.filter(|adopted| adopted.whole != Some(module));
    pieces.into_iter().chain(std::iter::from_fn(move || load_whole(module, &not_whole.take()?)))
}
