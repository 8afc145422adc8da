//! Compares processes, such as the ranks of a job: which kernels each loaded, when, and who was late.

use std::collections::HashMap;

use kernel_registry_audit::record::Kind;

use super::process::{Audit, is_late};

/// A kernel, on the processes that loaded it.
pub(super) struct Compared<'a> {
    /// Its symbol.
    pub(super) kernel: &'a str,
    /// In the order of processes.
    pub(super) loads: Vec<Loads>,
}

/// The loads of a kernel by one process.
#[derive(Clone, Copy)]
pub(super) struct Loads {
    /// The process's place in the list.
    pub(super) process: usize,
    /// When the first began, in nanoseconds since the first process began.
    pub(super) at: u64,
    /// How long all took, in nanoseconds.
    pub(super) took: u64,
    pub(super) times: usize,
    /// How many came after the program was ready.
    pub(super) late: usize,
}

impl Compared<'_> {
    /// The processes that loaded it after they were ready.
    pub(super) fn late(&self) -> impl Iterator<Item = usize> {
        self.loads.iter().filter(|loads| loads.late > 0).map(|loads| loads.process)
    }

    /// The process that loaded it last, and how long after the first, in nanoseconds.
    pub(super) fn last(&self) -> (usize, u64) {
        let first = self.loads.iter().map(|loads| loads.at).min().unwrap_or(0);
        let last = self.loads.iter().max_by_key(|loads| loads.at);
        last.map_or((0, 0), |last| (last.process, last.at - first))
    }

    /// The shortest and the longest time that it took a process, in nanoseconds.
    pub(super) fn took(&self) -> (u64, u64) {
        let took = || self.loads.iter().map(|loads| loads.took);
        (took().min().unwrap_or(0), took().max().unwrap_or(0))
    }
}

/// All kernels that were loaded: first those that were late, then by how much later the last process loaded them.
pub(super) fn compared(audit: &Audit) -> Vec<Compared<'_>> {
    let mut kernels = HashMap::<&str, Vec<Loads>>::new();
    for (process, its) in audit.processes.iter().enumerate() {
        for event in its.of_kind(Kind::Load) {
            let loads = kernels.entry(&event.subject).or_default();
            let at = its.on_axis(event.begun);
            match loads.last_mut().filter(|loads| loads.process == process) {
                Some(loads) => {
                    loads.at = loads.at.min(at);
                    loads.took = loads.took.saturating_add(event.took);
                    loads.times += 1;
                    loads.late += usize::from(is_late(event));
                }
                None => loads.push(Loads {
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
        kernels.into_iter().map(|(kernel, loads)| Compared { kernel, loads }).collect();
    let order = |kernel: &Compared<'_>| (kernel.late().next().is_some(), kernel.last().1);
    compared.sort_by(|a, b| order(b).cmp(&order(a)).then(a.kernel.cmp(b.kernel)));
    compared
}

/// Some names, and how many there are besides: `rank 0, rank 3 and 5 more`.
pub(super) fn names(audit: &Audit, processes: impl Iterator<Item = usize>) -> String {
    const NAMED: usize = 4;
    let names: Vec<_> = processes.map(|process| &*audit.processes[process].name).collect();
    match names.len().checked_sub(NAMED) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..NAMED].join(", ")),
    }
}
