//! Graphs: pieces of work, each a node that comes after others.

use std::collections::{BTreeMap, BTreeSet};

use crate::driver::handles::{Handle, Handles};
use crate::driver::result::{Answer, Code};
use crate::driver::stream::queue::Work;
use crate::driver::stream::wait::Seq;

/// All graphs, their nodes, and the executable graphs.
pub(crate) struct Graphs {
    /// The nodes of each graph, in the order in which they were added: none comes before one that it comes after.
    graphs: Handles<Vec<Handle>>,
    nodes: Handles<Node>,
    pub(crate) executables: Handles<Executable>,
}

struct Node {
    task: Task,
    /// The nodes that come before it.
    after: Vec<Handle>,
}

/// Work of a context.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) work: Work,
    pub(crate) context: Handle,
}

impl Task {
    /// `CUgraphNodeType`.
    fn kind(&self) -> u32 {
        match self.work {
            Work::Launch(_) => 0,
            Work::Copy { .. } => 1,
            Work::Fill { .. } => 2,
            Work::Call { .. } => 3,
            Work::Appear(_, true) => 10,
            Work::Appear(_, false) => 11,
            Work::WaitValue { .. } | Work::WriteValue { .. } => 12,
            _ => 5,
        }
    }
}

/// A graph that can be launched.
#[derive(Clone)]
pub(crate) struct Executable {
    /// The graph that it was made of.
    graph: Handle,
    pub(crate) steps: Vec<Step>,
    /// Whether a launch frees what the last one has allocated.
    pub(crate) frees: bool,
    /// Where its last launch ends: the next one waits for that.
    pub(crate) last: Option<(Handle, Seq)>,
}

#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) task: Task,
    /// Places of earlier steps.
    pub(crate) after: Vec<usize>,
}

impl Graphs {
    pub(crate) fn new() -> Self {
        Graphs {
            graphs: Handles::of_values(8),
            nodes: Handles::of_values(12),
            executables: Handles::of_values(9),
        }
    }

    pub(crate) fn create(&mut self) -> Handle {
        self.graphs.insert(Vec::new())
    }

    pub(crate) fn nodes(&self, graph: Handle) -> Answer<&[Handle]> {
        self.graphs.get(graph).map(Vec::as_slice)
    }

    /// `CUgraphNodeType` of a node.
    pub(crate) fn kind(&self, node: Handle) -> Answer<u32> {
        self.nodes.get(node).map(|node| node.task.kind())
    }

    /// The number of graphs and executable graphs.
    pub(crate) fn count(&self) -> usize {
        self.graphs.iter().count() + self.executables.iter().count()
    }

    pub(crate) fn add(&mut self, graph: Handle, task: Task, after: Vec<Handle>) -> Answer<Handle> {
        let node = self.nodes.insert(Node { task, after });
        self.graphs.get_mut(graph)?.push(node);
        Ok(node)
    }

    /// These nodes, and all that come before them.
    pub(crate) fn before(&self, nodes: &[Handle]) -> BTreeSet<Handle> {
        let mut found = BTreeSet::new();
        let mut next = nodes.to_vec();
        while let Some(node) = next.pop() {
            if found.insert(node) {
                next.extend(self.nodes.get(node).map_or(&[][..], |node| &node.after));
            }
        }
        found
    }

    /// A graph that allocates or frees memory is instantiated once at a time.
    fn has_no_memory(&self, graph: Handle) -> Answer {
        let has_memory = |node: &Handle| {
            self.nodes.get(*node).is_ok_and(|node| matches!(node.task.work, Work::Appear(..)))
        };
        if self.nodes(graph)?.iter().any(has_memory) { Err(Code::NOT_SUPPORTED) } else { Ok(()) }
    }

    /// Removes a graph with its nodes.
    pub(crate) fn remove(&mut self, graph: Handle) -> Answer {
        for node in self.graphs.remove(graph)? {
            self.nodes.remove(node)?;
        }
        Ok(())
    }

    /// Makes a graph that can be launched.
    pub(crate) fn instantiate(&mut self, graph: Handle, frees: bool) -> Answer<Handle> {
        if self.executables.iter().any(|(_, executable)| executable.graph == graph) {
            self.has_no_memory(graph)?;
        }
        let (mut steps, mut places) = (Vec::new(), BTreeMap::new());
        for handle in self.nodes(graph)? {
            let Node { task, after } = self.nodes.get(*handle)?;
            places.insert(*handle, steps.len());
            steps.push(Step {
                task: task.clone(),
                after: after.iter().map(|before| places[before]).collect(),
            });
        }
        Ok(self.executables.insert(Executable { graph, steps, frees, last: None }))
    }
}
