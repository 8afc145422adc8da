//! The kernels of the running program.

use std::collections::HashSet;
use std::fmt;
use std::sync::OnceLock;

use kernel_registry_format::{Frames, Kernel, Record, Records};

use crate::__private::Registration;
use crate::{Error, KernelInfo, Place, records};

/// Every registered kernel, ordered by path; equal paths by package version and place.
///
/// The first call compares what registered itself at start with what the binary holds; a difference
/// is an error here, instead of a kernel that is missing later.
pub fn kernels() -> Result<&'static [&'static KernelInfo], Error> {
    registry().map(|registry| registry.infos.as_slice())
}

/// The kernel whose type has this path, such as `kernels::blas1::saxpy`.
pub fn find(path: &str) -> Result<&'static KernelInfo, Error> {
    let registry = registry()?;
    match registry.called(path) {
        [kernel] => Ok(kernel),
        [] => Err(Error::NotFound { path: path.to_owned(), near: registry.near(path) }),
        several => Err(Error::Ambiguous {
            path: path.to_owned(),
            places: several.iter().map(|kernel| kernel.location()).collect(),
        }),
    }
}

/// Paths that several kernels have, with all of these.
///
/// This is no error as such: two versions of a crate can be in one program, and two functions of
/// a module can each have a kernel of the same name. But [`find`] cannot tell them apart.
pub fn duplicates() -> Result<Vec<Duplicate>, Error> {
    let same_path = |a: &&KernelInfo, b: &&KernelInfo| a.path() == b.path();
    let groups = kernels()?.chunk_by(same_path).filter(|group| group.len() > 1);
    Ok(groups.map(|kernels| Duplicate { kernels }).collect())
}

/// The kernels and, in the same order, what their records say.
pub(crate) struct Registry {
    pub(crate) infos: Vec<&'static KernelInfo>,
    pub(crate) kernels: Vec<Kernel<'static>>,
}

pub(crate) fn registry() -> Result<&'static Registry, Error> {
    static REGISTRY: OnceLock<Result<Registry, Error>> = OnceLock::new();
    REGISTRY.get_or_init(Registry::new).as_ref().map_err(Clone::clone)
}

impl Registry {
    fn new() -> Result<Self, Error> {
        let infos = inventory::iter::<Registration>().map(|registration| registration.0);
        let both: Vec<_> = infos.map(|info| (info.kernel(), info)).collect();
        if let Some(section) = records::section() {
            compare(section, &both)?;
        }
        // What a record says is large, and sorting moves things often: so it moves references.
        let mut sorted: Vec<_> = both.iter().collect();
        sorted.sort_by_key(|(kernel, _)| {
            (kernel.path, kernel.version, kernel.file, kernel.line, kernel.column)
        });
        let (kernels, infos) = sorted.into_iter().copied().unzip();
        Ok(Registry { infos, kernels })
    }

    /// The kernels with this path.
    fn called(&self, path: &str) -> &[&'static KernelInfo] {
        let start = self.kernels.partition_point(|kernel| kernel.path < path);
        let end = self.kernels.partition_point(|kernel| kernel.path <= path);
        &self.infos[start..end]
    }

    /// Up to three paths that somebody who wrote `path` may have meant.
    fn near(&self, path: &str) -> Vec<&'static str> {
        let wanted = path.rsplit("::").next().unwrap_or_default();
        let mut close: Vec<(usize, &'static str)> = self
            .kernels
            .iter()
            .map(|kernel| (strsim::damerau_levenshtein(kernel.name(), wanted), kernel.path))
            .filter(|(distance, _)| 3 * distance <= wanted.len())
            .collect();
        close.sort();
        close.dedup();
        close.into_iter().map(|(_, path)| path).take(3).collect()
    }
}

/// Kernels that share one path. At least two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    kernels: &'static [&'static KernelInfo],
}

impl Duplicate {
    /// The path that they share.
    pub fn path(&self) -> &'static str {
        self.kernels[0].path()
    }

    /// The kernels.
    pub fn kernels(&self) -> &'static [&'static KernelInfo] {
        self.kernels
    }
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is declared {} times:", self.path(), self.kernels.len())?;
        self.kernels.iter().try_for_each(|kernel| write!(f, "\n  {}", kernel.location()))
    }
}

/// Compares the kernels that registered themselves with the records in the section.
///
/// Kernels whose record lies elsewhere belong to another shared library, which has a section of its own.
fn compare(section: &'static [u8], kernels: &[(Kernel<'static>, &KernelInfo)]) -> Result<(), Error> {
    let bounds = section.as_ptr_range();
    let ours = kernels.iter().filter(|(_, info)| bounds.contains(&info.record().as_ptr()));
    let registrations = ours.clone().count();

    let mut records = 0;
    for frame in Frames::new(section) {
        records += usize::from(frame.map_err(Error::SectionDamaged)?.is_kernel());
    }

    if records > registrations {
        let identity = |place: Place| (place.path, place.version, place.file, place.line);
        let known: HashSet<_> = ours.map(|(kernel, _)| identity(Place::of(kernel))).collect();
        let recorded = Records::new(section).filter_map(|record| match record {
            Ok(Record::Kernel(kernel)) => Some(Place::of(&kernel)),
            _ => None,
        });
        let missing = recorded.filter(|place| !known.contains(&identity(*place))).collect();
        return Err(Error::RegistrationsLost { records, registrations, missing });
    }
    if records < registrations {
        return Err(Error::RecordsLost { records, registrations });
    }
    Ok(())
}
