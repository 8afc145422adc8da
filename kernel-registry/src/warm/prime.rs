//! The first launch of any kernel that contains printf, assert or malloc waits for the whole device, and in some
//! situations the first launch of a context at all. Kernels of our own have them behind them before it matters.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CStr, c_void};
use std::ptr;

use cudarc::driver::sys;

use super::code::Route;
use super::load::Handle;
use super::plan::Planned;
use super::state;
use super::watch::Watch;
use crate::driver::{Code, Current, DriverError, Function, LoadError, Module, call};

static SPECIAL: &[u8] = include_bytes!("../../cuda/prime.fatbin");
pub(super) static PLAIN: &[u8] = include_bytes!("../../cuda/first.fatbin");

/// What our own kernels are called where a call is about them.
pub(super) const OURS: &str = "kernel-registry's own kernels";

/// What a launch can need of the driver that only a launch sets up, and what was set up in a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// That there was a launch at all.
    launch: bool,
    printf: bool,
    assert: bool,
    malloc: bool,
}

/// What a kernel needs, as far as its image told when the program was compiled.
pub(super) fn needs(planned: &Planned) -> Needs {
    let kernel_registry_format::Needs { printf, assert, heap, unknown, device_launch: _ } =
        planned.kernel.needs;
    if unknown {
        return Needs::EVERYTHING;
    }
    Needs { launch: true, printf, assert, malloc: heap }
}

impl Needs {
    pub(super) const EVERYTHING: Needs = Needs { launch: true, printf: true, assert: true, malloc: true };

    /// A launch, which the next one has to wait for after the stack limit was changed.
    pub(super) const LAUNCH: Needs = Needs { launch: true, printf: false, assert: false, malloc: false };

    pub(super) fn or(self, other: Self) -> Self {
        Needs {
            launch: self.launch || other.launch,
            printf: self.printf || other.printf,
            assert: self.assert || other.assert,
            malloc: self.malloc || other.malloc,
        }
    }

    pub(super) fn but_not(self, done: Self) -> Self {
        Needs {
            launch: self.launch && !done.launch,
            printf: self.printf && !done.printf,
            assert: self.assert && !done.assert,
            malloc: self.malloc && !done.malloc,
        }
    }

    /// The image whose kernels set it up, if there is anything to set up.
    pub(super) fn image(self) -> Option<&'static [u8]> {
        match self {
            Needs { launch: false, printf: false, assert: false, malloc: false } => None,
            Needs { printf: false, assert: false, malloc: false, .. } => Some(PLAIN),
            _ => Some(SPECIAL),
        }
    }

    /// The kernels. Any of them is a first launch.
    fn kernels(self) -> impl Iterator<Item = &'static CStr> {
        let special = self.printf || self.assert || self.malloc;
        let kernels = [
            (self.printf, c"prime_printf"),
            (self.assert, c"prime_assert"),
            (self.malloc, c"prime_malloc"),
            (self.launch && !special, c"first"),
        ];
        kernels.into_iter().filter(|(needed, _)| *needed).map(|(_, name)| name)
    }
}

/// Launches what is needed, each with one thread that does nothing, and waits for it. `loaded` are the modules of our own
/// images in the context.
pub(super) fn prime<E>(
    current: &Current<'_>,
    arch: u32,
    needs: Needs,
    watch: &Watch<E>,
    loaded: &mut HashMap<usize, Module>,
) -> Result<(), LoadError> {
    let Some(image) = needs.image() else { return Ok(()) };
    let code = Code::new(image, false);
    let handle = match Route::of(image, arch) {
        Route::Module => match loaded.entry(state::key(image)) {
            Entry::Occupied(module) => Handle::Module(*module.get()),
            Entry::Vacant(place) => {
                watch.call("cuModuleLoadDataEx", OURS);
                Handle::Module(*place.insert(current.load_module(&code)?))
            }
        },
        Route::Library { .. } => {
            watch.call("cuLibraryLoadData", OURS);
            Handle::Library(state::library(image, arch, || current.load_library(&code))?)
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

/// A stream that waits for no other.
struct Stream(sys::CUstream);

impl Stream {
    fn new() -> Result<Self, DriverError> {
        let mut stream = ptr::null_mut();
        const FLAGS: u32 = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: there is a current context: who calls this has a `Current`.
        call("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, FLAGS) })?;
        Ok(Stream(stream))
    }

    /// Launches one thread of a kernel whose only parameter, an `int`, is 0.
    fn launch(&self, function: Function) -> Result<(), DriverError> {
        let mut zero = 0_i32;
        let mut args: [*mut c_void; 1] = [(&raw mut zero).cast()];
        // SAFETY: the kernels of prime.cu and first.cu take one `int`, and with 0 they do nothing.
        call("cuLaunchKernel", unsafe {
            let none = ptr::null_mut();
            sys::cuLaunchKernel(function.0, 1, 1, 1, 1, 1, 1, 0, self.0, args.as_mut_ptr(), none)
        })
    }

    fn wait(&self) -> Result<(), DriverError> {
        // SAFETY: the stream is there until it is dropped.
        call("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.0) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: nobody else has it. What fails here has failed before, and was reported then.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.0) };
    }
}

impl From<DriverError> for LoadError {
    fn from(error: DriverError) -> Self {
        LoadError { error, log: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Needs = Needs { launch: false, printf: false, assert: false, malloc: false };
    const LAUNCH: Needs = Needs::LAUNCH;
    const PRINTF: Needs = Needs { printf: true, ..LAUNCH };

    fn kernels(needs: Needs) -> Vec<&'static CStr> {
        needs.kernels().collect()
    }

    #[test]
    fn any_kernel_is_a_first_launch() {
        assert!(kernels(NOTHING).is_empty());
        assert_eq!(kernels(LAUNCH), [c"first"]);
        assert_eq!(kernels(PRINTF), [c"prime_printf"]);
    }

    #[test]
    fn what_is_done_is_not_done_again() {
        let everything = Needs { assert: true, malloc: true, ..PRINTF };
        assert_eq!(kernels(everything.but_not(PRINTF)), [c"prime_assert", c"prime_malloc"]);
        assert_eq!(PRINTF.but_not(LAUNCH).or(LAUNCH.but_not(LAUNCH)), Needs { printf: true, ..NOTHING });
        assert_eq!(everything.but_not(everything), NOTHING);
    }

    /// The driver would tell, but only where there is one.
    #[test]
    fn the_images_have_the_kernels() {
        let everything = Needs { assert: true, malloc: true, ..PRINTF };
        for needs in [LAUNCH, PRINTF, everything] {
            let image = needs.image().unwrap();
            for name in kernels(needs) {
                let entry = format!(".visible .entry {}(", name.to_str().unwrap());
                assert!(image.windows(entry.len()).any(|bytes| bytes == entry.as_bytes()), "{entry}");
            }
        }
        assert_eq!(NOTHING.image(), None);
    }
}
