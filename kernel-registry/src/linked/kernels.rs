//! The `KernelInfo`s of kernels that nvcc linked.

use std::collections::HashSet;
use std::sync::Mutex;

use kernel_registry_format::{KernelRecord, Needs, Params, write_kernel};

use super::{Linked, list};
use crate::KernelInfo;
use crate::lock::lock;
use crate::records::COPY;

/// Stands for the source of these kernels, which nothing in the program tells.
const PLACE: &str = "code that nvcc linked";

/// The kernels that were listed before.
static LISTED: Mutex<Listed> = Mutex::new(Listed { registered: 0, hosts: None, kernels: Vec::new() });

struct Listed {
    /// How many registrations there were.
    registered: usize,
    /// The host functions of these kernels.
    hosts: Option<HashSet<usize>>,
    kernels: Vec<&'static KernelInfo>,
}

/// How many kernels have been registered, those twice that were registered twice.
pub(crate) fn count() -> usize {
    list::count()
}

/// All registered kernels, each once. nvcc registers instances of a template once for each source that uses them, with a host
/// function of their own or the same one.
pub(crate) fn kernels() -> Vec<&'static KernelInfo> {
    let mut listed = lock(&LISTED);
    let registered = list::count();
    if listed.registered < registered {
        let Listed { hosts, kernels, .. } = &mut *listed;
        let hosts = hosts.get_or_insert_default();
        kernels.extend(list::all().filter(|linked| hosts.insert(linked.host)).map(info));
        listed.registered = registered;
    }
    listed.kernels.clone()
}

/// The kernel of a registration. It is never freed: launches refer to it.
fn info(linked: Linked) -> &'static KernelInfo {
    let symbol = linked.symbol.to_string_lossy();
    let name = name(&symbol);
    let kernel = KernelRecord {
        path: &name,
        symbol: &symbol,
        file: PLACE,
        params: Params::new(&[]),
        needs: Needs::UNKNOWN,
        copy: COPY,
        ..KernelRecord::EMPTY
    };
    let mut record = Vec::new();
    write_kernel(&kernel, &mut record);
    Box::leak(Box::new(KernelInfo::linked(record.leak(), linked)))
}

/// The name of a kernel in C++: `reduce<float, 256u>`.
#[cfg(feature = "linked")]
fn name(symbol: &str) -> String {
    kernel_registry_image::Signature::of(symbol).map_or_else(|| symbol.to_owned(), |signature| signature.name)
}

/// Without the feature `linked`, the symbol.
#[cfg(not(feature = "linked"))]
fn name(symbol: &str) -> String {
    symbol.to_owned()
}
