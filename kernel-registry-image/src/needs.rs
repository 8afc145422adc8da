//! From the functions that a kernel can reach to what it needs of the driver.

use std::collections::{BTreeMap, BTreeSet};

use crate::Needs;

/// Who calls whom in a variant. Functions are known by name in PTX and by symbol index in cubins.
#[derive(Debug)]
pub(crate) struct Calls<K> {
    /// From a function to those that call it.
    callers: BTreeMap<Node<K>, BTreeSet<Node<K>>>,
}

/// A function, or the one place through which all calls through pointers go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node<K> {
    Pointer,
    Function(K),
}

impl<K: Ord + Copy> Calls<K> {
    pub(crate) fn new() -> Self {
        Calls { callers: BTreeMap::new() }
    }

    /// `caller` calls `callee`, or has its address.
    pub(crate) fn call(&mut self, caller: K, callee: K) {
        self.edge(Node::Function(caller), Node::Function(callee));
    }

    /// `caller` calls through a pointer.
    pub(crate) fn call_pointer(&mut self, caller: K) {
        self.edge(Node::Function(caller), Node::Pointer);
    }

    /// `function` is among those that a pointer can lead to.
    pub(crate) fn take_address(&mut self, function: K) {
        self.edge(Node::Pointer, Node::Function(function));
    }

    fn edge(&mut self, caller: Node<K>, callee: Node<K>) {
        self.callers.entry(callee).or_default().insert(caller);
    }

    /// What each function needs, given the functions whose names say so.
    ///
    /// Each need travels from callee to caller once, so this is linear in the number of calls.
    pub(crate) fn needs(&self, named: impl Iterator<Item = (K, Needs)>) -> BTreeMap<K, Needs> {
        let mut needs: BTreeMap<Node<K>, Needs> = BTreeMap::new();
        let mut work: Vec<(Node<K>, Needs)> = named.map(|(k, n)| (Node::Function(k), n)).collect();
        while let Some((node, added)) = work.pop() {
            let known = needs.entry(node).or_default();
            let all = known.and(added);
            if all != *known {
                *known = all;
                let callers = self.callers.get(&node).into_iter().flatten();
                work.extend(callers.map(|caller| (*caller, all)));
            }
        }
        let function = |(node, needs)| match node {
            Node::Function(function) => Some((function, needs)),
            Node::Pointer => None,
        };
        needs.into_iter().filter_map(function).collect()
    }
}

impl Needs {
    /// What calling a function of this name means.
    pub(crate) fn of_function(name: &str) -> Needs {
        let launches = ["cudaLaunchDevice", "cudaGetParameterBuffer", "__cudaCDP2"];
        Needs {
            printf: name == "vprintf",
            assert: name == "__assertfail",
            heap: matches!(name, "malloc" | "free" | "__nv_aligned_device_malloc"),
            device_launch: launches.iter().any(|prefix| name.starts_with(prefix)),
        }
    }

    /// These needs and others.
    pub(crate) fn and(self, other: Needs) -> Needs {
        Needs {
            printf: self.printf || other.printf,
            assert: self.assert || other.assert,
            heap: self.heap || other.heap,
            device_launch: self.device_launch || other.device_launch,
        }
    }
}
