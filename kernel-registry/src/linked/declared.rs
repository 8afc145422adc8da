//! Joins declarations `#[gpu_kernel(linked)]` with the kernels that nvcc linked.

use std::collections::HashMap;

use kernel_registry_format::{KernelRecord, Params, Pass};

use super::Linked;
use crate::KernelInfo;

/// The registrations of linked kernels, by the addresses of their records, or why a declaration has none.
pub(crate) type Registrations = HashMap<usize, Result<Linked, NotJoined>>;

/// Why no linked kernel belongs to a declaration.
#[derive(Clone)]
pub(crate) enum NotJoined {
    /// So many have its name: none, or several.
    Named(usize),
    /// The one of its name takes other parameters.
    Params {
        /// Its signature.
        linked: String,
    },
    /// The parameters of the one of its name are not known.
    Unread,
}

type Listed = (KernelRecord<'static>, &'static KernelInfo);

/// The key of a kernel.
pub(crate) fn key(info: &KernelInfo) -> usize {
    info.record().as_ptr().addr()
}

/// Removes linked kernels from the list that a declaration stands for. The record of that gets what the image says of needs and stack.
pub(crate) fn join(listed: &mut Vec<Listed>) -> Registrations {
    let (linked, mut others): (Vec<Listed>, Vec<Listed>) =
        listed.drain(..).partition(|(_, info)| info.registration().is_some());
    let mut registrations = HashMap::new();
    let mut declared = Vec::new();
    for (record, info) in others.iter_mut().filter(|(record, _)| record.image.is_none()) {
        let mut named = linked.iter().filter(|(linked, _)| is_called(linked, record.symbol));
        let joined = match (named.next(), named.count()) {
            (Some((_, of)), 0) if of.registration().is_none_or(|linked| !linked.is_read()) => {
                Err(NotJoined::Unread)
            }
            (Some((linked, _)), 0) if !fits(record.params, linked.params) => {
                Err(NotJoined::Params { linked: linked.signature().to_string() })
            }
            (Some((linked, of)), 0) => {
                declared.push(key(of));
                *record = KernelRecord { frames: linked.frames, needs: linked.needs, ..*record };
                of.registration().ok_or(NotJoined::Named(0))
            }
            (None, _) => Err(NotJoined::Named(0)),
            (Some(_), more) => Err(NotJoined::Named(1 + more)),
        };
        registrations.insert(key(info), joined);
    }
    *listed = others;
    for (record, info) in linked.into_iter().filter(|(_, info)| !declared.contains(&key(info))) {
        registrations.extend(info.registration().map(|linked| (key(info), Ok(linked))));
        listed.push((record, info));
    }
    registrations
}

/// Whether a declaration can call a linked kernel so: by its symbol, or by its name in C++ with or without template arguments and namespaces.
fn is_called(linked: &KernelRecord<'_>, name: &str) -> bool {
    let base = linked.path.split('<').next().unwrap_or_default();
    let unqualified = base.rsplit("::").next().unwrap_or_default();
    [linked.symbol, linked.path, base, unqualified].contains(&name)
}

/// Whether the declared parameters have the sizes of those in the image.
fn fits(declared: Params<'_>, linked: Params<'_>) -> bool {
    const POINTER: u32 = 8;
    let sizes = |params: Params<'_>| {
        let size = |pass, size| if pass == Pass::Value { size } else { POINTER };
        params.iter().map(|param| size(param.pass, param.element_size)).collect::<Vec<_>>()
    };
    sizes(declared) == sizes(linked)
}
