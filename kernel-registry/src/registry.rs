//! The kernels of the running program.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{PoisonError, RwLock};

use kernel_registry_format::{Frames, Kernel, Record, Records};

use crate::records::{self, COPY};
use crate::{Error, KernelInfo, OtherCopy, Place, registration};

/// Every registered kernel, ordered by path; equal paths by package version and place.
///
/// The first call compares what registered itself at start with what the binary holds; a difference
/// is an error here, instead of a kernel that is missing later.
///
/// A Rust shared library (`crate-type = ["dylib"]`) that shares this library with the program registers its kernels
/// when it is loaded. The next call returns a new slice with these; earlier slices stay as they are.
///
/// Kernels of [another copy](OtherCopy) of kernel-registry are not among them.
pub fn kernels() -> Result<&'static [&'static KernelInfo], Error> {
    registry().map(|registry| registry.infos.as_slice())
}

/// The kernel whose type has this path, such as `kernels::blas1::saxpy`.
pub fn find(path: &str) -> Result<&'static KernelInfo, Error> {
    let registry = registry()?;
    match registry.called(path) {
        [kernel] => Ok(kernel),
        [] => Err(Error::NotFound {
            path: path.to_owned(),
            near: registry.near(path),
            other_copy: registry.other_copies.iter().find(|copy| copy.has(path)),
        }),
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
    pub(crate) other_copies: Vec<OtherCopy>,
}

/// The registry of the kernels that are registered now.
///
/// It is made anew when a library with kernels has been loaded. Earlier ones are never freed, because callers
/// have references to them.
pub(crate) fn registry() -> Result<&'static Registry, Error> {
    static LATEST: RwLock<Option<Made>> = RwLock::new(None);
    let registered = registration::count();
    let known = |latest: &Option<Made>| {
        let made = latest.as_ref().filter(|made| made.registrations >= registered)?;
        Some(made.registry.clone())
    };
    if let Some(registry) = known(&LATEST.read().unwrap_or_else(PoisonError::into_inner)) {
        return registry;
    }
    let mut latest = LATEST.write().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have made it meanwhile.
    known(&latest).unwrap_or_else(|| latest.insert(Made::new()).registry.clone())
}

/// A registry, or why there is none.
struct Made {
    /// How many kernels had registered themselves.
    registrations: usize,
    registry: Result<&'static Registry, Error>,
}

impl Made {
    fn new() -> Self {
        let both: Vec<_> = registration::kernels().into_iter().map(|info| (info.kernel(), info)).collect();
        let registry = Registry::new(&both).map(|registry| &*Box::leak(Box::new(registry)));
        Made { registrations: both.len(), registry }
    }
}

impl Registry {
    fn new(both: &[(Kernel<'static>, &'static KernelInfo)]) -> Result<Self, Error> {
        let other_copies = match records::section() {
            Some(section) => compare(section, both)?,
            None => Vec::new(),
        };
        // What a record says is large, and sorting moves things often: so it moves references.
        let mut sorted: Vec<_> = both.iter().collect();
        sorted.sort_by_key(|(kernel, _)| {
            (kernel.path, kernel.version, kernel.file, kernel.line, kernel.column)
        });
        let (kernels, infos) = sorted.into_iter().copied().unzip();
        Ok(Registry { infos, kernels, other_copies })
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

/// Compares the kernels that registered themselves with the records in the section, and returns the other copies of
/// this library that have records there.
///
/// Kernels whose record lies elsewhere belong to another shared library, which has a section of its own.
fn compare(
    section: &'static [u8],
    kernels: &[(Kernel<'static>, &KernelInfo)],
) -> Result<Vec<OtherCopy>, Error> {
    let bounds = section.as_ptr_range();
    let registered = kernels.iter().filter(|(_, info)| bounds.contains(&info.record().as_ptr()));
    let registrations = registered.clone().count();

    let (mut of_kernels, mut of_libraries) = (0, 0);
    for frame in Frames::new(section) {
        match frame.map_err(Error::SectionDamaged)?.is_kernel() {
            true => of_kernels += 1,
            false => of_libraries += 1,
        }
    }
    if of_kernels == registrations && of_libraries == 1 {
        return Ok(Vec::new());
    }

    // Rare, so only now every record is decoded. One without a copy was written by an older version than this.
    let (mut recorded, mut others) = (Vec::new(), BTreeMap::<u64, OtherCopy>::new());
    for record in Records::new(section) {
        match record.map_err(Error::SectionDamaged)? {
            Record::Kernel(kernel) if kernel.copy == COPY => recorded.push(Place::of(&kernel)),
            Record::Kernel(kernel) => others.entry(kernel.copy).or_default().kernels.push(Place::of(&kernel)),
            Record::Library(library) if library.copy != COPY => {
                others.entry(library.copy).or_default().version = library.version;
            }
            _ => {}
        }
    }
    let records = recorded.len();
    if records > registrations {
        let identity = |place: Place| (place.path, place.version, place.file, place.line);
        let known: HashSet<_> = registered.map(|(kernel, _)| identity(Place::of(kernel))).collect();
        let missing = recorded.into_iter().filter(|place| !known.contains(&identity(*place))).collect();
        return Err(Error::RegistrationsLost { records, registrations, missing });
    }
    if records < registrations {
        return Err(Error::RecordsLost { records, registrations });
    }
    let mut others: Vec<_> = others.into_values().collect();
    others.iter_mut().for_each(|copy| copy.kernels.sort_by_key(|place| (place.path, place.line)));
    Ok(others)
}
