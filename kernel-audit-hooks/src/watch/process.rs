//! Provides what the audit needs of the process: threads, locks that a fork leaves usable, and an output for messages.

pub(crate) mod end;
pub(crate) mod fork;
pub(crate) mod locked;
pub(crate) mod memory;
#[cfg(test)]
#[path = "../../../kernel-registry-sim/src/driver/caller/refused.rs"]
pub(crate) mod refused;
pub(crate) mod say;
pub(crate) mod system;
pub(crate) mod threads;
