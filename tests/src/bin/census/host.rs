//! Rows for host calls, one file for each kind of driver object. The module `calls` has the rows for calls
//! that this project's programs make; the modules here have those for the driver's other functions.
//! `coverage` knows which functions no row calls, and why.

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
use crate::row::{Attempt, Row, Subject, attempt};

fn row(name: &str, prepare: impl for<'b> Fn(&'b Bench) -> Done<Attempt<'b>> + 'static) -> Row {
    Row::call(Subject::HostCall, format!("host/{name}"), prepare)
}

/// Returns a row for calls that need no preparation.
fn call(name: &str, call: fn(&Bench) -> Done) -> Row {
    row(name, move |bench| attempt(move || call(bench)))
}

/// Returns a row for calls with an object that `make` creates before the resident work starts.
fn with<T: Copy + 'static>(name: &str, make: fn(&Bench) -> Done<T>, call: fn(&Bench, T) -> Done) -> Row {
    row(name, move |bench| {
        let created = make(bench)?;
        attempt(move || call(bench, created))
    })
}
