//! Defines the plan of a warm-up: which kernels there are, and which images they need. Planning calls no CUDA function.

use std::collections::HashMap;
use std::ptr;
use std::sync::Mutex;

use kernel_registry_format::{self as format, KernelRecord};

use crate::linked::{self, Linked, NotJoined};
use crate::lock::lock;
use crate::registry::{Registry, registry};
use crate::{KernelInfo, RegistryError};

/// Every registered kernel, and every image that contains registered kernels.
pub(crate) struct Plan {
    pub(super) registry: &'static Registry,
    /// The kernels, in the registry's order.
    pub(super) kernels: Vec<Planned>,
    /// The images. An image has the same index in later plans.
    pub(super) images: Vec<PlannedImage>,
}

/// A kernel with its decoded record, which is kept because decoding is the slowest part of a repeated warm-up.
pub(super) struct Planned {
    /// The kernel's index in this and every later plan: how many kernels were planned before it.
    pub(super) index: usize,
    pub(super) info: &'static KernelInfo,
    pub(super) kernel: &'static KernelRecord<'static>,
    /// The index of the kernel's image in the plan, if the kernel has an image.
    pub(super) image: Option<usize>,
    /// The registration, if nvcc links the kernel.
    pub(super) linked: Option<&'static Result<Linked, NotJoined>>,
}

/// An image that kernels share. The program contains it once.
#[derive(Clone, Copy)]
pub(super) struct PlannedImage {
    pub(super) file: &'static str,
    pub(super) bytes: &'static [u8],
    /// Whether the image is PTX text whose kernels can be compiled separately.
    pub(super) separable: bool,
}

/// The plan of the latest warm-up. Plans are never freed, because other threads may still be warming the kernels of earlier plans.
static LATEST: Mutex<Option<&'static Plan>> = Mutex::new(None);

impl Plan {
    /// Returns the plan of the kernels that are registered now. Kernels and images of earlier plans keep their indices.
    pub(super) fn get() -> Result<&'static Plan, RegistryError> {
        let mut latest = lock(&LATEST);
        let registry = registry()?;
        match *latest {
            Some(plan) if ptr::eq(plan.registry, registry) => Ok(plan),
            earlier => Ok(latest.insert(Box::leak(Box::new(Plan::new(registry, earlier))))),
        }
    }

    /// Returns the plan of the latest warm-up, if there was one.
    pub(crate) fn latest() -> Option<&'static Plan> {
        *lock(&LATEST)
    }

    pub(crate) fn has(&self, kernel: &KernelInfo) -> bool {
        self.kernels.iter().any(|planned| planned.info == kernel)
    }

    fn new(registry: &'static Registry, earlier: Option<&Plan>) -> Plan {
        let planned = earlier.map_or(&[][..], |plan| &plan.kernels);
        let indices: HashMap<_, _> =
            planned.iter().map(|planned| (planned.info.record().as_ptr(), planned.index)).collect();
        let mut next = planned.len();

        let mut images = earlier.map_or_else(Vec::new, |plan| plan.images.clone());
        let key = |bytes: &'static [u8]| (bytes.as_ptr(), bytes.len());
        let mut image_indices: HashMap<_, _> =
            images.iter().enumerate().map(|(index, image)| (key(image.bytes), index)).collect();

        let kernels = registry.infos.iter().copied().zip(&registry.kernels).map(|(info, kernel)| {
            let index = indices.get(&info.record().as_ptr()).copied().unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            let image = kernel.image.filter(format::ImageRecord::is_there).map(|image| {
                let bytes = info.image_bytes();
                *image_indices.entry(key(bytes)).or_insert_with(|| {
                    images.push(PlannedImage { file: image.file, bytes, separable: image.separable });
                    images.len() - 1
                })
            });
            Planned { index, info, kernel, image, linked: registry.linked.get(&linked::key(info)) }
        });
        let kernels = kernels.collect();
        Plan { registry, kernels, images }
    }
}

#[cfg(test)]
mod tests {
    use kernel_registry_format::ImageRecord;

    use super::*;
    use crate::info::tests::{kernel, scale};

    fn registry(kernels: &[(&'static KernelInfo, KernelRecord<'static>)]) -> &'static Registry {
        let (infos, kernels) = kernels.iter().copied().unzip();
        // A static that refers to the leaked memory keeps leak checkers quiet.
        static KEPT: Mutex<Vec<&'static Registry>> = Mutex::new(Vec::new());
        let (other_copies, linked) = (Vec::new(), HashMap::new());
        let registry = Box::leak(Box::new(Registry { infos, kernels, other_copies, linked }));
        lock(&KEPT).push(registry);
        registry
    }

    #[test]
    fn kernels_share_images_and_may_have_none() {
        let with = KernelRecord {
            image: Some(ImageRecord { file: "a.ptx", len: 1, variants: "", separable: false }),
            ..KernelRecord::EMPTY
        };
        let kernels = [with, KernelRecord::EMPTY, with].map(|kernel| (scale(), kernel));
        let plan = Plan::new(registry(&kernels), None);
        let images: Vec<_> = plan.kernels.iter().map(|planned| planned.image).collect();
        assert_eq!(images, [Some(0), None, Some(0)]);
        assert_eq!(plan.images.len(), 1);
    }

    #[test]
    fn kernels_and_images_keep_their_indices() {
        const A: &[u8] = b"a";
        const B: &[u8] = b"b";
        let file = |file| KernelRecord {
            image: Some(ImageRecord { file, len: 1, variants: "", separable: false }),
            ..KernelRecord::EMPTY
        };
        let [b, d, a, c] = ["b", "d", "a", "c"].map(|path| {
            let (file, bytes): (_, fn() -> &'static [u8]) =
                if path < "c" { (file("a.ptx"), || A) } else { (file("b.ptx"), || B) };
            (kernel(path, bytes), KernelRecord { path, ..file })
        });
        let indices = |plan: &Plan| {
            plan.kernels
                .iter()
                .map(|planned| (planned.kernel.path, planned.index, planned.image))
                .collect::<Vec<_>>()
        };
        let first = Plan::new(registry(&[b]), None);
        assert_eq!(indices(&first), [("b", 0, Some(0))]);
        let second = Plan::new(registry(&[b, d]), Some(&first));
        assert_eq!(indices(&second), [("b", 0, Some(0)), ("d", 1, Some(1))]);
        // The order is the registry's, but kernels that were registered later have higher indices.
        let third = Plan::new(registry(&[a, b, c, d]), Some(&second));
        let expected = [("a", 2, Some(0)), ("b", 0, Some(0)), ("c", 3, Some(1)), ("d", 1, Some(1))];
        assert_eq!(indices(&third), expected);
        assert_eq!(third.images.len(), 2);
    }
}
