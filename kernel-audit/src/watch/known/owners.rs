//! The contexts that modules and arrays belong to. The driver does not tell.

use std::collections::{HashMap, HashSet};

use crate::watch::known::contexts;
use crate::watch::process::locked::Locked;

/// What memory or code belongs to, and is gone with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Context(u64),
    Process,
}

static CONTEXTS: Locked<HashMap<u64, u64>> = Locked::new();

/// Remembers that the current context has made something with this handle.
pub(crate) fn add(handle: u64) {
    let context = contexts::current();
    CONTEXTS.lock().insert(handle, context);
}

/// The context that has made something, if that was seen.
pub(crate) fn find(handle: u64) -> Option<Owner> {
    CONTEXTS.lock().get(&handle).map(|context| Owner::Context(*context))
}

pub(crate) fn forget(handle: u64) {
    CONTEXTS.lock().remove(&handle);
}

/// Forgets a context, and returns what belonged to it.
pub(crate) fn forget_context(context: u64) -> HashSet<u64> {
    CONTEXTS.lock().extract_if(|_, owner| *owner == context).map(|(handle, _)| handle).collect()
}
