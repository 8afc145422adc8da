//! The stage that asks the driver whether kernels are loaded, and then enters them into their tables, where launches find
//! them.

use cudarc::driver::sys::CUresult;

use super::failure::Cause;
use super::plan::Planned;
use super::work::{Candidate, Work};

/// Asks about every selected kernel, including kernels that were warm before. Returns whether the driver confirmed that all
/// of them are loaded.
pub(super) fn verify(work: &mut Work<'_>, candidates: Vec<Candidate>) -> bool {
    let mut verified = true;
    let selected = &work.job.selected;
    for planned in selected {
        let Some(warm) = work.loaded.kernels.get(planned.index) else { continue };
        let is_loaded = work.current.is_loaded(warm.function);
        verified &= matches!(is_loaded, Ok(Some(true)));
        match is_loaded {
            Ok(Some(true) | None) => {}
            Ok(Some(false)) => lost(work, planned, Cause::NotLoaded),
            // The module was unloaded, so the handle is invalid.
            Err(error) if error.is(CUresult::CUDA_ERROR_INVALID_HANDLE) => {
                lost(work, planned, Cause::Unloaded);
            }
            Err(error) => work.failed(planned, Cause::Driver { error }),
        }
    }
    for Candidate { planned, kernel } in candidates {
        match work.current.is_loaded(kernel.function) {
            Err(error) => work.failed(planned, Cause::Driver { error }),
            Ok(Some(false)) => work.failed(planned, Cause::NotLoaded),
            Ok(is_loaded) => {
                verified &= is_loaded.is_some();
                work.job.known.enter(kernel.info, kernel.function, kernel.limits);
                work.loaded.kernels.insert(planned.index, kernel);
            }
        }
    }
    verified
}

/// Records that a warm kernel is no longer loaded. Launches no longer find it, and the next warm-up loads it again.
fn lost(work: &mut Work<'_>, planned: &Planned, cause: Cause) {
    work.job.known.withdraw(planned.info);
    work.loaded.kernels.remove(planned.index);
    planned.image.into_iter().for_each(|image| work.loaded.modules.remove(image));
    work.failed(planned, cause);
}
