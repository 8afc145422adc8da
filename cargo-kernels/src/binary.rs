//! Reads the kernel records of a binary: executable, library, archive or object file.

pub(crate) mod copies;
pub(crate) mod declared_image;
pub(crate) mod fatbins;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kernel_registry_command::Failure as Shared;
use kernel_registry_format::{KernelRecord, LibraryRecord, Record, Records, is_control, section};
use kernel_registry_image::Target;
use object::read::archive::ArchiveFile;
use object::{FileKind, Object, ObjectSection};

use crate::failure::Failure;
use copies::Copy;
use declared_image::DeclaredImage;
use fatbins::Fatbins;

/// The kernels that a binary's records describe.
pub(crate) struct Contents<'data> {
    pub(crate) path: PathBuf,
    /// The file's bytes.
    pub(crate) data: &'data [u8],
    /// Ordered by path, then by version, file, line and column.
    pub(crate) kernels: Vec<KernelRecord<'data>>,
    /// The copies of kernel-registry in the binary: usually one.
    pub(crate) libraries: Vec<LibraryRecord<'data>>,
    /// The copies with the number of kernels that are registered with each. Empty if there is only one copy.
    pub(crate) copies: Vec<Copy<'data>>,
    /// The newest record version that this tool cannot read, if there is one.
    pub(crate) newer: Option<u16>,
    /// The kernels that nvcc linked.
    pub(crate) linked: Fatbins<'data>,
    /// The architectures of each image's baked code.
    pub(crate) baked: BTreeMap<DeclaredImage<'data>, Vec<Target>>,
}

impl<'data> Contents<'data> {
    pub(crate) fn read(path: &Path, data: &'data [u8]) -> Result<Self, Failure> {
        let mut contents = Contents {
            path: path.to_owned(),
            data,
            kernels: Vec::new(),
            libraries: Vec::new(),
            copies: Vec::new(),
            newer: None,
            linked: Fatbins::find(data),
            baked: BTreeMap::new(),
        };
        match kind(data) {
            Some(FileKind::Archive) => contents.add_archive(data)?,
            Some(_) => contents.add_object(data)?,
            None => return Err(Shared::NotABinary { path: contents.path }.into()),
        }
        contents
            .kernels
            .sort_by_key(|kernel| (kernel.path, kernel.version, kernel.file, kernel.line, kernel.column));
        contents.libraries.sort_by_key(|library| (library.version, library.compiler, library.copy));
        contents.libraries.dedup();
        contents.copies = copies::several(&contents.kernels, &contents.libraries);
        Ok(contents)
    }

    /// Returns whether the binary holds records, of kernels or of kernel-registry itself.
    pub(crate) fn has_records(&self) -> bool {
        !self.kernels.is_empty() || !self.libraries.is_empty() || self.newer.is_some()
    }

    /// Returns the copies of kernel-registry in the binary, as text.
    pub(crate) fn library_names(&self) -> String {
        let library = |library: &LibraryRecord<'_>| {
            format!("kernel-registry {} ({})", library.version, library.compiler)
        };
        match self.libraries.as_slice() {
            [] => "kernel-registry not linked yet".to_owned(),
            several => several.iter().map(library).collect::<Vec<_>>().join(", "),
        }
    }

    /// Reads a static library or rlib: the object files in it. An rlib has one member that is not an object file.
    fn add_archive(&mut self, data: &'data [u8]) -> Result<(), Failure> {
        let archive = ArchiveFile::parse(data).map_err(|error| self.truncated(error))?;
        for member in archive.members() {
            let member =
                member.and_then(|member| member.data(data)).map_err(|error| self.truncated(error))?;
            if matches!(FileKind::parse(member), Ok(kind) if kind != FileKind::Archive) {
                self.add_object(member)?;
            }
        }
        Ok(())
    }

    fn add_object(&mut self, data: &'data [u8]) -> Result<(), Failure> {
        let file = object::File::parse(data).map_err(|error| self.truncated(error))?;
        for part in file.sections() {
            // A section with an unreadable name has no records.
            let Some(version) = part.name().ok().and_then(section::version) else { continue };
            let bytes = part.data().map_err(|error| self.truncated(error))?;
            if version > kernel_registry_format::VERSION {
                self.add_newer(version);
                continue;
            }
            self.add_section(bytes)?;
        }
        Ok(())
    }

    fn add_section(&mut self, bytes: &'data [u8]) -> Result<(), Failure> {
        for record in Records::new(bytes) {
            match record.map_err(|malformed| Failure::Damaged { path: self.path.clone(), malformed })? {
                Record::Kernel(kernel) => {
                    self.check_names(&kernel)?;
                    self.kernels.push(kernel);
                }
                Record::Library(library) => self.libraries.push(library),
                Record::Newer { version } => self.add_newer(version),
                // A kind of record that this tool does not know yet.
                _ => self.add_newer(kernel_registry_format::VERSION),
            }
        }
        Ok(())
    }

    /// Refuses names with control characters: in a printed line or table, a line break would look like the next kernel.
    fn check_names(&self, kernel: &KernelRecord<'_>) -> Result<(), Failure> {
        let KernelRecord { path, symbol, package, version, file, image, .. } = *kernel;
        let params = kernel.params.iter().flat_map(|param| [param.name, param.ty]);
        let image = image.iter().flat_map(|image| [image.file, image.variants]);
        let mut names = [path, symbol, package, version, file].into_iter().chain(params).chain(image);
        match names.find(|name| name.contains(is_control)) {
            Some(name) => Err(Failure::ControlCharacter { path: self.path.clone(), name: name.to_owned() }),
            None => Ok(()),
        }
    }

    fn add_newer(&mut self, version: u16) {
        self.newer = self.newer.max(Some(version));
    }

    fn truncated(&self, error: object::Error) -> Failure {
        Shared::Truncated { path: self.path.clone(), source: error }.into()
    }
}

/// Returns the kind of a binary. A file that is too short to tell counts as ELF if it begins with ELF's magic number.
fn kind(data: &[u8]) -> Option<FileKind> {
    match FileKind::parse(data) {
        Ok(kind) => Some(kind),
        Err(_) if data.starts_with(b"\x7fELF") => Some(FileKind::Elf64),
        Err(_) => None,
    }
}
