//! Priming: launches our own kernels, so that no first launch of another kernel waits.
//!
//! The first launch of a kernel that contains printf, assert or malloc waits for the whole device, and so can the first
//! launch in a context.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::CStr;

use kernel_registry_cuda::prime::{ASSERT, FIRST, MALLOC, OUTPUT, PLAIN, PRINTF, SPECIAL};

use super::code::Route;
use super::handle::Handle;
use super::plan::Planned;
use crate::contexts::{self, Libraries, Primed};
use crate::driver::{Code, Current, LoadError, Module, Stream};
use crate::watch::Watch;

/// The name of our own kernels in errors.
pub(super) const OURS: &str = "kernel-registry's own kernels";

/// What a kernel needs, as its image showed at compile time.
pub(super) fn needs(planned: &Planned) -> Primed {
    let kernel_registry_format::Needs { printf, assert, heap, unknown, .. } = planned.kernel.needs;
    if unknown {
        return Primed::EVERYTHING;
    }
    Primed { launch: true, printf, assert, malloc: heap }
}

/// The image of our own kernels that set this up, if there is anything to set up.
pub(super) fn image(needs: Primed) -> Option<&'static [u8]> {
    match needs {
        Primed { launch: false, printf: false, assert: false, malloc: false } => None,
        Primed { printf: false, assert: false, malloc: false, .. } => Some(PLAIN),
        Primed { malloc: false, .. } => Some(OUTPUT),
        _ => Some(SPECIAL),
    }
}

/// Names of the kernels to launch. Each of them counts as `launch`.
fn kernels(needs: Primed) -> impl Iterator<Item = &'static CStr> {
    let special = needs.printf || needs.assert || needs.malloc;
    let kernels = [
        (needs.printf, PRINTF),
        (needs.assert, ASSERT),
        (needs.malloc, MALLOC),
        (needs.launch && !special, FIRST),
    ];
    kernels.into_iter().filter(|(needed, _)| *needed).map(|(_, name)| name)
}

/// Launches our kernels for these needs, each with one thread that does nothing, and waits for them. `loaded` holds the
/// modules of our own images in the context.
pub(super) fn prime<E>(
    current: &Current<'_>,
    arch: u32,
    needs: Primed,
    watch: &Watch<E>,
    loaded: &mut HashMap<usize, Module>,
) -> Result<(), LoadError> {
    let Some(image) = image(needs) else { return Ok(()) };
    let code = Code::new(image, false);
    let handle = match Route::choose(image, arch) {
        Route::Module => match loaded.entry(contexts::key(image)) {
            Entry::Occupied(module) => Handle::Module(*module.get()),
            Entry::Vacant(place) => {
                watch.call("cuModuleLoadDataEx", OURS);
                Handle::Module(*place.insert(current.load_module(&code)?))
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
    for name in kernels(needs) {
        watch.call(handle.call(), OURS);
        let function = handle.function(current, name)?;
        watch.call("cuLaunchKernel", OURS);
        stream.launch(function)?;
    }
    watch.call("cuStreamSynchronize", OURS);
    Ok(stream.wait()?)
}

/// Waits until kernels that were resolved are loaded, of which one has this path. A kernel that is resolved while something runs in the context is loaded only
/// after that, although the driver says at once that it is; a module is loaded when nothing runs.
pub(super) fn settle<E>(
    current: &Current<'_>,
    watch: &Watch<E>,
    path: &'static str,
) -> Result<(), LoadError> {
    watch.call("cuModuleLoadDataEx", path);
    wait_for_all(current)
}

/// Waits for the kernels that run in the context, and for nothing else: loads a small image. It stays loaded: unloading it would wait for
/// kernels that other threads have launched since.
pub(super) fn wait_for_all(current: &Current<'_>) -> Result<(), LoadError> {
    current.load_module(&Code::new(PLAIN, false)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Primed = Primed { launch: false, printf: false, assert: false, malloc: false };
    const LAUNCH: Primed = Primed::LAUNCH;
    const PRINTF: Primed = Primed { printf: true, ..LAUNCH };

    fn kernels(needs: Primed) -> Vec<&'static CStr> {
        super::kernels(needs).collect()
    }

    #[test]
    fn each_kernel_counts_as_a_launch() {
        assert!(kernels(NOTHING).is_empty());
        assert_eq!(kernels(LAUNCH), [c"first"]);
        assert_eq!(kernels(PRINTF), [c"prime_printf"]);
    }

    #[test]
    fn nothing_is_set_up_twice() {
        let everything = Primed { assert: true, malloc: true, ..PRINTF };
        assert_eq!(kernels(everything.but_not(PRINTF)), [c"prime_assert", c"prime_malloc"]);
        assert_eq!(PRINTF.but_not(LAUNCH).or(LAUNCH.but_not(LAUNCH)), Primed { printf: true, ..NOTHING });
        assert_eq!(everything.but_not(everything), NOTHING);
    }

    /// Does not need a driver.
    #[test]
    fn the_images_have_the_kernels() {
        let everything = Primed { assert: true, malloc: true, ..PRINTF };
        for needs in [LAUNCH, PRINTF, everything] {
            let image = image(needs).unwrap();
            for name in kernels(needs) {
                let entry = format!(".visible .entry {}(", name.to_str().unwrap());
                assert!(image.windows(entry.len()).any(|bytes| bytes == entry.as_bytes()), "{entry}");
            }
        }
        assert_eq!(image(NOTHING), None);
    }
}
