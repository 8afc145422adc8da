//! Finds the images of declared kernels in their binary.
//!
//! A record has the image's length but not its offset, because linkers write zeros for pointers in records. So we
//! search for images of this length, and pick the one with the declared kernels.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kernel_registry_format::KernelRecord;
use kernel_registry_image::Image;
use kernel_registry_image::embedded::Search;

use super::compare;
use crate::binary::Contents;
use crate::binary::declared_image::DeclaredImage;

/// The image that was found for some declarations, and the symbols of their kernels.
pub(crate) struct Found<'a> {
    /// `None` if the binary doesn't contain it.
    pub(crate) image: Option<Rc<Image>>,
    /// Whether only this image fits.
    pub(crate) is_certain: bool,
    pub(crate) symbols: BTreeSet<&'a str>,
}

/// The images of a binary's kernels.
pub(crate) struct EmbeddedImages<'a>(BTreeMap<DeclaredImage<'a>, Found<'a>>);

impl<'a> EmbeddedImages<'a> {
    /// Finds the images of these kernels.
    pub(crate) fn find(binary: &Contents<'a>, is_wanted: impl Fn(&KernelRecord<'a>) -> bool) -> Self {
        let mut declared: BTreeMap<DeclaredImage<'a>, Vec<KernelRecord<'a>>> = BTreeMap::new();
        for kernel in &binary.kernels {
            if let Some(recorded) = DeclaredImage::from_kernel(kernel) {
                declared.entry(recorded).or_default().push(*kernel);
            }
        }
        declared.retain(|_, kernels| kernels.iter().any(&is_wanted));
        let mut of_length: BTreeMap<usize, Vec<(DeclaredImage<'a>, Vec<KernelRecord<'a>>)>> = BTreeMap::new();
        for (recorded, kernels) in declared {
            let length = usize::try_from(recorded.len).unwrap_or(usize::MAX);
            of_length.entry(length).or_default().push((recorded, kernels));
        }
        let search = Search::new(binary.data, of_length.keys().copied());
        let mut found = BTreeMap::new();
        for (length, declared) in of_length {
            let images: Vec<Rc<Image>> = search.images(length).into_iter().map(Rc::new).collect();
            found.extend(
                declared.into_iter().map(|(recorded, kernels)| (recorded, Found::among(&images, &kernels))),
            );
        }
        EmbeddedImages(found)
    }

    /// Returns the image of a kernel. `None` if the declaration has no image.
    pub(crate) fn image_of(&self, kernel: &KernelRecord<'a>) -> Option<&Found<'a>> {
        self.0.get(&DeclaredImage::from_kernel(kernel)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&DeclaredImage<'a>, &Found<'a>)> {
        self.0.iter()
    }
}

impl<'a> Found<'a> {
    /// Picks the image with most of these kernels. If several have equally many, the one that matches most
    /// declarations.
    fn among(candidates: &[Rc<Image>], kernels: &[KernelRecord<'a>]) -> Self {
        let there =
            |image: &Image| kernels.iter().filter(|kernel| !image.named(kernel.symbol).is_empty()).count();
        let alike = |image: &Image| {
            kernels
                .iter()
                .filter(|kernel| {
                    compare::compare(kernel, image, "").is_ok_and(|compared| compared.mismatches.is_empty())
                })
                .count()
        };
        let counted: Vec<(usize, &Rc<Image>)> =
            candidates.iter().map(|image| (there(image), image)).collect();
        let most = counted.iter().map(|(there, _)| *there).max().unwrap_or(0);
        let with_most = counted.into_iter().filter(|(there, _)| most > 0 && *there == most);
        let mut candidates: Vec<Rc<Image>> = with_most.map(|(_, image)| image.clone()).collect();
        let is_certain = candidates.len() == 1;
        if !is_certain {
            candidates.sort_by_cached_key(|image| std::cmp::Reverse(alike(image)));
        }
        let symbols = kernels.iter().map(|kernel| kernel.symbol).collect();
        Found { image: candidates.into_iter().next(), is_certain, symbols }
    }
}
