//! Finds the shared memory and the stack that a kernel needs, by a depth-first search along its calls.

use std::collections::{BTreeMap, BTreeSet};

use crate::decode::declare::reserve;
use crate::op::{Callee, Op};
use crate::program::{Program, Reach};

/// Computes what a kernel needs together with the functions that it may call. `shared` has size and alignment
/// of each variable in shared memory.
pub(crate) fn reach(kernel: usize, program: &Program, shared: &[(u64, u64)]) -> Reach {
    let mut reach = Reach::default();
    let mut walk = Walk { program, open: Vec::new(), known: BTreeMap::new(), recursive: false };
    (reach.frames, reach.local) = walk.deepest(kernel);
    reach.own = program.functions[kernel].local.next_multiple_of(8);
    reach.recursive = walk.recursive;
    reach.lacking =
        walk.known.keys().copied().find(|function| program.functions[*function].lacking.is_some());
    reach.reserved = walk.known.keys().any(|function| program.functions[*function].reserved);
    let reached = walk.known.keys().flat_map(|function| &program.functions[*function].shared);
    let mut variables: Vec<usize> = reached.copied().collect::<BTreeSet<_>>().into_iter().collect();
    // Variables with the largest alignment come first, so that little space is lost between variables.
    variables.sort_by_key(|variable| std::cmp::Reverse(shared[*variable].1));
    for variable in variables {
        let (size, align) = shared[variable];
        reach.places.insert(variable, reserve(&mut reach.shared, size, align));
    }
    reach
}

/// How many nested calls are followed. Deeper calls count as recursion.
const DEEPEST: usize = 200;

/// The state of a depth-first search along calls.
struct Walk<'p> {
    program: &'p Program,
    /// The functions on the path from the kernel to the current function.
    open: Vec<usize>,
    /// For each visited function, the bytes of frames and of local variables on its deepest chain of calls.
    known: BTreeMap<usize, (u64, u64)>,
    recursive: bool,
}

impl Walk<'_> {
    fn deepest(&mut self, function: usize) -> (u64, u64) {
        if let Some(known) = self.known.get(&function) {
            return *known;
        }
        if self.open.contains(&function) || self.open.len() > DEEPEST {
            self.recursive = true;
            return (0, 0);
        }
        self.open.push(function);
        let deepest = self.callees(function).into_iter().map(|callee| self.deepest(callee));
        let (frames, local) =
            deepest.fold((0, 0), |(frames, local): (u64, u64), (a, b)| (frames.max(a), local.max(b)));
        self.open.pop();
        let own = &self.program.functions[function];
        let found = (own.frame + frames, own.local.next_multiple_of(8) + local);
        self.known.insert(function, found);
        found
    }

    /// Returns the functions that a function may call. A call by address may go to any function with matching
    /// parameters and results.
    fn callees(&self, function: usize) -> BTreeSet<usize> {
        let functions = &self.program.functions;
        let mut found = BTreeSet::new();
        for instruction in &self.program.instructions[self.program.range(function)] {
            match &instruction.op {
                Op::Call { callee: Callee::Known(callee), .. } => _ = found.insert(*callee),
                Op::Call { callee: Callee::At(_, sizes), .. } => {
                    found.extend((0..functions.len()).filter(|index| functions[*index].takes(sizes)));
                }
                _ => {}
            }
        }
        found
    }
}
