//! Matches declarations with `#[gpu_kernel(linked)]` to the kernels that nvcc linked.

use std::collections::HashMap;

use kernel_registry_format::{KernelRecord, Params, Pass};

use super::Linked;
use crate::KernelInfo;

/// Maps the key of a linked kernel or a declaration to its registration, or to the reason why it has none.
pub(crate) type Registrations = HashMap<usize, Result<Linked, NotJoined>>;

/// Why no linked kernel belongs to a declaration.
#[derive(Clone)]
pub(crate) enum NotJoined {
    /// No linked kernel has the name, or several have it. Holds how many.
    Named(usize),
    /// The linked kernel of this name takes other parameters.
    Params {
        /// The signature of the linked kernel.
        linked: String,
    },
    /// The parameters of the linked kernel of this name are not known.
    Unread,
}

/// A kernel in the registry's list, with its record decoded.
type Listed = (KernelRecord<'static>, &'static KernelInfo);

/// Returns the address of a kernel's record, which identifies the kernel.
pub(crate) fn key(info: &KernelInfo) -> usize {
    info.record().as_ptr().addr()
}

/// Matches each declaration in the list to the linked kernel of its name. The linked kernel leaves the list, and its needs and stack
/// frames go into the declaration's record.
pub(crate) fn join(listed: &mut Vec<Listed>) -> Registrations {
    let (linked, mut others): (Vec<Listed>, Vec<Listed>) =
        listed.drain(..).partition(|(_, info)| info.registration().is_some());
    let mut registrations = HashMap::new();
    let mut matched = Vec::new();
    for (record, info) in others.iter_mut().filter(|(record, _)| record.image.is_none()) {
        let mut named = linked.iter().filter(|(linked, _)| is_called(linked, record.symbol));
        let joined = match (named.next(), named.count()) {
            (Some((_, found)), 0) if found.registration().is_none_or(|linked| !linked.is_read()) => {
                Err(NotJoined::Unread)
            }
            (Some((linked, _)), 0) if !fits(record.params, linked.params) => {
                Err(NotJoined::Params { linked: linked.signature().to_string() })
            }
            (Some((linked, found)), 0) => {
                matched.push(key(found));
                *record = KernelRecord { frames: linked.frames, needs: linked.needs, ..*record };
                found.registration().ok_or(NotJoined::Named(0))
            }
            (None, _) => Err(NotJoined::Named(0)),
            (Some(_), more) => Err(NotJoined::Named(1 + more)),
        };
        registrations.insert(key(info), joined);
    }
    *listed = others;
    for (record, info) in linked.into_iter().filter(|(_, info)| !matched.contains(&key(info))) {
        registrations.extend(info.registration().map(|linked| (key(info), Ok(linked))));
        listed.push((record, info));
    }
    registrations
}

/// Returns whether a linked kernel has this name: as its symbol, or as its name in C++, with or without template arguments and
/// namespaces.
fn is_called(linked: &KernelRecord<'_>, name: &str) -> bool {
    let base = linked.path.split('<').next().unwrap_or_default();
    let unqualified = base.rsplit("::").next().unwrap_or_default();
    [linked.symbol, linked.path, base, unqualified].contains(&name)
}

/// Returns whether the declared parameters have the same sizes as the parameters in the image.
fn fits(declared: Params<'_>, linked: Params<'_>) -> bool {
    const POINTER: u32 = 8;
    let sizes = |params: Params<'_>| {
        let size = |pass, size| if pass == Pass::Value { size } else { POINTER };
        params.iter().map(|param| size(param.pass, param.element_size)).collect::<Vec<_>>()
    };
    sizes(declared) == sizes(linked)
}
