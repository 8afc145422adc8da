//! Baked code: machine code of PTX images from a file beside the program, which `cargo kernels bake` made, so that the driver
//! compiles nothing.

mod file;

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

use kernel_registry_format::baked;

use self::file::Baked;
use super::code::Route;
use super::not_baked::NotBaked;
use super::plan::Planned;
use super::work::Work;
use crate::contexts::MachineCode;
use crate::driver::Code;

/// Names the file, if it is not beside the program. `0` or nothing turns baked code off.
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

/// The path of the file: the application's, that of the variable, or that beside the program if there is such a file.
fn path(chosen: Option<&Path>) -> Option<PathBuf> {
    match (chosen, env::var_os(VARIABLE)) {
        (Some(chosen), _) => Some(chosen.to_owned()),
        (None, Some(chosen)) => (!chosen.is_empty() && chosen != "0").then(|| chosen.into()),
        (None, None) => {
            let mut beside = env::current_exe().ok()?.into_os_string();
            beside.push(baked::SUFFIX);
            Some(PathBuf::from(beside)).filter(|path| path.exists())
        }
    }
}

fn load_from(
    path: &Path,
    work: &mut Work<'_>,
    images: BTreeSet<usize>,
    loaded: &mut BTreeSet<usize>,
) -> Result<(), NotBaked> {
    let baked = Baked::open(path)?;
    let counting = images.iter().map(|image| {
        let bytes = work.job.plan.images[*image].bytes;
        let is_text = Route::choose(bytes, 0) == Route::Library { text: true };
        if is_text { baked::text(bytes) } else { bytes }
    });
    let codes = baked.codes(&counting.collect::<Vec<_>>(), work.device.arch, work.job.threads);
    for (image, code) in images.into_iter().zip(codes) {
        let file = work.job.plan.images[image].file;
        let Some(code) = code? else { continue };
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
    work.baked = Some(baked.path().to_owned());
    Ok(())
}
