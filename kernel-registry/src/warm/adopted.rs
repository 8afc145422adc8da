//! Lets other code of the program have the warm kernels of adopted images.

use super::code::Route;
use super::report::NotAdopted;
use super::work::Work;
use crate::adopt;
use crate::contexts::{self, Libraries};

/// Returns the images that were to be adopted, but have variables.
pub(super) fn refused(work: &Work<'_>) -> Vec<NotAdopted> {
    let images = work.job.plan.images.iter();
    let refused = images.filter_map(|image| Some((image.file, adopt::refused(image.bytes)?)));
    refused.map(|(image, variable)| NotAdopted { image, variable }).collect()
}

/// Enters the warm kernels of each adopted image.
pub(super) fn enter(work: &Work<'_>) {
    for (index, image) in work.job.plan.images.iter().enumerate() {
        if !adopt::is_adopted(image.bytes) {
            continue;
        }
        let arch = work.device.arch;
        let is_whole = work.loaded.modules.get(index).is_some()
            || Route::choose(image.bytes, arch) != Route::Module
                && Libraries::find_or_add(image.bytes, arch).has_whole();
        let of_image = work.job.plan.kernels.iter().filter(|planned| planned.image == Some(index));
        let kernels = of_image.filter_map(|planned| {
            let warm = work.loaded.kernels.get(planned.index)?;
            Some((planned.kernel.symbol, warm.function))
        });
        contexts::adopted::enter(&work.current, work.job.known.id, image.bytes, is_whole, kernels);
    }
}
