//! Compares processes, such as the ranks of a job: which kernels each process loaded, and when, and which processes
//! were late.

use std::collections::HashMap;
use std::ptr;

use serde::{Serialize, Serializer};

use crate::command::process::{Audit, Process, is_late};
use crate::command::report::words::milliseconds;
use crate::record::Kind;

/// A kernel, with the processes that loaded it.
pub(crate) struct KernelLoads<'a> {
    /// The kernel's symbol.
    pub(crate) kernel: &'a str,
    /// The loads, in the order of processes.
    pub(crate) loads: Vec<ProcessLoads<'a>>,
}

/// The loads of a kernel by one process.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct ProcessLoads<'a> {
    #[serde(serialize_with = "name")]
    pub(crate) process: &'a Process,
    /// When the first load began, in nanoseconds since the first process began.
    #[serde(rename = "at_ms", serialize_with = "milliseconds")]
    pub(crate) at: u64,
    /// How long all loads took, in nanoseconds.
    #[serde(rename = "took_ms", serialize_with = "milliseconds")]
    pub(crate) took: u64,
    pub(crate) times: usize,
    /// The number of loads after the program was ready.
    #[serde(rename = "after_ready")]
    pub(crate) late: usize,
}

fn name<S: Serializer>(process: &Process, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&process.name)
}

impl<'a> KernelLoads<'a> {
    /// Returns the processes that loaded the kernel after they were ready.
    pub(crate) fn late(&self) -> impl Iterator<Item = &'a Process> {
        self.loads.iter().filter(|loads| loads.late > 0).map(|loads| loads.process)
    }

    /// Returns the name of the process that loaded the kernel last, and how long after the first process, in nanoseconds.
    pub(crate) fn last(&self) -> (&'a str, u64) {
        let first = self.loads.iter().map(|loads| loads.at).min().unwrap_or(0);
        let last = self.loads.iter().max_by_key(|loads| loads.at);
        last.map_or(("", 0), |last| (&last.process.name, last.at - first))
    }

    /// Returns the shortest and the longest time that loading took in a process, in nanoseconds.
    pub(crate) fn took(&self) -> (u64, u64) {
        let took = || self.loads.iter().map(|loads| loads.took);
        (took().min().unwrap_or(0), took().max().unwrap_or(0))
    }
}

/// Returns all kernels that were loaded. Kernels that a process loaded late come first. Within both groups, the kernel comes first whose
/// loads in the first and in the last process are furthest apart in time.
pub(crate) fn compare_kernels(audit: &Audit) -> Vec<KernelLoads<'_>> {
    let mut kernels = HashMap::<&str, Vec<ProcessLoads<'_>>>::new();
    for process in &audit.processes {
        for event in process.of_kind(Kind::Load) {
            let Some(symbol) = event.subject.kernel() else { continue };
            let loads = kernels.entry(symbol).or_default();
            let at = process.on_axis(event.begun);
            match loads.last_mut().filter(|loads| ptr::eq(loads.process, process)) {
                Some(loads) => {
                    loads.at = loads.at.min(at);
                    loads.took = loads.took.saturating_add(event.took);
                    loads.times += 1;
                    loads.late += usize::from(is_late(event));
                }
                None => loads.push(ProcessLoads {
                    process,
                    at,
                    took: event.took,
                    times: 1,
                    late: usize::from(is_late(event)),
                }),
            }
        }
    }
    let mut compared: Vec<_> =
        kernels.into_iter().map(|(kernel, loads)| KernelLoads { kernel, loads }).collect();
    let order = |kernel: &KernelLoads<'_>| (kernel.late().next().is_some(), kernel.last().1);
    compared.sort_by(|a, b| order(b).cmp(&order(a)).then(a.kernel.cmp(b.kernel)));
    compared
}

/// Lists some names, and the number of further names: `rank 0, rank 3 and 5 more`.
pub(crate) fn names<'a>(processes: impl Iterator<Item = &'a Process>) -> String {
    const NAMED: usize = 4;
    let names: Vec<_> = processes.map(|process| &*process.name).collect();
    match names.len().checked_sub(NAMED) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..NAMED].join(", ")),
    }
}
