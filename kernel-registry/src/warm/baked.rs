//! Loads baked code: machine code of PTX images, from a file that `cargo kernels bake` made, so that the driver compiles nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kernel_registry_cuda::Target;
use kernel_registry_files::{Baked, NotUsed, sha256};
use kernel_registry_format::baked::{self, Damage};

use super::code::Route;
use super::not_baked::NotBaked;
use super::plan::Planned;
use super::work::Work;
use crate::contexts::MachineCode;
use crate::driver::Code;
use crate::lock::lock;

/// The environment variable with the file's path, if it is not next to the program. `0` or an empty value turns
/// baked code off, unless the application chose a file.
const VARIABLE: &str = "KERNEL_REGISTRY_BAKED";

/// Loads the baked code of images that the driver would have to compile, and enters the modules. Returns the places of these images.
pub(super) fn load(work: &mut Work<'_>, pending: &[&Planned]) -> BTreeSet<usize> {
    let mut images: BTreeSet<usize> = pending.iter().filter_map(|planned| planned.image).collect();
    images.retain(|image| {
        let route = Route::choose(work.job.plan.images[*image].bytes, work.device.arch);
        route != Route::Module && work.loaded.modules.get(*image).is_none()
    });
    let mut loaded = BTreeSet::new();
    if let (false, Some(path)) = (images.is_empty(), path(work.job.baked.as_deref()))
        && let Err(why) = load_from(&path, work, images, &mut loaded)
    {
        work.not_baked.push(why);
    }
    loaded
}

/// Returns the path of the file: the one that the application chose, the one in the variable, or the one next to the program, if it
/// exists.
fn path(chosen: Option<&Path>) -> Option<PathBuf> {
    match (chosen, env::var_os(VARIABLE)) {
        (Some(chosen), _) => Some(chosen.to_owned()),
        (None, Some(chosen)) => (!chosen.is_empty() && chosen != "0").then(|| chosen.into()),
        (None, None) => {
            let mut default = env::current_exe().ok()?.into_os_string();
            default.push(baked::SUFFIX);
            Some(PathBuf::from(default)).filter(|path| path.exists())
        }
    }
}

fn load_from(
    path: &Path,
    work: &mut Work<'_>,
    images: BTreeSet<usize>,
    loaded: &mut BTreeSet<usize>,
) -> Result<(), NotBaked> {
    let baked = Baked::open(path).map_err(|why| NotBaked::new(path, why))?;
    let hashed = images.iter().map(|image| {
        let bytes = work.job.plan.images[*image].bytes;
        let is_text = Route::choose(bytes, 0) == Route::Library { text: true };
        if is_text { baked::text(bytes) } else { bytes }
    });
    let codes = codes(&baked, &hashed.collect::<Vec<_>>(), work.device.arch, work.job.threads);
    for (image, code) in images.into_iter().zip(codes) {
        let file = work.job.plan.images[image].file;
        let Some(code) = code else { continue };
        let code = code.map_err(|damage| NotBaked::new(path, NotUsed::Damaged(damage)))?;
        work.watch.call("cuModuleLoadDataEx", file);
        match work.current.load_module(&Code::new(&code, false)) {
            Ok(module) => {
                work.loaded.modules.insert(image, (module, MachineCode::Baked));
                loaded.insert(image);
            }
            Err(refused) => {
                work.not_baked.push(NotBaked::Refused { image: file, error: refused.error });
            }
        }
    }
    work.baked = Some(path.display().to_string());
    Ok(())
}

/// The baked code of an image, or `None` if the file has none for it.
type Found = Option<Result<Vec<u8>, Damage>>;

/// Returns the code of each of these images. Several threads compute the digests.
fn codes(baked: &Baked, images: &[&[u8]], arch: u32, threads: usize) -> Vec<Found> {
    // The largest comes first. If it came last, one thread would work while all others are idle.
    let mut order: Vec<_> = images.iter().enumerate().collect();
    order.sort_by_key(|(_, image)| Reverse(image.len()));
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some((number, image)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let code = code(baked, image, arch);
            lock(&found).insert(*number, code);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(images.len()) {
            // This thread works, too, so it is no error if the operating system does not start a thread.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// Returns the code of an image that fits this architecture best. `image` has only the bytes that go into the key.
fn code(baked: &Baked, image: &[u8], arch: u32) -> Found {
    let key = sha256(&baked::key_parts(image, ""));
    let entries = baked.entries().filter(|entry| entry.key == key);
    let fitting = entries.filter_map(|entry| {
        let target: Target = entry.arch.parse().ok()?;
        target.binary_runs_on((arch / 10, arch % 10)).then_some((target, entry))
    });
    let (_, entry) = fitting.max_by_key(|(target, _)| *target)?;
    Some(baked.code(&entry))
}
