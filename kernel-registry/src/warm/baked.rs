//! Baked code: machine code of PTX images from a file beside the program, which `cargo kernels bake` made, so that the driver
//! compiles nothing.

mod file;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fmt};

use kernel_registry_format::Printable;
use kernel_registry_format::baked;

use self::file::Baked;
use super::code::Route;
use super::plan::{Planned, PlannedImage};
use super::report::MachineCode;
use super::work::Work;
use crate::driver::{Code, DriverCallError};

/// Names the file, if it is not beside the program. `0` or nothing turns baked code off.
const VARIABLE: &str = "KERNEL_REGISTRY_BAKED";

/// Why a file of baked code was not used, or not for one image: the driver compiled instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum NotBaked {
    /// The file is missing, or cannot be read.
    Unreadable {
        /// Its path.
        file: String,
        /// The system's reason.
        reason: String,
    },
    /// The file is damaged, or of another version.
    Damaged {
        /// Its path.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file or its folder belongs to another user, and not to root.
    OtherUser {
        /// The path of that.
        path: String,
        /// The user's number.
        user: u32,
    },
    /// All users can write to the file or its folder, or those of another group.
    Writable {
        /// The path of that.
        path: String,
    },
    /// The driver refused the code of an image.
    Refused {
        /// The image.
        image: &'static str,
        /// The driver's error.
        error: DriverCallError,
    },
}

impl fmt::Display for NotBaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const AGAIN: &str = "make it again with `cargo kernels bake`";
        match self {
            NotBaked::Unreadable { file, reason } => {
                write!(f, "`{}` cannot be read: {}", Printable(file), Printable(reason))
            }
            NotBaked::Damaged { file, reason } => {
                write!(f, "`{}` is not used: {reason}; {AGAIN}", Printable(file))
            }
            NotBaked::OtherUser { path, user } => write!(
                f,
                "`{}` belongs to another user (number {user}); copy the file as the user of the program",
                Printable(path)
            ),
            NotBaked::Writable { path } => {
                write!(f, "others can write to `{}`; forbid that with `chmod go-w`", Printable(path))
            }
            NotBaked::Refused { image, error } => {
                write!(f, "the driver refused the code of `{image}`, {}; {AGAIN}", error.in_short())
            }
        }
    }
}

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
    for image in images {
        let PlannedImage { file, bytes, .. } = work.job.plan.images[image];
        let is_text = Route::choose(bytes, 0) == Route::Library { text: true };
        let counting = if is_text { baked::text(bytes) } else { bytes };
        let Some(code) = baked.code(counting, work.device.arch)? else { continue };
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
