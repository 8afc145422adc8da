//! The cache in front of NVRTC, which compiles CUDA in the process. NVRTC keeps nothing across processes, so we do.
//!
//! `kernel-audit-rtld` binds NVRTC to these hooks, in both directions: `functions` has those that programs call, `imports`
//! those by which NVRTC asks for files, variables and the time. A recorded run compiles everything as it would alone and
//! records the result with its `key` and all that NVRTC asked for; `shadow` compiles once more, at another time and place,
//! to see whether the result depends on these. A preloaded run gets the result back if all answers are still the same
//! (`observed`).

mod answer;
mod entry;
mod functions;
mod imports;
mod key;
mod library;
mod observed;
mod programs;
mod record;
mod results;
mod shadow;

use kernel_audit_rtld::{Library, Targets};

use crate::watch::process::fork;

/// Binds an NVRTC to the hooks. The auditor calls this when a function of NVRTC is first called, or when NVRTC first calls
/// out. Returns whether it's bound.
///
/// # Safety
///
/// The library of this number is mapped, and its stubs jump to the targets.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub unsafe extern "C" fn kernel_registry_nvrtc_bind(
    number: usize,
    library: *const Library,
    targets: *const Targets,
) -> bool {
    // SAFETY: as the caller promises; both are in the auditor, which is never unloaded.
    let (library, targets) = unsafe { (&*library, &*targets) };
    let Some(exports) = functions::HOOKS.get(number).filter(|_| !fork::is_divided()) else { return false };
    let hooks = exports.0.iter().chain(imports::resolve());
    library::bind(number, library, targets, hooks).is_some()
}
