//! Before CUDA is touched: which kernels there are, and which images they need.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use kernel_registry_format::{self as format, Kernel};

use crate::registry::registry;
use crate::{Error, KernelInfo};

/// Every registered kernel, grouped by image.
pub(super) struct Plan {
    pub(super) kernels: Vec<Planned>,
    pub(super) images: Vec<PlannedImage>,
}

/// A kernel, with its record read: that takes longer than anything else when everything is warm already.
pub(super) struct Planned {
    /// Its own place in the plan.
    pub(super) place: usize,
    pub(super) info: &'static KernelInfo,
    pub(super) kernel: &'static Kernel<'static>,
    /// The image's place in the plan, if there is one.
    pub(super) image: Option<usize>,
}

/// An image that kernels share. The program contains it once.
pub(super) struct PlannedImage {
    pub(super) file: &'static str,
    pub(super) bytes: &'static [u8],
}

impl Plan {
    /// The plan of this program, which does not change.
    pub(super) fn get() -> Result<&'static Plan, Error> {
        static PLAN: OnceLock<Plan> = OnceLock::new();
        let registry = registry()?;
        Ok(PLAN.get_or_init(|| Plan::new(registry.infos.iter().copied().zip(&registry.kernels))))
    }

    fn new(kernels: impl Iterator<Item = (&'static KernelInfo, &'static Kernel<'static>)>) -> Plan {
        let mut images = Vec::new();
        let mut known = BTreeMap::new();
        let kernels = kernels.enumerate().map(|(place, (info, kernel))| {
            let image = kernel.image.filter(format::Image::is_there).map(|image| {
                let bytes = info.image_bytes();
                *known.entry((bytes.as_ptr(), bytes.len())).or_insert_with(|| {
                    images.push(PlannedImage { file: image.file, bytes });
                    images.len() - 1
                })
            });
            Planned { place, info, kernel, image }
        });
        Plan { kernels: kernels.collect(), images }
    }
}

#[cfg(test)]
mod tests {
    use kernel_registry_format::Image;

    use super::*;
    use crate::info::tests::scale;

    #[test]
    fn kernels_share_images_and_may_have_none() {
        let image = Some(Image { file: "a.ptx", len: 1, variants: "" });
        let kernel = |image| (scale(), &*Box::leak(Box::new(Kernel { image, ..Kernel::EMPTY })));
        let plan = Plan::new([kernel(image), kernel(None), kernel(image)].into_iter());
        let images: Vec<_> = plan.kernels.iter().map(|planned| planned.image).collect();
        assert_eq!(images, [Some(0), None, Some(0)]);
        assert_eq!(plan.images.len(), 1);
    }
}
