//! Makes a `KernelInfo` for each kernel that nvcc linked.

mod described;
#[cfg(feature = "linked")]
mod images;

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use super::{Linked, list};
use crate::KernelInfo;
use crate::lock::lock;
use described::Described;

/// The kernels that earlier calls of `kernels` have returned.
static LISTED: Mutex<Listed> = Mutex::new(Listed { registered: 0, hosts: None, kernels: Vec::new() });

struct Listed {
    /// The number of registrations at the last call.
    registered: usize,
    /// The addresses of the host functions of `kernels`. `None` before the first call, because `HashSet::new` isn't `const`.
    hosts: Option<HashSet<usize>>,
    kernels: Vec<&'static KernelInfo>,
}

/// Returns the number of registrations. A kernel that was registered twice counts twice.
pub(crate) fn count() -> usize {
    list::count()
}

/// Returns all registered kernels, one for each host function. nvcc registers an instance of a template once for each source file
/// that uses it, with the same host function or a different one.
pub(crate) fn kernels() -> Vec<&'static KernelInfo> {
    let Listed { registered, hosts, kernels } = &mut *lock(&LISTED);
    let now = list::count();
    if *registered < now {
        let hosts = hosts.get_or_insert_default();
        let mut fatbins: BTreeMap<usize, Vec<Linked>> = BTreeMap::new();
        for linked in list::kernels().filter(|linked| hosts.insert(linked.host)) {
            fatbins.entry(linked.fatbin).or_default().push(linked);
        }
        for (fatbin, linked) in fatbins {
            let described = describe(fatbin, &linked);
            kernels
                .extend(described.into_iter().zip(linked).map(|(described, linked)| info(described, linked)));
        }
        *registered = now;
    }
    kernels.clone()
}

#[cfg(feature = "linked")]
use images::describe;

/// Describes each kernel by its symbol only: images are read only with the feature `linked`.
#[cfg(not(feature = "linked"))]
fn describe(_fatbin: usize, linked: &[Linked]) -> Vec<Described> {
    let described = |linked: &Linked| {
        let symbol = linked.symbol.to_string_lossy();
        Described::unread(&symbol, &symbol)
    };
    linked.iter().map(described).collect()
}

/// Creates the `KernelInfo` of a record. It's never freed, because launches refer to it.
fn info(Described { record, is_read }: Described, linked: Linked) -> &'static KernelInfo {
    Box::leak(Box::new(KernelInfo::linked(record.leak(), Linked { is_read, ..linked })))
}
