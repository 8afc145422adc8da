//! Finds the kernels that nvcc linked into a binary. Their fatbins have an ELF section of their own, and no records.

use kernel_registry_command::many;
use kernel_registry_image::linked::{RELOCATABLE_SECTION, SECTION};
use object::read::archive::ArchiveFile;
use object::{FileKind, Object, ObjectSection, SectionKind};

/// The fatbins that nvcc linked into a binary.
#[derive(Default)]
pub(crate) struct Fatbins<'a> {
    pub(crate) sections: Vec<&'a [u8]>,
    /// Whether there's device code that `nvcc -dlink` hasn't linked yet.
    is_relocatable: bool,
    handed_over: HandedOver,
}

/// Which of these kernels the program hands to kernel-registry to be warmed.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HandedOver {
    #[default]
    None,
    /// The kernels of libraries whose build scripts call `linked_archive`.
    OfArchives,
    /// All kernels: the program's build script calls `linked`.
    All,
}

/// Markers in the functions that hand kernels to kernel-registry, each with the kernels that its function hands over.
const MARKS: [(&[u8], HandedOver); 2] = [
    (b"kernel-registry linked v1 program\0", HandedOver::All),
    (b"kernel-registry linked v1 archive\0", HandedOver::OfArchives),
];

impl<'a> Fatbins<'a> {
    /// Finds the fatbins in an ELF file, or in the object files of an archive. Ignores damage: reading the records
    /// reports it.
    pub(crate) fn find(data: &'a [u8]) -> Self {
        let mut found = Fatbins::default();
        match FileKind::parse(data) {
            Ok(FileKind::Archive) => {
                let members = ArchiveFile::parse(data)
                    .into_iter()
                    .flat_map(|archive| archive.members().collect::<Vec<_>>());
                for member in members.filter_map(|member| member.ok()?.data(data).ok()) {
                    found.add(member);
                }
            }
            Ok(_) => found.add(data),
            Err(_) => {}
        }
        found
    }

    fn add(&mut self, object: &'a [u8]) {
        let Ok(file) = object::File::parse(object) else { return };
        for section in file.sections() {
            match section.name() {
                Ok(SECTION) => self.sections.extend(section.data().ok().filter(|data| !data.is_empty())),
                Ok(RELOCATABLE_SECTION) => self.is_relocatable = true,
                _ => {}
            }
        }
        if self.sections.is_empty() {
            return;
        }
        for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
            let code = section.data().unwrap_or_default();
            let marks =
                MARKS.iter().filter(|(mark, _)| contains(code, mark)).map(|(_, handed_over)| *handed_over);
            self.handed_over = marks.fold(self.handed_over, Ord::max);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    pub(crate) fn handed_over(&self) -> HandedOver {
        self.handed_over
    }

    /// Returns why there are no kernels, if the device code isn't linked yet.
    pub(crate) fn not_linked(&self) -> Option<&'static str> {
        let only = self.is_relocatable && self.sections.is_empty();
        only.then_some(
            "it holds device code of `-rdc=true` that `nvcc -dlink` has not linked yet, so no kernels",
        )
    }
}

impl HandedOver {
    /// Returns a sentence about this number of kernels that nvcc linked, and which of them are warmed.
    pub(crate) fn describe(self, count: usize) -> String {
        let kernels = many(count, "kernel");
        match self {
            HandedOver::All => format!("{kernels} that nvcc linked, which `warm_all` warms"),
            HandedOver::OfArchives => format!(
                "{kernels} that nvcc linked: `warm_all` warms those of libraries that call `kernel_registry_build::linked_archive`, and the \
                 file does not tell whether there are others; call `kernel_registry_build::linked()` in the program's build script, too, \
                 which hands over all kernels, each once"
            ),
            HandedOver::None => format!(
                "{kernels} that nvcc linked, which no `warm_all` warms: call `kernel_registry_build::linked()` in the program's build script"
            ),
        }
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == part[0]) {
        if rest[at..].starts_with(part) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}
