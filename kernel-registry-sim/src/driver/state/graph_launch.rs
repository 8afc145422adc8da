//! Launches graphs: their nodes become work in streams.

use super::State;
use crate::driver::graph::Node;
use crate::driver::handles::Handle;
use crate::driver::report::failures;
use crate::driver::result::{Answer, Code};
use crate::driver::stream::queue::{Order, Stream, Work};
use crate::driver::wait::{Seq, WaitReason};

impl State {
    /// Launches an executable graph in a stream.
    pub(crate) fn launch_graph(&mut self, executable: Handle, stream: Handle) -> Answer {
        let found = self.graphs.executables.get_mut(executable)?;
        let (frees, last) = (found.frees, found.last);
        // Takes the nodes out during the launch, because copying them would cost more than the launch.
        let nodes = std::mem::take(&mut found.nodes);
        let may_launch = if frees { Ok(()) } else { self.may_allocate(&nodes) };
        let launched = may_launch.and_then(|()| self.launch_nodes(&nodes, last, stream));
        let found = self.graphs.executables.get_mut(executable)?;
        found.nodes = nodes;
        found.last = Some((stream, launched?));
        Ok(())
    }

    /// Refuses a launch that would allocate memory that an earlier launch allocated and that isn't freed.
    fn may_allocate(&self, nodes: &[Node]) -> Answer {
        let memory = self.memory.lock();
        let is_there = |node: &Node| match &node.work {
            Work::Appear(allocation, true) => memory
                .of_graphs
                .get(&allocation.address())
                .is_some_and(|known| known.allocated_after_pending_work),
            _ => false,
        };
        if nodes.iter().any(is_there) { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }

    /// Submits the nodes of a graph after the end of its earlier launch, and returns the position of their end.
    ///
    /// Each chain of nodes becomes a lane, the work of one stream. The first chain goes into `stream`, the others into
    /// internal streams. These streams wait for each other as the nodes depend on each other. `stream` waits for all
    /// lanes at the end.
    fn launch_nodes(&mut self, nodes: &[Node], last: Option<(Handle, Seq)>, stream: Handle) -> Answer<Seq> {
        if self.streams.get(stream)?.part.is_some() {
            return failures::not_simulated("the launch of a graph in a stream of a green context");
        }
        let begin = match last {
            Some((earlier, seq)) => Work::WaitFor { stream: earlier, seq },
            None => Work::Nothing,
        };
        let begin = self.submit(stream, begin, None)?;
        let context = self.streams.get(stream)?.context;
        let mut lanes = vec![Lane { stream, context, tail: None, seq: begin }];
        let mut submitted: Vec<(usize, Seq)> = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let context = node.context;
            let fits = |lane: &Lane| match lane.tail {
                Some(tail) => node.after.contains(&tail),
                None => node.after.is_empty(),
            };
            let lane = match lanes.iter().position(|lane| lane.context == context && fits(lane)) {
                Some(lane) => lane,
                None => {
                    lanes.push(self.add_lane(context, stream, begin)?);
                    lanes.len() - 1
                }
            };
            for before in &node.after {
                let (other, seq) = submitted[*before];
                if other != lane {
                    let work = Work::WaitFor { stream: lanes[other].stream, seq };
                    self.submit(lanes[lane].stream, work, None)?;
                }
            }
            let seq = self.submit_node(lanes[lane].stream, node)?;
            (lanes[lane].tail, lanes[lane].seq) = (Some(index), seq);
            submitted.push((lane, seq));
        }
        let mut end = lanes[0].seq;
        for lane in &lanes[1..] {
            end = self.submit(stream, Work::WaitFor { stream: lane.stream, seq: lane.seq }, None)?;
        }
        Ok(end)
    }

    /// Adds a lane with an internal stream, which is removed when its nodes are done.
    fn add_lane(&mut self, context: Handle, stream: Handle, begin: Seq) -> Answer<Lane> {
        let device = self.context(context)?.device;
        let lane = Stream { closed: true, ..Stream::new(context, device, Order::NonBlocking) };
        let lane = self.streams.insert(lane);
        let seq = self.submit(lane, Work::WaitFor { stream, seq: begin }, None)?;
        Ok(Lane { stream: lane, context, tail: None, seq })
    }

    fn submit_node(&mut self, stream: Handle, node: &Node) -> Answer<Seq> {
        let mut behind = None;
        match &node.work {
            Work::Launch(launch) => {
                // Everything else that the launch needs was set up when the graph was captured.
                if let Ok(function) = self.functions.get(launch.function) {
                    behind = self.streams.work_before(function.device, function.loaded, WaitReason::Load);
                }
                let last = self.streams.last;
                self.sound(node.context)?.launched.get_or_insert(last);
            }
            Work::Appear(allocation, is_there) => {
                self.memory.lock().set_allocated_after_pending_work(allocation.address(), *is_there);
            }
            _ => {}
        }
        self.submit(stream, node.work.clone(), behind)
    }
}

/// A chain of nodes, and the stream that they are submitted to.
struct Lane {
    stream: Handle,
    context: Handle,
    /// The index of the last node.
    tail: Option<usize>,
    seq: Seq,
}
