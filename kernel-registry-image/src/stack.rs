//! Computes the stack of a kernel: the frames of all functions that the kernel can reach.

use std::collections::BTreeMap;

use crate::needs::{Calls, POINTER};

/// The stack that a function needs, including everything that it calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stack {
    /// The largest sum of frames along one path of calls.
    pub(crate) bytes: u32,
    /// Whether it can reach a function that calls itself, so that there is no bound.
    pub(crate) is_recursive: bool,
}

impl Calls {
    /// Returns the stack of each function that calls others or is called, given the frame of each.
    ///
    /// Functions that call each other count once each. Of those that call each other through pointers, only
    /// the largest counts: otherwise a class with a hundred virtual functions would need gigabytes. Linear in
    /// the number of calls.
    pub(crate) fn stacks(&self, frame: impl Fn(u32) -> u32) -> BTreeMap<u32, Stack> {
        let through_pointers = self.address_taken.iter().map(|function| (POINTER, *function));
        let mut calls: Vec<(u32, u32)> =
            self.edges.iter().map(|(callee, caller)| (*caller, *callee)).chain(through_pointers).collect();
        calls.sort_unstable();
        calls.dedup();
        let mut search =
            Search { calls: &calls, frame, found: BTreeMap::new(), open: Vec::new(), roots: Vec::new() };
        for (caller, _) in &calls {
            search.visit(*caller);
        }
        let done = search.found.into_iter().filter_map(|(function, state)| match state {
            State::Done(stack) => Some((function, stack)),
            State::Open(_) => None,
        });
        done.filter(|(function, _)| *function != POINTER).collect()
    }
}

/// Finds strongly connected components, the functions that call each other, by Gabow's algorithm.
struct Search<'a, F> {
    /// Caller and callee, in order.
    calls: &'a [(u32, u32)],
    frame: F,
    found: BTreeMap<u32, State>,
    /// Gabow's two stacks: open nodes, and component starts.
    open: Vec<u32>,
    roots: Vec<usize>,
}

enum State {
    /// The index among the open nodes.
    Open(usize),
    Done(Stack),
}

impl<F: Fn(u32) -> u32> Search<'_, F> {
    fn visit(&mut self, first: u32) {
        if self.found.contains_key(&first) {
            return;
        }
        // The functions on the current path, each with the index of its next call.
        let mut path = vec![self.enter(first)];
        while let Some((caller, next)) = path.last_mut() {
            let caller = *caller;
            let callee = self.calls.get(*next).filter(|call| call.0 == caller).map(|call| call.1);
            *next += 1;
            match callee.map(|callee| (callee, self.found.get(&callee))) {
                Some((callee, None)) => path.push(self.enter(callee)),
                Some((_, Some(State::Open(position)))) => {
                    while self.roots.last().is_some_and(|root| root > position) {
                        self.roots.pop();
                    }
                }
                Some((_, Some(State::Done(_)))) => {}
                None => {
                    path.pop();
                    self.leave(caller);
                }
            }
        }
    }

    fn enter(&mut self, function: u32) -> (u32, usize) {
        self.found.insert(function, State::Open(self.open.len()));
        self.roots.push(self.open.len());
        self.open.push(function);
        (function, self.calls.partition_point(|(caller, _)| *caller < function))
    }

    /// Completes the component that starts with this function, if there is one.
    fn leave(&mut self, function: u32) {
        let Some(State::Open(position)) = self.found.get(&function) else { return };
        let position = *position;
        if self.roots.last() != Some(&position) {
            return;
        }
        self.roots.pop();
        let group = self.open.split_off(position);
        let frames =
            group.iter().filter(|function| **function != POINTER).map(|function| (self.frame)(*function));
        let own = match group.contains(&POINTER) {
            true => frames.max().unwrap_or(0),
            false => frames.fold(0, u32::saturating_add),
        };
        let mut below = Stack { bytes: 0, is_recursive: group.len() > 1 };
        for function in &group {
            let first = self.calls.partition_point(|(caller, _)| caller < function);
            for (_, callee) in self.calls[first..].iter().take_while(|(caller, _)| caller == function) {
                match self.found.get(callee) {
                    Some(State::Done(stack)) => {
                        below.bytes = below.bytes.max(stack.bytes);
                        below.is_recursive |= stack.is_recursive;
                    }
                    _ => below.is_recursive = true,
                }
            }
        }
        let stack = Stack { bytes: own.saturating_add(below.bytes), ..below };
        self.found.extend(group.into_iter().map(|function| (function, State::Done(stack))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the stack of function 0, given these calls. The frame of function 0 has 10 bytes, that of
    /// function 1 has 20, and so on.
    fn stack(calls: &[(u32, u32)], pointer_calls: &[u32], addresses: &[u32]) -> (u32, bool) {
        let mut all = Calls::default();
        calls.iter().for_each(|(caller, callee)| all.call(*caller, *callee));
        pointer_calls.iter().for_each(|caller| all.call_pointer(*caller));
        addresses.iter().for_each(|function| all.take_address(*function));
        let stack = all.stacks(|function| 10 * (function + 1))[&0];
        (stack.bytes, stack.is_recursive)
    }

    #[test]
    fn the_deepest_path_counts() {
        assert_eq!(stack(&[(0, 1), (1, 2), (0, 3)], &[], &[]), (60, false));
        assert_eq!(stack(&[(0, 1), (0, 2), (1, 3), (2, 3)], &[], &[]), (80, false));
    }

    #[test]
    fn recursion_counts_once() {
        assert_eq!(stack(&[(0, 1), (1, 1)], &[], &[]), (30, true));
        assert_eq!(stack(&[(0, 1), (1, 2), (2, 1), (2, 3)], &[], &[]), (100, true));
        // Recursion that function 0 can't reach doesn't matter.
        assert_eq!(stack(&[(0, 1), (2, 3), (3, 2)], &[], &[]), (30, false));
    }

    #[test]
    fn pointers_lead_to_all_functions_whose_address_is_taken() {
        assert_eq!(stack(&[], &[0], &[1, 2]), (40, false));
        assert_eq!(stack(&[(1, 3)], &[0], &[1, 2]), (70, false));
        // A pointer leads to a function that itself calls through pointers.
        assert_eq!(stack(&[], &[0, 1], &[1, 2]), (60, true));
        assert_eq!(stack(&[(2, 3)], &[0, 3], &[1, 2]), (70, true));
    }
}
