//! Primes a context: launches kernel-registry's own kernels, so that the first launch of any other kernel doesn't wait.
//!
//! The first launch of a kernel that contains printf, assert or malloc waits for the whole device. The first launch of any
//! kernel in a context can wait, too.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use kernel_registry_cuda::prime::{PLAIN, Primed};

use super::code::Route;
use super::handle::Handle;
use super::plan::Planned;
use crate::contexts::{self, Libraries};
use crate::driver::{Code, Current, LoadError, Module, Stream};
use crate::watch::Watch;

/// The name of this library's own kernels in errors.
pub(super) const OURS: &str = "kernel-registry's own kernels";

/// Returns what must be set up in the context for a kernel, according to the kernel's record.
pub(super) fn needs(planned: &Planned) -> Primed {
    let kernel_registry_format::Needs { printf, assert, heap, unknown, .. } = planned.kernel.needs;
    if unknown {
        return Primed::EVERYTHING;
    }
    Primed::LAUNCH.or(Primed::new(printf, assert, heap))
}

/// Launches kernel-registry's own kernels for these needs, each with one thread that does nothing, and waits for them.
/// `loaded` holds the modules of kernel-registry's own images that the context already has.
pub(super) fn prime<E>(
    current: &Current<'_>,
    arch: u32,
    needs: Primed,
    watch: &Watch<E>,
    loaded: &mut HashMap<usize, Module>,
) -> Result<(), LoadError> {
    let Some(image) = needs.image() else { return Ok(()) };
    let code = Code::new(image, false);
    let handle = match Route::choose(image, arch) {
        Route::Module => match loaded.entry(contexts::key(image)) {
            Entry::Occupied(module) => Handle::Module(*module.get()),
            Entry::Vacant(entry) => {
                watch.call("cuModuleLoadDataEx", OURS);
                Handle::Module(*entry.insert(current.load_module(&code)?))
            }
        },
        Route::Library { .. } => {
            watch.call("cuLibraryLoadData", OURS);
            let libraries = Libraries::find_or_add(image, arch);
            Handle::Library(libraries.whole().library(|| current.load_library(&code, None))?.0)
        }
    };
    watch.call("cuStreamCreate", OURS);
    let stream = Stream::new()?;
    for name in needs.kernels() {
        watch.call(handle.call(), OURS);
        let function = handle.function(current, name)?;
        watch.call("cuLaunchKernel", OURS);
        stream.launch(function)?;
    }
    watch.call("cuStreamSynchronize", OURS);
    Ok(stream.wait()?)
}

/// Waits until the resolved kernels are loaded. `path` names one of them in errors.
///
/// If a kernel is resolved while another one runs in the context, the driver loads it only after the other one has ended, but
/// reports at once that it is loaded. Loading a module waits until no kernel runs.
pub(super) fn settle<E>(
    current: &Current<'_>,
    watch: &Watch<E>,
    path: &'static str,
) -> Result<(), LoadError> {
    watch.call("cuModuleLoadDataEx", path);
    wait_for_all(current)
}

/// Waits for the kernels that run in the context, and for nothing else, by loading a small image. The image stays loaded,
/// because unloading it would wait for kernels that other threads have launched since.
pub(super) fn wait_for_all(current: &Current<'_>) -> Result<(), LoadError> {
    current.load_module(&Code::new(PLAIN, false)).map(drop)
}
