//! The stage that loads images: machine code in one thread, because more would not be faster, and PTX in many threads,
//! because the driver compiles in parallel.

use std::collections::{BTreeMap, BTreeSet};
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cudarc::driver::sys::CUresult;

use super::code::Route;
use super::failure::Cause;
use super::handle::Handle;
use super::plan::{Planned, PlannedImage};
use super::report::Stage;
use super::work::{Job, Work};
use super::{Progress, prime};
use crate::contexts::{self, key};
use crate::driver::{Code, Current, DriverError, Library, LoadError};
use crate::lock::lock;
use crate::watch::Watch;

/// The result of loading an image.
pub(super) struct Loading {
    pub(super) result: Result<Handle, Cause>,
    pub(super) is_new: bool,
}

/// Results by the images' places in the plan.
pub(super) type Images = BTreeMap<usize, Loading>;

/// An image for the driver to compile, and whether it is plain PTX.
type Source = (&'static [u8], bool);

/// A library, and whether it was compiled just now.
type Compiled = (Result<Library, LoadError>, bool);

/// Loads the images of these kernels unless they are loaded already.
pub(super) fn load(work: &mut Work<'_>, pending: &[&Planned]) -> Images {
    let mut images = Images::new();
    let (mut modules, mut libraries) = (Vec::new(), Vec::new());
    let mut sources: Vec<Source> = Vec::new();
    for index in pending.iter().filter_map(|planned| planned.image).collect::<BTreeSet<_>>() {
        let bytes = work.job.plan.images[index].bytes;
        match (work.loaded.modules.get(index), Route::of(bytes, work.device.arch)) {
            (Some(module), _) => {
                images.insert(index, Loading { result: Ok(Handle::Module(*module)), is_new: false });
            }
            (None, Route::Module) => modules.push(index),
            (None, Route::Library { text }) => {
                libraries.push(index);
                sources.push((bytes, text));
            }
        }
    }
    if !sources.is_empty() {
        // Our own kernels are launched later, but compiled now, in parallel with the others.
        let ours = prime::image(work.needs(pending)).map(|image| (image, Route::of(image, work.device.arch)));
        sources.extend(ours.and_then(|(image, route)| match route {
            Route::Library { text } => Some((image, text)),
            Route::Module => None,
        }));
    }

    let (job, watch) = (work.job, work.watch);
    let arch = work.device.arch;
    let compiled = thread::scope(|scope| {
        let compile = || compile_all(job, arch, watch, &sources);
        let compiling = (!sources.is_empty()).then(|| thread::Builder::new().spawn_scoped(scope, compile));
        for index in modules {
            let PlannedImage { file, bytes } = job.plan.images[index];
            watch.call("cuModuleLoadDataEx", file);
            let module = work.current.load_module(&Code::new(bytes, false));
            if let Ok(module) = module {
                work.loaded.modules.insert(index, module);
            }
            let result = module.map(Handle::Module).map_err(|refused| cause(refused, work.free));
            images.insert(index, Loading { result, is_new: true });
        }
        // In eager mode this call waits for the device once the image is compiled. In lazy mode it does so only for
        // images with managed variables; otherwise resolving the library's kernels waits.
        if compiling.is_some() {
            watch.compiles("cuLibraryLoadData");
        }
        match compiling {
            None => BTreeMap::new(),
            Some(Ok(compiling)) => compiling.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)),
            // The system started no thread, so this one compiles.
            Some(Err(_)) => compile(),
        }
    });
    for index in libraries {
        if let Some((result, is_new)) = compiled.get(&key(job.plan.images[index].bytes)) {
            let result = result.clone().map(Handle::Library).map_err(|refused| cause(refused, work.free));
            images.insert(index, Loading { result, is_new: *is_new });
        }
    }
    images
}

/// Threads at first. The driver reads images from its disk cache fastest with about eight, and much slower with sixteen.
const FEW: usize = 8;

/// If these threads have not finished an image each by then, images are compiled, which is faster on all cores.
const SLOW: Duration = Duration::from_millis(4);

/// Has the driver compile images, on as many threads as help. Returns the libraries by the images' keys.
fn compile_all(
    job: &Job,
    arch: u32,
    watch: &Watch<Progress>,
    sources: &[Source],
) -> BTreeMap<usize, Compiled> {
    let (next, compiled) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = |helps: bool| {
        let current = Current::new(&job.context, job.driver);
        // A helper may fail: one thread is enough to compile everything, or to report why it cannot.
        if helps && current.is_err() {
            return;
        }
        while let Some((bytes, text)) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = match &current {
                Ok(current) => compile(current, arch, bytes, *text),
                Err(error) => (Err(LoadError::from(*error)), false),
            };
            let mut compiled = lock(&compiled);
            compiled.insert(key(bytes), result);
            watch.event(Progress { stage: Stage::Load, done: compiled.len(), of: sources.len() });
        }
    };
    let all = job.threads.min(sources.len());
    let few = all.min(FEW);
    let work = &work;
    thread::scope(|scope| {
        // This thread compiles too, so a thread that the system does not start is no error.
        let start = |count: usize| {
            (0..count).all(|_| thread::Builder::new().spawn_scoped(scope, || work(true)).is_ok());
        };
        start(few.saturating_sub(1));
        if all > few {
            let compiled = &compiled;
            let more = move || {
                thread::sleep(SLOW);
                if lock(compiled).len() < few {
                    start(all - few);
                }
            };
            let _ = thread::Builder::new().spawn_scoped(scope, more);
        }
        work(false);
    });
    compiled.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn compile(current: &Current<'_>, arch: u32, bytes: &'static [u8], text: bool) -> Compiled {
    let mut is_new = false;
    let library = contexts::library(bytes, arch, || {
        is_new = true;
        current.load_library(&Code::new(bytes, text))
    });
    (library, is_new)
}

/// The error, with a log, for a kernel that does not compile although its image was loaded as a library. The driver gives
/// it only when the image is loaded as a module.
pub(super) fn compile_error(current: &Current<'_>, bytes: &'static [u8], error: DriverError) -> LoadError {
    let Route::Library { text } = Route::of(bytes, 0) else { return error.into() };
    current.load_module(&Code::new(bytes, text)).err().unwrap_or_else(|| error.into())
}

/// The cause that a driver error means.
pub(super) fn cause(LoadError { error, log }: LoadError, free: u64) -> Cause {
    use CUresult::*;
    let is = |results: &[CUresult]| results.iter().any(|result| error.is(*result));
    if is(&[CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_UNSUPPORTED_PTX_VERSION]) {
        Cause::NoVariant { error }
    } else if is(&[CUDA_ERROR_OUT_OF_MEMORY]) {
        Cause::OutOfMemory { error, free }
    } else if is(&[CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_SOURCE]) {
        Cause::Refused { error, log }
    } else {
        Cause::Driver { error }
    }
}
