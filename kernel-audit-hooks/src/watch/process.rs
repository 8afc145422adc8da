//! Process-level services: threads, fork-safe locks, checked memory reads, and output of messages.

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
pub(crate) mod worker;
