//! Remembers the contexts that modules and arrays belong to, because the driver does not tell.

use std::collections::{HashMap, HashSet};

use crate::watch::known::contexts;
use crate::watch::process::locked::Locked;

/// The owner of memory or code, which is gone with its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Context(u64),
    Process,
}

static CONTEXTS: Locked<HashMap<u64, u64>> = Locked::new();

/// Remembers that the object of this handle was made in the current context.
pub(crate) fn add(handle: u64) {
    let context = contexts::current();
    CONTEXTS.lock().insert(handle, context);
}

/// Returns the context in which an object was made, if that was seen.
pub(crate) fn find(handle: u64) -> Option<Owner> {
    CONTEXTS.lock().get(&handle).map(|context| Owner::Context(*context))
}

pub(crate) fn forget(handle: u64) {
    CONTEXTS.lock().remove(&handle);
}

/// Forgets a context, and returns the handles that belonged to it.
pub(crate) fn forget_context(context: u64) -> HashSet<u64> {
    CONTEXTS.lock().extract_if(|_, owner| *owner == context).map(|(handle, _)| handle).collect()
}
