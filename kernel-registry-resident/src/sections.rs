//! Sections: the time in which a resident kernel is on a device. What this library frees meanwhile is freed later. What it loads and launches
//! is refused by kernel-registry, which is told of each section.

mod frees;
mod guard;
mod processors;
mod state;

pub(crate) use frees::free;
pub(crate) use guard::{Guard, NotBegun};
pub(crate) use processors::{PartId, Processors, ResidentGrid};
pub(crate) use state::residents;
