//! The sections of the process, during which resident kernels run. In a section, this library delays frees,
//! and kernel-registry, which is told of each section, refuses loads and launches that would wait.

mod frees;
mod guard;
mod processors;
mod state;

pub(crate) use frees::free;
pub(crate) use guard::{Guard, NotBegun};
pub(crate) use processors::{PartId, Processors, ResidentGrid};
pub(crate) use state::residents;
