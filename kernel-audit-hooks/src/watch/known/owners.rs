//! Tracks the contexts that modules and arrays belong to. The driver has no query for that.

use std::collections::{HashMap, HashSet};

use crate::watch::known::contexts;
use crate::watch::process::locked::Locked;

/// The owner of memory or code, whose end is also theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Context(u64),
    Process,
}

static CONTEXTS: Locked<HashMap<u64, u64>> = Locked::new();

/// Adds an object that was created in the current context.
pub(crate) fn add(handle: u64) {
    let context = contexts::current();
    CONTEXTS.lock().insert(handle, context);
}

/// Returns the context that an object was created in, if that was seen.
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
