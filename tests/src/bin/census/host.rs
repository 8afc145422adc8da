//! Rows for calls of the host, one file for each kind of object that they are about. Those that the programs of this project
//! make are in `calls`; these are the others that the driver exports. `coverage` tells which are not tried, and why.

mod arrays;
mod contexts;
mod copies;
mod graph_nodes;
mod graphs;
mod ipc;
pub(crate) mod kernels;
mod libraries;
mod pools;
mod rows;
mod sparse;
mod streams;
mod virtual_memory;

pub(crate) use ipc::share;
pub(crate) use rows::rows;

use crate::bench::Bench;
use crate::cuda::Done;
use crate::row::{Attempt, Row, Section, attempt};

fn row(name: &str, prepare: impl for<'b> Fn(&'b Bench) -> Done<Attempt<'b>> + 'static) -> Row {
    Row::call(Section::HostCall, format!("host/{name}"), prepare)
}

/// A row for calls that need no preparation.
fn call(name: &str, call: fn(&Bench) -> Done) -> Row {
    row(name, move |bench| attempt(move || call(bench)))
}

/// A row for calls with something that was made before.
fn with<T: Copy + 'static>(name: &str, make: fn(&Bench) -> Done<T>, call: fn(&Bench, T) -> Done) -> Row {
    row(name, move |bench| {
        let made = make(bench)?;
        attempt(move || call(bench, made))
    })
}
