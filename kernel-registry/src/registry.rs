//! The registry: all kernels of the running program.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{PoisonError, RwLock};

use kernel_registry_format::{Frames, KernelRecord, Malformed, Record, Records};

use crate::linked::{self, Registrations};
use crate::records::{self, COPY};
use crate::{KernelInfo, OtherCopy, Place, RegistryError};

/// Kernels of images that were compiled at run time. Without the feature `runtime` there are none.
#[cfg(feature = "runtime")]
use crate::runtime;
#[cfg(not(feature = "runtime"))]
mod runtime {
    pub(super) fn count() -> usize {
        0
    }

    pub(super) fn kernels() -> [&'static crate::KernelInfo; 0] {
        []
    }
}

/// A kernel in the list that the crate inventory collects before `main`.
pub struct Registration {
    info: &'static KernelInfo,
    /// The library's record. Because of this reference, the linker keeps the record wherever it keeps the registration.
    _library: &'static [u8],
}

impl Registration {
    /// Returns the registration of a kernel.
    pub const fn new(info: &'static KernelInfo) -> Self {
        Registration { info, _library: &records::ANCHOR }
    }
}

inventory::collect!(Registration);

/// Returns every registered kernel, ordered by path. Kernels of equal paths are ordered by package version and source line.
///
/// The first call compares the kernels that registered themselves before `main` with the records in the binary. If they differ, this
/// function returns an error, instead of a list in which a kernel is missing.
///
/// A Rust shared library (`crate-type = ["dylib"]`) that uses the same copy of this library as the program registers its kernels when
/// it is loaded. The next call returns a new slice that contains these kernels; slices of earlier calls do not change.
///
/// Kernels of [another copy](OtherCopy) of kernel-registry are not in the slice.
///
/// # Errors
///
/// The linker dropped registrations or records, or the link section of the records is damaged.
pub fn kernels() -> Result<&'static [&'static KernelInfo], RegistryError> {
    registry().map(|registry| registry.infos.as_slice())
}

/// Returns the kernel with this path, such as `kernels::blas1::saxpy`, or else the only kernel whose path ends with it: `saxpy`,
/// `blas1::saxpy`, `reduce::<f32, 256>`. So a program can compose a kernel's name at run time:
///
/// ```no_run
/// # fn sqrt(dtype: &str) -> Result<(), kernel_registry::RegistryError> {
/// let kernel = kernel_registry::find(&format!("usqrt_{dtype}"))?;
/// # Ok(())
/// # }
/// ```
///
/// A whole path is found by binary search. The end of a path is compared with every kernel, so call this once and keep the result.
///
/// # Errors
///
/// No kernel or several kernels have this path, or one of the errors of [`kernels`].
pub fn find(path: &str) -> Result<&'static KernelInfo, RegistryError> {
    let registry = registry()?;
    let called = registry.called(path);
    let ending = if called.is_empty() { registry.ending(path) } else { Vec::new() };
    one_of(if called.is_empty() { &ending } else { called }, path, || RegistryError::NotFound {
        path: path.to_owned(),
        near: registry.near(path),
        other_copy: registry.other_copies.iter().find(|copy| copy.has(path)),
    })
}

/// Returns the only kernel with this symbol in its image: [`KernelInfo::symbol`]. The symbol is compared with every kernel, so call
/// this once and keep the result.
///
/// # Errors
///
/// No kernel or several kernels have this symbol, or one of the errors of [`kernels`].
pub fn find_symbol(symbol: &str) -> Result<&'static KernelInfo, RegistryError> {
    let registry = registry()?;
    let found = registry.with(|kernel| kernel.symbol == symbol);
    one_of(&found, symbol, || RegistryError::SymbolNotFound {
        symbol: symbol.to_owned(),
        near: near(symbol, registry.kernels.iter().map(|kernel| (kernel.symbol, kernel.symbol))),
    })
}

/// Returns the kernel if exactly one was found, and otherwise the error for no kernel or for several.
fn one_of(
    found: &[&'static KernelInfo],
    name: &str,
    none: impl FnOnce() -> RegistryError,
) -> Result<&'static KernelInfo, RegistryError> {
    match found {
        [kernel] => Ok(kernel),
        [] => Err(none()),
        several => Err(RegistryError::Ambiguous {
            path: name.to_owned(),
            places: several.iter().map(|kernel| kernel.location()).collect(),
        }),
    }
}

/// Returns each path that several kernels have, with these kernels.
///
/// Duplicates are no error: two versions of a crate can be in one program, and two functions of a module can each declare a kernel of
/// the same name. But [`find`] cannot distinguish them.
///
/// # Errors
///
/// The same errors as [`kernels`].
pub fn duplicates() -> Result<Vec<Duplicate>, RegistryError> {
    let same_path = |a: &&KernelInfo, b: &&KernelInfo| a.path() == b.path();
    let groups = kernels()?.chunk_by(same_path).filter(|group| group.len() > 1);
    Ok(groups.map(|kernels| Duplicate { kernels }).collect())
}

/// All kernels (`infos`) and, in the same order, their decoded records (`kernels`).
pub(crate) struct Registry {
    pub(crate) infos: Vec<&'static KernelInfo>,
    pub(crate) kernels: Vec<KernelRecord<'static>>,
    pub(crate) other_copies: Vec<OtherCopy>,
    pub(crate) linked: Registrations,
}

/// Returns the registry of the kernels that are registered now.
///
/// If kernels were registered since the last call, this builds a new registry. Earlier registries are never freed, because callers
/// have references to them.
pub(crate) fn registry() -> Result<&'static Registry, RegistryError> {
    static LATEST: RwLock<Option<Built>> = RwLock::new(None);
    let registered = registered();
    let known = |latest: &Option<Built>| {
        let built = latest.as_ref().filter(|built| built.registrations >= registered)?;
        Some(built.registry.clone())
    };
    if let Some(registry) = known(&LATEST.read().unwrap_or_else(PoisonError::into_inner)) {
        return registry;
    }
    let mut latest = LATEST.write().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have built the registry before this thread got the lock.
    known(&latest).unwrap_or_else(|| latest.insert(Built::new()).registry.clone())
}

/// Returns how many registrations there were until now. The number never decreases.
fn registered() -> usize {
    inventory::iter::<Registration>().count() + runtime::count() + linked::count()
}

/// The result of building a registry.
struct Built {
    /// The number of registrations when the registry was built.
    registrations: usize,
    registry: Result<&'static Registry, RegistryError>,
}

impl Built {
    fn new() -> Self {
        let registrations = registered();
        let declared = inventory::iter::<Registration>().map(|registration| registration.info);
        let infos = declared.chain(runtime::kernels()).chain(linked::kernels());
        let mut both: Vec<_> = infos.map(|info| (info.kernel(), info)).collect();
        let linked = linked::join(&mut both);
        let registry = Registry::new(&both, linked).map(|registry| &*Box::leak(Box::new(registry)));
        Built { registrations, registry }
    }
}

impl Registry {
    fn new(
        both: &[(KernelRecord<'static>, &'static KernelInfo)],
        linked: Registrations,
    ) -> Result<Self, RegistryError> {
        let other_copies = match records::section() {
            Some(section) => compare(section, both)?,
            None => Vec::new(),
        };
        // Decoded records are large, so references are sorted instead.
        let mut sorted: Vec<_> = both.iter().collect();
        sorted.sort_by_key(|(kernel, _)| {
            (kernel.path, kernel.version, kernel.file, kernel.line, kernel.column)
        });
        let (kernels, infos) = sorted.into_iter().copied().unzip();
        Ok(Registry { infos, kernels, other_copies, linked })
    }

    /// Returns the kernels with this path.
    fn called(&self, path: &str) -> &[&'static KernelInfo] {
        let start = self.kernels.partition_point(|kernel| kernel.path < path);
        let end = self.kernels.partition_point(|kernel| kernel.path <= path);
        &self.infos[start..end]
    }

    /// Returns the kernels whose path ends with `::` and then `end`.
    fn ending(&self, end: &str) -> Vec<&'static KernelInfo> {
        self.with(|kernel| kernel.path.strip_suffix(end).is_some_and(|start| start.ends_with("::")))
    }

    /// Returns the kernels whose records satisfy a condition.
    fn with(&self, holds: impl Fn(&KernelRecord<'static>) -> bool) -> Vec<&'static KernelInfo> {
        let both = self.kernels.iter().zip(&self.infos);
        both.filter(|(kernel, _)| holds(kernel)).map(|(_, info)| *info).collect()
    }

    /// Returns up to three registered paths that are similar to `path`.
    fn near(&self, path: &str) -> Vec<&'static str> {
        let wanted = path.rsplit("::").next().unwrap_or_default();
        near(wanted, self.kernels.iter().map(|kernel| (kernel.name(), kernel.path)))
    }
}

/// Returns suggestions for a name that was not found. `named` yields each known name with the text to suggest for it. Returns the texts
/// of up to three similar names.
fn near(wanted: &str, named: impl Iterator<Item = (&'static str, &'static str)>) -> Vec<&'static str> {
    let mut close: Vec<(usize, &'static str)> = named
        .map(|(name, shown)| (strsim::damerau_levenshtein(name, wanted), shown))
        .filter(|(distance, _)| 3 * distance <= wanted.len())
        .collect();
    close.sort();
    close.dedup();
    close.into_iter().map(|(_, shown)| shown).take(3).collect()
}

/// Two or more kernels that share one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    kernels: &'static [&'static KernelInfo],
}

impl Duplicate {
    /// Returns the path that the kernels share.
    pub fn path(&self) -> &'static str {
        self.kernels[0].path()
    }

    /// Returns the kernels.
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

fn damaged(malformed: Malformed) -> RegistryError {
    RegistryError::SectionDamaged { reason: malformed.to_string() }
}

/// Compares the kernels that registered themselves with the records in the section. Returns the other copies of this library that have
/// records in the section.
///
/// A kernel whose record is not in the section belongs to another shared library, which has its own section.
fn compare(
    section: &'static [u8],
    kernels: &[(KernelRecord<'static>, &KernelInfo)],
) -> Result<Vec<OtherCopy>, RegistryError> {
    let bounds = section.as_ptr_range();
    let registered = kernels.iter().filter(|(_, info)| bounds.contains(&info.record().as_ptr()));
    let registrations = registered.clone().count();

    let (mut of_kernels, mut of_libraries) = (0, 0);
    for frame in Frames::new(section) {
        match frame.map_err(damaged)?.is_kernel() {
            true => of_kernels += 1,
            false => of_libraries += 1,
        }
    }
    if of_kernels == registrations && of_libraries == 1 {
        return Ok(Vec::new());
    }

    // Records are decoded only here, because a difference is rare. A record without the number of a copy (0) was written by an
    // older version of this library.
    let (mut recorded, mut others) = (Vec::new(), BTreeMap::<u64, OtherCopy>::new());
    for record in Records::new(section) {
        match record.map_err(damaged)? {
            Record::Kernel(kernel) if kernel.copy == COPY => recorded.push(Place::from_record(&kernel)),
            Record::Kernel(kernel) => {
                others.entry(kernel.copy).or_default().kernels.push(Place::from_record(&kernel))
            }
            Record::Library(library) if library.copy != COPY => {
                others.entry(library.copy).or_default().version = library.version;
            }
            _ => {}
        }
    }
    let records = recorded.len();
    if records > registrations {
        let identity = |place: Place| (place.path, place.version, place.file, place.line);
        let known: HashSet<_> = registered.map(|(kernel, _)| identity(Place::from_record(kernel))).collect();
        let missing = recorded.into_iter().filter(|place| !known.contains(&identity(*place))).collect();
        return Err(RegistryError::RegistrationsLost { records, registrations, missing });
    }
    if records < registrations {
        return Err(RegistryError::RecordsLost { records, registrations });
    }
    let mut others: Vec<_> = others.into_values().collect();
    others.iter_mut().for_each(|copy| copy.kernels.sort_by_key(|place| (place.path, place.line)));
    Ok(others)
}
