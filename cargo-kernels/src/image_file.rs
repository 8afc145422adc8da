//! Reads an image from a file of its own, as given by `--image`.

use std::fs;
use std::path::Path;

use kernel_registry_image::Image;

use crate::failure::Failure;

pub(crate) struct ImageFile {
    /// The file's name as given.
    pub(crate) name: String,
    pub(crate) image: Image,
}

impl ImageFile {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let bytes = fs::read(path).map_err(Failure::of_io(path))?;
        let image = kernel_registry_image::read(&bytes);
        let image = image.map_err(|error| Failure::Image { path: path.to_owned(), error })?;
        Ok(ImageFile { name: path.display().to_string(), image })
    }
}
