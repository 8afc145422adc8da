//! Graphs: work with what comes before what, and what becomes of that when it is launched.

use std::collections::BTreeMap;

use super::handles::Handle;
use super::result::{Answer, Code};
use super::state::State;
use super::stream::{Because, Order, Seq, Stream, Work};

/// Work that is not done yet, in nodes.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// In the order in which they were added.
    pub(super) nodes: Vec<Handle>,
    /// It belongs to a node of another graph.
    pub(super) is_child: bool,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) graph: Handle,
    pub(super) task: Task,
    /// The nodes that come before it.
    pub(super) after: Vec<Handle>,
    /// That of which it is a clone.
    pub(super) original: Option<Handle>,
    /// Where the arguments of a kernel are, for who asks.
    pub(super) arguments: Vec<usize>,
}

/// What a node does.
#[derive(Clone, Debug)]
pub(super) enum Task {
    Nothing,
    /// Of a context.
    Work(Work, Handle),
    /// A graph, of which the node has a clone.
    Child(Handle),
    Record(Handle),
    Wait(Handle),
    /// Words in memory that are waited for or written.
    Words(Vec<Work>, Handle),
}

impl Task {
    /// `CUgraphNodeType`.
    pub(super) fn kind(&self) -> u32 {
        match self {
            Task::Work(Work::Launch(_), _) => 0,
            Task::Work(Work::Fill { .. }, _) => 2,
            Task::Work(Work::Call { .. }, _) => 3,
            Task::Work(Work::Appear(_, true), _) => 10,
            Task::Work(Work::Appear(_, false), _) => 11,
            Task::Work(..) => 1,
            Task::Child(_) => 4,
            Task::Nothing => 5,
            Task::Wait(_) => 6,
            Task::Record(_) => 7,
            Task::Words(..) => 12,
        }
    }
}

/// A graph that can be launched: its nodes, each behind those that come before it, and those of child graphs among them.
#[derive(Clone, Debug)]
pub(super) struct Executable {
    /// That which it was made of.
    pub(super) graph: Handle,
    pub(super) steps: Vec<Step>,
    pub(super) flags: u64,
    /// Where its last launch ends: the next one waits for that.
    last: Option<(Handle, Seq)>,
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Of the graph that it was made of.
    pub(super) node: Handle,
    pub(super) task: Task,
    /// Places of steps.
    pub(super) after: Vec<usize>,
    pub(super) enabled: bool,
}

impl State {
    /// Whether a graph can have a node behind these.
    pub(super) fn may_add(&self, graph: Handle, after: &[Handle]) -> Answer {
        for before in after {
            if self.nodes.get(*before)?.graph != graph {
                return Err(Code::INVALID_VALUE);
            }
        }
        self.graphs.get(graph).map(drop)
    }

    pub(super) fn add_node(&mut self, graph: Handle, task: Task, after: &[Handle]) -> Answer<Handle> {
        self.may_add(graph, after)?;
        let node = Node { graph, task, after: after.to_vec(), original: None, arguments: Vec::new() };
        let handle = self.nodes.insert(node);
        self.graphs.get_mut(graph)?.nodes.push(handle);
        Ok(handle)
    }

    /// A graph with the same nodes.
    pub(super) fn clone_graph(&mut self, graph: Handle, is_child: bool) -> Answer<Handle> {
        let nodes = self.graphs.get(graph)?.nodes.clone();
        let clone = self.graphs.insert(Graph { nodes: Vec::new(), is_child });
        let mut clones = BTreeMap::new();
        for node in &nodes {
            let task = match self.nodes.get(*node)?.task.clone() {
                Task::Child(child) => Task::Child(self.clone_graph(child, true)?),
                task => task,
            };
            let handle = self.add_node(clone, task, &[])?;
            self.nodes.get_mut(handle)?.original = Some(*node);
            clones.insert(*node, handle);
        }
        // A node may come before one that was added earlier.
        for node in nodes {
            let after = self.nodes.get(node)?.after.iter().map(|before| clones[before]).collect();
            self.nodes.get_mut(clones[&node])?.after = after;
        }
        Ok(clone)
    }

    /// A graph that allocates or frees memory stays as it is: there are no others like it, and no node of it goes.
    pub(super) fn has_no_memory(&self, graph: Handle) -> Answer {
        let has_memory = |node: &Handle| {
            self.nodes.get(*node).is_ok_and(|node| matches!(node.task, Task::Work(Work::Appear(..), _)))
        };
        let nodes = &self.graphs.get(graph)?.nodes;
        if nodes.iter().any(has_memory) { Err(Code::NOT_SUPPORTED) } else { Ok(()) }
    }

    /// Removes a graph with its nodes.
    pub(super) fn remove_graph(&mut self, graph: Handle) -> Answer {
        for node in self.graphs.remove(graph)?.nodes {
            if let Task::Child(child) = self.nodes.remove(node)?.task {
                self.remove_graph(child)?;
            }
        }
        Ok(())
    }

    /// The steps of a graph, each behind those that it comes after. An error if nodes wait for each other in a circle.
    pub(super) fn executable(&self, graph: Handle, flags: u64) -> Answer<Executable> {
        let mut steps = Vec::new();
        self.add_steps(graph, &[], &mut steps)?;
        Ok(Executable { graph, steps, flags, last: None })
    }

    fn add_steps(&self, graph: Handle, begin: &[usize], steps: &mut Vec<Step>) -> Answer {
        let mut left = self.graphs.get(graph)?.nodes.clone();
        let mut places = BTreeMap::new();
        while !left.is_empty() {
            let before = left.len();
            let mut later = Vec::new();
            for handle in left {
                let node = self.nodes.get(handle)?;
                let after: Option<Vec<usize>> =
                    node.after.iter().map(|before| places.get(before).copied()).collect();
                let Some(mut after) = after else {
                    later.push(handle);
                    continue;
                };
                if after.is_empty() {
                    after = begin.to_vec();
                }
                let mut task = node.task.clone();
                if let Task::Child(child) = task {
                    let first = steps.len();
                    self.add_steps(child, &after, steps)?;
                    // Then a step that is done when all of the child graph is.
                    after.extend(first..steps.len());
                    task = Task::Nothing;
                }
                places.insert(handle, steps.len());
                steps.push(Step { node: handle, task, after, enabled: true });
            }
            if later.len() == before {
                return Err(Code::INVALID_VALUE);
            }
            left = later;
        }
        Ok(())
    }

    /// Gives an executable graph to a stream.
    pub(super) fn launch_graph(&mut self, executable: Handle, stream: Handle) -> Answer {
        let found = self.executables.get_mut(executable)?;
        let (flags, last) = (found.flags, found.last);
        // Taken out meanwhile, because a copy of them all would cost more than the launch.
        let steps = std::mem::take(&mut found.steps);
        let launched =
            self.may_allocate(&steps, flags).and_then(|()| self.launch_steps(&steps, last, stream));
        let found = self.executables.get_mut(executable)?;
        found.steps = steps;
        found.last = Some((stream, launched?));
        Ok(())
    }

    /// Gives steps to a stream, behind the end of an earlier launch. Says where they end.
    ///
    /// A chain of steps goes into one queue: the first into that of the stream, others into streams that nobody sees, which
    /// wait for each other as the steps do. The stream goes on when all is done.
    fn launch_steps(&mut self, steps: &[Step], last: Option<(Handle, Seq)>, stream: Handle) -> Answer<Seq> {
        let begin = match last {
            Some((earlier, seq)) => Work::WaitFor { stream: earlier, seq },
            None => Work::Nothing,
        };
        let begin = self.submit(stream, begin, None)?;
        let context = self.streams.get(stream)?.context;
        let mut lanes = vec![Lane { stream, context, tail: None, seq: begin }];
        let mut places: Vec<(usize, Seq)> = Vec::new();
        for (place, step) in steps.iter().enumerate() {
            let context = match step.task {
                Task::Work(_, context) | Task::Words(_, context) => context,
                _ => context,
            };
            let fits = |lane: &Lane| match lane.tail {
                Some(tail) => step.after.contains(&tail),
                None => step.after.is_empty(),
            };
            let lane = lanes.iter().position(|lane| lane.context == context && fits(lane));
            let lane = match lane {
                Some(lane) => lane,
                None => {
                    let lane = self.add_lane(context, stream, begin)?;
                    lanes.push(lane);
                    lanes.len() - 1
                }
            };
            for before in &step.after {
                let (other, seq) = places[*before];
                if other != lane {
                    let work = Work::WaitFor { stream: lanes[other].stream, seq };
                    self.submit(lanes[lane].stream, work, None)?;
                }
            }
            let seq = self.submit_step(lanes[lane].stream, step)?;
            (lanes[lane].tail, lanes[lane].seq) = (Some(place), seq);
            places.push((lane, seq));
        }
        let mut end = lanes[0].seq;
        for lane in &lanes[1..] {
            end = self.submit(stream, Work::WaitFor { stream: lane.stream, seq: lane.seq }, None)?;
        }
        Ok(end)
    }

    /// Memory that an earlier launch has allocated must have been freed, unless the graph is to do that itself.
    fn may_allocate(&self, steps: &[Step], flags: u64) -> Answer {
        const AUTO_FREE: u64 = 1;
        let memory = self.memory.lock();
        let is_there = |step: &Step| match &step.task {
            Task::Work(Work::Appear(allocation, true), _) => {
                memory.of_graphs.get(&allocation.address()).is_some_and(|known| known.will_be_there)
            }
            _ => false,
        };
        if flags & AUTO_FREE == 0 && steps.iter().any(is_there) { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }

    /// A stream for a chain of steps, which is gone when they are done.
    fn add_lane(&mut self, context: Handle, stream: Handle, begin: Seq) -> Answer<Lane> {
        let device = self.context(context)?.device;
        let lane = Stream { closed: true, ..Stream::new(context, device, Order::NonBlocking) };
        let lane = self.streams.insert(lane);
        let seq = self.submit(lane, Work::WaitFor { stream, seq: begin }, None)?;
        Ok(Lane { stream: lane, context, tail: None, seq })
    }

    fn submit_step(&mut self, stream: Handle, step: &Step) -> Answer<Seq> {
        if !step.enabled {
            return self.submit(stream, Work::Nothing, None);
        }
        match &step.task {
            Task::Work(work, context) => {
                let mut behind = None;
                if let Work::Launch(launch) = work {
                    // All else that a launch may need was set up with the graph.
                    if let Ok(function) = self.functions.get(launch.function) {
                        behind = self.behind(function.device, function.loaded, Because::Load);
                    }
                    let last = self.last;
                    self.sound(*context)?.launched.get_or_insert(last);
                }
                if let Work::Appear(allocation, is_there) = work {
                    self.memory.lock().will_be_there(allocation.address(), *is_there);
                }
                self.submit(stream, work.clone(), behind)
            }
            Task::Words(works, _) => {
                let mut seq = self.last;
                for work in works {
                    seq = self.submit(stream, work.clone(), None)?;
                }
                Ok(seq)
            }
            Task::Record(event) => self.record(*event, stream),
            Task::Wait(event) => match self.events.get(*event).ok().and_then(|event| event.recorded) {
                Some((recorded, seq)) => self.submit(stream, Work::WaitFor { stream: recorded, seq }, None),
                None => self.submit(stream, Work::Nothing, None),
            },
            Task::Nothing | Task::Child(_) => self.submit(stream, Work::Nothing, None),
        }
    }

    /// Lets a stream mark an event.
    pub(super) fn record(&mut self, handle: Handle, stream: Handle) -> Answer<Seq> {
        let seq = self.submit(stream, Work::Record(handle), None)?;
        let event = self.events.get_mut(handle)?;
        (event.recorded, event.captured, event.at) = (Some((stream, seq)), None, None);
        Ok(seq)
    }
}

/// A chain of steps.
struct Lane {
    stream: Handle,
    context: Handle,
    /// The place of its last step.
    tail: Option<usize>,
    seq: Seq,
}
