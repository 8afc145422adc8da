//! The cache in front of NVRTC, which compiles CUDA in the process. NVRTC keeps nothing across processes, so we do.
//!
//! `kernel-audit-rtld` binds NVRTC to these hooks in both directions: programs call those in `functions`, and
//! NVRTC reads files, variables and the clock through those in `imports`. A recorded run compiles as usual
//! and stores each result with its cache `key` and everything NVRTC read. `decoder` observes
//! encoded programs, whose text NVRTC decodes with a callback. `shadow` compiles again with another clock and
//! directory to find out whether the result depends on them. A preloaded run reuses a result if everything
//! NVRTC read is unchanged (`observed`).

mod answer;
mod decoder;
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

/// Binds an NVRTC to the hooks and returns whether that worked. The auditor calls this at the first call into
/// NVRTC, or at NVRTC's first call to an import.
///
/// # Safety
///
/// The library with this number is mapped, and its stubs jump to the targets.
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
