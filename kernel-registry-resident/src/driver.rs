//! Wraps the driver calls that only resident kernels need.

mod audit;
mod function;
mod green;
mod host_memory;
mod simulator;
mod stream;

pub(crate) use audit::{begin_section, end_section};
pub(crate) use function::{blocks_on_each, carveout, prefer_carveout};
pub(crate) use green::{Green, GreenCalls, GreenId, Multiprocessors};
pub(crate) use host_memory::{allocate_host, free_host};
pub(crate) use simulator::{Step, step_of_simulator};
pub(crate) use stream::{is_blocking, is_captured, is_done};
