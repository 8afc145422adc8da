//! Builds the call graph of a variant, to find which of the driver's services each kernel needs.

use std::collections::{BTreeMap, BTreeSet};

use crate::Needs;

/// The call graph of a variant. Functions have numbers: in cubins those of their symbols.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Pairs of callee and caller, possibly repeated. A hostile text can have one for each of its words.
    pub(crate) edges: Vec<(u32, u32)>,
    /// Pairs of a function, and a function that takes its address and so may need everything that it does.
    references: Vec<(u32, u32)>,
    /// The functions that a pointer can lead to.
    pub(crate) address_taken: BTreeSet<u32>,
}

/// A node for all calls through pointers.
pub(crate) const POINTER: u32 = u32::MAX;

impl Calls {
    /// Adds a call.
    pub(crate) fn call(&mut self, caller: u32, callee: u32) {
        add(&mut self.edges, (callee, caller));
    }

    /// Adds that `function` takes the address of `pointed`.
    pub(crate) fn refer(&mut self, function: u32, pointed: u32) {
        add(&mut self.references, (pointed, function));
        self.take_address(pointed);
    }

    /// Adds a call through a pointer.
    pub(crate) fn call_pointer(&mut self, caller: u32) {
        self.call(caller, POINTER);
    }

    /// Adds that a pointer can lead to `function`.
    pub(crate) fn take_address(&mut self, function: u32) {
        self.address_taken.insert(function);
    }

    /// Returns whether code takes the address of a function, or calls a function through a pointer.
    pub(crate) fn has_pointers(&self) -> bool {
        !self.address_taken.is_empty() || self.edges.iter().any(|(callee, _)| *callee == POINTER)
    }

    /// Returns the needs of each function, given the needs of functions with known names.
    ///
    /// Linear in the number of calls, because each need moves from callee to caller once.
    pub(crate) fn needs(mut self, named: impl Iterator<Item = (u32, Needs)>) -> BTreeMap<u32, Needs> {
        self.references.sort_unstable();
        self.references.dedup();
        self.edges.append(&mut self.references);
        self.edges.sort_unstable();
        self.edges.dedup();
        let mut needs: BTreeMap<u32, Needs> = BTreeMap::new();
        let mut work: Vec<(u32, Needs)> = named.filter(|(_, named)| *named != Needs::default()).collect();
        while let Some((function, added)) = work.pop() {
            let known = needs.entry(function).or_default();
            let all = known.and(added);
            if all != *known {
                *known = all;
                let first = self.edges.partition_point(|(callee, _)| *callee < function);
                let calls = self.edges[first..].iter().take_while(|(callee, _)| *callee == function);
                work.extend(calls.map(|(_, caller)| (*caller, all)));
                if self.address_taken.contains(&function) {
                    work.push((POINTER, all));
                }
            }
        }
        needs
    }
}

fn add(edges: &mut Vec<(u32, u32)>, edge: (u32, u32)) {
    if edges.last() != Some(&edge) {
        edges.push(edge);
    }
}

/// Returns the needs of a kernel that calls a function of this name.
pub(crate) fn function_needs(name: &str) -> Needs {
    let launches = ["cudaLaunchDevice", "cudaGetParameterBuffer", "__cudaCDP2"];
    let mut needs = Needs::NONE;
    needs.printf = name == "vprintf";
    needs.assert = name == "__assertfail";
    needs.heap = matches!(name, "malloc" | "free" | "__nv_aligned_device_malloc");
    needs.device_launch = launches.iter().any(|prefix| name.starts_with(prefix));
    needs
}
