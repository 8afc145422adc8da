//! Reads the input of `declare`: an image, or a CUDA source, which is compiled to an image.

use std::path::{self, Path, PathBuf};
use std::{env, fs, process};

use kernel_registry_build::Build;
use kernel_registry_command::Mapped;
use kernel_registry_image::Image;

use super::source::Source;
use crate::binaries::artifacts::package_folder;
use crate::cli::Declare;
use crate::document::unread::{Unread, UnreadVariant};
use crate::failure::Failure;

/// Everything that is known about the kernels of one file.
pub(super) struct Unit {
    /// The path of the file.
    pub(super) path: PathBuf,
    pub(super) input: Input,
    pub(super) image: Image,
    pub(super) source: Source,
    /// The variants that cannot be read.
    pub(super) unread: Unread,
}

impl Unit {
    pub(super) fn read(options: &Declare) -> Result<Unit, Failure> {
        let (input, bytes) = Input::read(options)?;
        let image = kernel_registry_image::read(&bytes)
            .map_err(|error| Failure::Image { path: options.file.clone(), error })?;
        let source = match &input.source {
            Some(source) => Source::read(source, &options.flags, &image)?,
            None => Source::default(),
        };
        let mut unread = Unread::default();
        unread.add(&options.file.display().to_string(), &UnreadVariant::in_image(&image));
        Ok(Unit { path: options.file.clone(), input, image, source, unread })
    }
}

/// The name of an image in declarations.
pub(super) struct Input {
    /// The argument that names image or source, such as `file = "cuda/x.cu"`.
    pub(super) code: String,
    /// The path in that argument.
    pub(super) path: String,
    /// The CUDA source, if one is known.
    pub(super) source: Option<PathBuf>,
}

impl Input {
    /// Reads the input, and returns it with the bytes of the image.
    fn read(options: &Declare) -> Result<(Input, Vec<u8>), Failure> {
        let file = &options.file;
        let is_source = file.extension().is_some_and(|extension| extension == "cu");
        let key = if is_source && options.image.is_none() { "file" } else { "image" };
        let path = match &options.image {
            Some(path) => path.clone(),
            None => PackagedFile::find(file)?.declared()?,
        };
        let bytes = if is_source { compiled(file, &options.flags)? } else { Mapped::open(file)?.to_vec() };
        let source = options.source.clone().or_else(|| is_source.then(|| file.clone()));
        Ok((Input { code: format!("{key} = {path:?}"), path, source }, bytes))
    }
}

/// The path of a file in its package.
struct PackagedFile {
    /// The folder of Cargo.toml.
    package: PathBuf,
    relative: PathBuf,
}

impl PackagedFile {
    fn find(file: &Path) -> Result<PackagedFile, Failure> {
        let absolute = path::absolute(file).map_err(Failure::of_io(file))?;
        let package = package_folder(absolute.ancestors().skip(1));
        let relative = package.and_then(|package| absolute.strip_prefix(package).ok());
        match (package, relative) {
            (Some(package), Some(relative)) => {
                Ok(PackagedFile { package: package.to_owned(), relative: relative.to_owned() })
            }
            _ => Err(Failure::NoPackage { path: file.to_owned() }),
        }
    }

    /// Returns the path in the package with slashes, as declarations write it.
    fn declared(&self) -> Result<String, Failure> {
        match self.relative.to_str() {
            Some(relative) => Ok(relative.replace(path::MAIN_SEPARATOR, "/")),
            None => Err(Failure::NoPackage { path: self.relative.clone() }),
        }
    }
}

/// Returns the image of a source. Like a build script, it uses a compiler, or else a prebuilt image.
fn compiled(file: &Path, flags: &[String]) -> Result<Vec<u8>, Failure> {
    let unreadable = Failure::of_io(file);
    fs::metadata(file).map_err(unreadable)?;
    let PackagedFile { package, relative } = PackagedFile::find(file)?;
    let out = env::temp_dir().join(format!("cargo-kernels-{}", process::id()));
    let build = Build::new().package(package).out_dir(&out).cargo_output(false).file(relative);
    let build = flags.iter().fold(build, |build, flag| build.flag(flag));
    let image = match build.try_compile() {
        Ok(report) => match report.images.into_iter().next() {
            Some(image) => image.file.map(|file| fs::read(report.folder.join(file))).ok_or(image.origin),
            None => Err("it was not compiled".to_owned()),
        },
        Err(error) => Err(error.to_string()),
    };
    // The folder has nothing else in it.
    let _ = fs::remove_dir_all(&out);
    let image = image.map_err(|why| Failure::NotCompiled { path: file.to_owned(), why })?;
    image.map_err(unreadable)
}
