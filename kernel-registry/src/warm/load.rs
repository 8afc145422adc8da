//! The stage that loads images. Machine code is loaded in one thread, because more threads would not be faster. PTX is
//! loaded in many threads, because the driver compiles in parallel.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cudarc::driver::sys::CUresult;

use super::baked;
use super::code::Route;
use super::failure::Cause;
use super::handle::Handle;
use super::not_baked::NotBaked;
use super::pieces::{self, Cut};
use super::plan::{Planned, PlannedImage};
use super::progress::{Progress, Stage};
use super::work::{Job, Work};
use crate::contexts::{Libraries, MachineCode, Piece};
use crate::driver::{Code, Current, DriverCallError, Library, LoadError};
use crate::lock::lock;
use crate::watch::Watch;

/// The result of loading an image, or a piece of an image.
pub(super) struct Loading {
    /// The image's index in the plan.
    pub(super) image: usize,
    pub(super) is_piece: bool,
    pub(super) result: Result<Handle, Cause>,
    /// Where its code came from.
    pub(super) code: MachineCode,
    is_new: bool,
}

/// The results of loading, and a map from each kernel's index in the plan to the index of its result in `loadings`.
#[derive(Default)]
pub(super) struct Images {
    loadings: Vec<Loading>,
    kernels: HashMap<usize, usize>,
}

impl Images {
    fn add(&mut self, loading: Loading, kernels: &[&Planned]) {
        self.kernels.extend(kernels.iter().map(|planned| (planned.index, self.loadings.len())));
        self.loadings.push(loading);
    }

    /// Returns the result of loading a kernel's image or piece.
    pub(super) fn find(&mut self, planned: &Planned) -> Option<&mut Loading> {
        self.loadings.get_mut(*self.kernels.get(&planned.index)?)
    }

    /// Returns how many images this warm-up loaded, at least in part.
    pub(super) fn loaded(&self) -> usize {
        let new = self.loadings.iter().filter(|loading| loading.is_new);
        new.map(|loading| loading.image).collect::<BTreeSet<_>>().len()
    }
}

/// A piece of an image for the driver to compile.
#[derive(Clone)]
struct Source {
    piece: Arc<Piece>,
    /// The image is plain PTX.
    is_text: bool,
}

/// A library, and whether this warm-up compiled it.
type Compiled = Result<(Library, bool), LoadError>;

/// Kernels that are loaded together, and the index of their image in the plan.
struct Part<'p, S> {
    image: usize,
    kernels: Vec<&'p Planned>,
    source: S,
}

/// Loads the images of these kernels, unless the images are loaded already.
pub(super) fn load(work: &mut Work<'_>, pending: &[&Planned]) -> Images {
    let (job, watch) = (work.job, work.watch);
    let mut images = Images::default();
    let baked = baked::load(work, pending);
    let (modules, libraries) = group(work, pending, &baked, &mut images);
    let mut sources: Vec<Source> = libraries.iter().map(|part| part.source.clone()).collect();
    if !sources.is_empty() {
        // The kernels of kernel-registry itself are launched in a later stage, but compiled now, in parallel with the other
        // sources.
        let arch = work.device.arch;
        sources.extend(work.needs(pending).image().and_then(|image| match Route::choose(image, arch) {
            Route::Library { text } => {
                Some(Source { piece: Libraries::find_or_add(image, arch).whole().clone(), is_text: text })
            }
            Route::Module => None,
        }));
    }

    let mut compiled = thread::scope(|scope| {
        let compile = || compile_all(job, watch, &sources);
        let compiling = (!sources.is_empty()).then(|| thread::Builder::new().spawn_scoped(scope, compile));
        for Part { image, kernels, .. } in modules {
            let PlannedImage { file, bytes, .. } = job.plan.images[image];
            watch.call("cuModuleLoadDataEx", file);
            let module = work.current.load_module(&Code::new(bytes, false));
            if let Ok(module) = module {
                work.loaded.modules.insert(image, (module, MachineCode::Image));
            }
            let result = module.map(Handle::Module).map_err(|refused| cause(refused, work.free));
            let code = MachineCode::Image;
            images.add(Loading { image, is_piece: false, result, code, is_new: true }, &kernels);
        }
        // Announces a compilation, which may also wait: in eager mode `cuLibraryLoadData` waits for the device once the
        // image is compiled. In lazy mode `cuLibraryLoadData` waits only for images with managed variables. For other
        // images, resolving the library's kernels waits.
        if compiling.is_some() {
            watch.compiles("cuLibraryLoadData");
        }
        match compiling {
            None => BTreeMap::new(),
            Some(Ok(compiling)) => compiling.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)),
            // The operating system started no thread, so this thread compiles.
            Some(Err(_)) => compile(),
        }
    });
    for (number, Part { image, kernels, source }) in libraries.into_iter().enumerate() {
        let Some(compiled) = compiled.remove(&number) else { continue };
        let is_new = !matches!(compiled, Ok((_, false)));
        let result = match compiled {
            Ok((library, _)) => Ok(Handle::Library(library)),
            Err(refused) => Err(cause(refused, work.free)),
        };
        let (is_piece, code) = (!source.piece.is_whole(), MachineCode::Compiled);
        let mut loading = Loading { image, is_piece, result, code, is_new };
        if let (true, Err(Cause::Refused { error, .. })) = (loading.is_piece, &loading.result) {
            loading.result = load_again(work, &loading, *error);
        }
        images.add(loading, &kernels);
    }
    images
}

/// Groups kernels by the modules and libraries to load. Adds the images that are loaded already to `images`; `new` are the images that
/// were loaded just now.
fn group<'p>(
    work: &Work<'_>,
    pending: &[&'p Planned],
    new: &BTreeSet<usize>,
    images: &mut Images,
) -> (Vec<Part<'p, ()>>, Vec<Part<'p, Source>>) {
    let (job, arch) = (work.job, work.device.arch);
    let mut by_image: BTreeMap<usize, Vec<&Planned>> = BTreeMap::new();
    for planned in pending {
        if let Some(image) = planned.image {
            by_image.entry(image).or_default().push(planned);
        }
    }
    let (mut modules, mut compiled, mut cuts) = (Vec::new(), Vec::new(), Vec::new());
    for (image, kernels) in by_image {
        let PlannedImage { bytes, separable, .. } = job.plan.images[image];
        match (work.loaded.modules.get(image), Route::choose(bytes, arch)) {
            (Some((module, code)), _) => {
                let (result, code, is_new) = (Ok(Handle::Module(*module)), *code, new.contains(&image));
                images.add(Loading { image, is_piece: false, result, code, is_new }, &kernels);
            }
            (None, Route::Module) => modules.push(Part { image, kernels, source: () }),
            (None, Route::Library { text }) => {
                let libraries = Libraries::find_or_add(bytes, arch);
                let symbols = kernels.iter().map(|planned| planned.kernel.symbol);
                let may_cut = separable && text && !job.whole_images;
                let cut = may_cut.then(|| Cut::plan(bytes, &libraries, symbols)).flatten();
                compiled.push((cut.is_some(), text, Part { image, kernels, source: libraries }));
                cuts.extend(cut);
            }
        }
    }
    pieces::add_pieces(cuts, job.threads);
    let in_pieces = compiled.into_iter().flat_map(|(is_cut, is_text, part)| {
        let image = part.image;
        let parts = by_piece(&part.source, is_cut, part.kernels).into_iter();
        parts.map(move |(piece, kernels)| Part { image, kernels, source: Source { piece, is_text } })
    });
    (modules, in_pieces.collect())
}

/// Returns the pieces that these kernels of an image are in, each with its kernels. An image that is not cut is one piece.
fn by_piece<'p>(
    libraries: &Libraries,
    is_cut: bool,
    kernels: Vec<&'p Planned>,
) -> Vec<(Arc<Piece>, Vec<&'p Planned>)> {
    if !is_cut {
        return vec![(libraries.whole().clone(), kernels)];
    }
    let mut pieces: Vec<(Arc<Piece>, Vec<&Planned>)> = Vec::new();
    let mut numbers = HashMap::new();
    for planned in kernels {
        let piece = libraries.piece(planned.kernel.symbol);
        let piece = piece.unwrap_or_else(|| libraries.whole().clone());
        let number = *numbers.entry(Arc::as_ptr(&piece)).or_insert_with(|| {
            pieces.push((piece, Vec::new()));
            pieces.len() - 1
        });
        pieces[number].1.push(planned);
    }
    pieces
}

/// The number of threads at first. The driver reads images from its disk cache fastest with about eight threads, and much
/// slower with sixteen.
const FEW: usize = 8;

/// If the first threads have not finished one image each within this time, the driver compiles images instead of reading
/// its cache. Compiling is faster with threads on all cores.
const SLOW: Duration = Duration::from_millis(4);

/// Has the driver compile images and pieces, on as many threads as help. Returns the libraries by index in `sources`.
fn compile_all(job: &Job, watch: &Watch<Progress>, sources: &[Source]) -> BTreeMap<usize, Compiled> {
    // The largest source comes first. If it came last, one thread would compile it while all others are idle.
    let mut order: Vec<_> = (0..sources.len()).collect();
    order.sort_by_key(|number| Reverse(sources[*number].piece.len()));
    let (next, compiled) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = |helps: bool| {
        let current = Current::new(&job.context, job.driver);
        // A helper thread may fail: the calling thread can compile everything, or reports why it cannot.
        if helps && current.is_err() {
            return;
        }
        while let Some(number) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = match &current {
                Ok(current) => compile(current, &sources[*number], job.threads),
                Err(error) => Err(LoadError::from(*error)),
            };
            let mut compiled = lock(&compiled);
            compiled.insert(*number, result);
            watch.event(Progress { stage: Stage::Load, done: compiled.len(), of: sources.len() });
        }
    };
    let all = job.threads.min(sources.len());
    let few = all.min(FEW);
    let work = &work;
    thread::scope(|scope| {
        // This thread compiles too, so it is no error if the operating system does not start a thread.
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

fn compile(current: &Current<'_>, source: &Source, threads: usize) -> Compiled {
    let Source { piece, is_text } = source;
    // A large image that was not cut would keep one thread busy after all others are done. So the driver compiles the image in
    // several threads, if the driver can.
    let is_slow = piece.is_whole() && piece.len() >= pieces::LARGE && threads > 1;
    piece.library(|| current.load_library(&piece.code(*is_text), is_slow.then_some(threads)))
}

/// Loads an image as a module, after the driver has refused the image, or a piece of it, as a library, or has refused its baked
/// code. If the driver refuses the module too, the error has a log with the line numbers of the image. If the driver accepts the
/// module, it replaces a refused piece or baked code; a refused whole image stays refused.
pub(super) fn load_again(
    work: &mut Work<'_>,
    loading: &Loading,
    error: DriverCallError,
) -> Result<Handle, Cause> {
    let PlannedImage { file, bytes, .. } = work.job.plan.images[loading.image];
    if loading.code == MachineCode::Baked {
        work.not_baked.push(NotBaked::Refused { image: file, error });
        work.loaded.modules.remove(loading.image);
    }
    if let Some((module, _)) = work.loaded.modules.get(loading.image) {
        return Ok(Handle::Module(*module));
    }
    let refused = |error: LoadError| Err(cause(error, work.free));
    // No fatbin has machine code for architecture 0, so this only distinguishes plain PTX from a fatbin.
    let Route::Library { text } = Route::choose(bytes, 0) else { return refused(error.into()) };
    work.watch.call("cuModuleLoadDataEx", file);
    match work.current.load_module(&Code::new(bytes, text)) {
        Err(error) => refused(error),
        Ok(_) if !loading.is_piece && loading.code != MachineCode::Baked => refused(error.into()),
        Ok(module) => {
            work.loaded.modules.insert(loading.image, (module, MachineCode::Compiled));
            Ok(Handle::Module(module))
        }
    }
}

/// Returns the cause of failure that a driver error means. `free` is the free device memory in bytes.
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
