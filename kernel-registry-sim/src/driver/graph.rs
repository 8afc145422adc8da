//! Stores captured graphs and executable graphs. A graph is a list of nodes with their dependencies.

use std::collections::BTreeSet;

use crate::driver::handles::{Handle, Handles};
use crate::driver::result::{Answer, Code};
use crate::driver::stream::queue::Work;
use crate::driver::wait::Seq;

/// All graphs and all executable graphs.
pub(crate) struct Graphs {
    graphs: Handles<Vec<Node>>,
    pub(crate) executables: Handles<Executable>,
}

/// A node of a graph: work in a context.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) work: Work,
    pub(crate) context: Handle,
    /// The nodes that this node depends on, by their indices in the graph, which are lower.
    pub(crate) after: Vec<usize>,
}

/// An executable graph, which can be launched.
pub(crate) struct Executable {
    /// The graph from which it was instantiated.
    graph: Handle,
    pub(crate) nodes: Vec<Node>,
    /// Whether a launch first frees the memory that the last launch left allocated (`AUTO_FREE_ON_LAUNCH`).
    pub(crate) frees: bool,
    /// The last launch's stream, and the position of the launch's end. The next launch waits for it.
    pub(crate) last: Option<(Handle, Seq)>,
}

impl Graphs {
    pub(crate) fn new() -> Self {
        Graphs { graphs: Handles::of_values(8), executables: Handles::of_values(9) }
    }

    pub(crate) fn create(&mut self) -> Handle {
        self.graphs.insert(Vec::new())
    }

    pub(crate) fn remove(&mut self, graph: Handle) -> Answer {
        self.graphs.remove(graph).map(drop)
    }

    /// Returns the number of graphs and executable graphs.
    pub(crate) fn count(&self) -> usize {
        self.graphs.iter().count() + self.executables.iter().count()
    }

    /// Adds a node, and returns its index.
    pub(crate) fn add(&mut self, graph: Handle, node: Node) -> Answer<usize> {
        let nodes = self.graphs.get_mut(graph)?;
        nodes.push(node);
        Ok(nodes.len() - 1)
    }

    /// Returns the indices of these nodes and of everything that they depend on.
    pub(crate) fn ancestors(&self, graph: Handle, nodes: &[usize]) -> Answer<BTreeSet<usize>> {
        let graph = self.graphs.get(graph)?;
        let mut found = BTreeSet::new();
        let mut next = nodes.to_vec();
        while let Some(node) = next.pop() {
            if found.insert(node) {
                next.extend(&graph[node].after);
            }
        }
        Ok(found)
    }

    /// Instantiates a graph. A graph that allocates or frees memory can have only one executable graph at a time.
    pub(crate) fn instantiate(&mut self, graph: Handle, frees: bool) -> Answer<Handle> {
        let nodes = self.graphs.get(graph)?.clone();
        let has_executable = self.executables.iter().any(|(_, executable)| executable.graph == graph);
        if has_executable && nodes.iter().any(|node| matches!(node.work, Work::Appear(..))) {
            return Err(Code::NOT_SUPPORTED);
        }
        Ok(self.executables.insert(Executable { graph, nodes, frees, last: None }))
    }
}
