//! The report of a build.

use std::path::PathBuf;

/// The result of a build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The folder of the index and the images.
    pub folder: PathBuf,
    /// The images, one for each source, in the order of the index.
    pub images: Vec<Image>,
    /// How many sources were compiled. The others have images of earlier builds.
    pub compiled: usize,
    /// The warnings that cargo was given, line by line.
    pub warnings: Vec<String>,
    /// The files and folders that cargo was told to watch.
    pub watched: Vec<PathBuf>,
}

/// A source and its image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Image {
    /// The source, relative to the package.
    pub source: String,
    /// The image's file in the folder, if there is an image.
    pub file: Option<PathBuf>,
    /// Which compiler made the image, or why there is no image.
    pub origin: String,
}
