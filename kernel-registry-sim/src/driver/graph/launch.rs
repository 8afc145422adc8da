//! Launching a graph: its steps become work in streams.

use super::nodes::{Step, Task};
use crate::driver::handles::Handle;
use crate::driver::process::state::State;
use crate::driver::report::failures;
use crate::driver::result::{Answer, Code};
use crate::driver::stream::queue::{Order, Stream, Work};
use crate::driver::stream::wait::{Seq, WaitReason};

impl State {
    /// Gives an executable graph to a stream.
    pub(crate) fn launch_graph(&mut self, executable: Handle, stream: Handle) -> Answer {
        let found = self.graphs.executables.get_mut(executable)?;
        let (frees, last) = (found.frees, found.last);
        // Taken out meanwhile, because a copy of them all would cost more than the launch.
        let steps = std::mem::take(&mut found.steps);
        let may_launch = if frees { Ok(()) } else { self.may_allocate(&steps) };
        let launched = may_launch.and_then(|()| self.launch_steps(&steps, last, stream));
        let found = self.graphs.executables.get_mut(executable)?;
        found.steps = steps;
        found.last = Some((stream, launched?));
        Ok(())
    }

    /// Refuses a launch that would allocate memory while an earlier launch's allocation of it is not freed.
    fn may_allocate(&self, steps: &[Step]) -> Answer {
        let memory = self.memory.lock();
        let is_there = |step: &Step| match &step.task.work {
            Work::Appear(allocation, true) => {
                memory.of_graphs.get(&allocation.address()).is_some_and(|known| known.will_be_there)
            }
            _ => false,
        };
        if steps.iter().any(is_there) { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }

    /// Submits steps behind the end of an earlier launch, and says where they end.
    ///
    /// Each chain of steps goes into one queue: the first into that of the stream, the others into internal streams, which wait for
    /// each other as the steps do. The stream goes on when all are done.
    fn launch_steps(&mut self, steps: &[Step], last: Option<(Handle, Seq)>, stream: Handle) -> Answer<Seq> {
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
        let mut places: Vec<(usize, Seq)> = Vec::new();
        for (place, step) in steps.iter().enumerate() {
            let context = step.task.context;
            let fits = |lane: &Lane| match lane.tail {
                Some(tail) => step.after.contains(&tail),
                None => step.after.is_empty(),
            };
            let lane = match lanes.iter().position(|lane| lane.context == context && fits(lane)) {
                Some(lane) => lane,
                None => {
                    lanes.push(self.add_lane(context, stream, begin)?);
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
            let seq = self.submit_task(lanes[lane].stream, &step.task)?;
            (lanes[lane].tail, lanes[lane].seq) = (Some(place), seq);
            places.push((lane, seq));
        }
        let mut end = lanes[0].seq;
        for lane in &lanes[1..] {
            end = self.submit(stream, Work::WaitFor { stream: lane.stream, seq: lane.seq }, None)?;
        }
        Ok(end)
    }

    /// An internal stream for a chain of steps, which is removed when they are done.
    fn add_lane(&mut self, context: Handle, stream: Handle, begin: Seq) -> Answer<Lane> {
        let device = self.context(context)?.device;
        let lane = Stream { closed: true, ..Stream::new(context, device, Order::NonBlocking) };
        let lane = self.streams.insert(lane);
        let seq = self.submit(lane, Work::WaitFor { stream, seq: begin }, None)?;
        Ok(Lane { stream: lane, context, tail: None, seq })
    }

    fn submit_task(&mut self, stream: Handle, task: &Task) -> Answer<Seq> {
        let mut behind = None;
        match &task.work {
            Work::Launch(launch) => {
                // All else that a launch may need was set up with the graph.
                if let Ok(function) = self.functions.get(launch.function) {
                    behind = self.streams.behind(function.device, function.loaded, WaitReason::Load);
                }
                let last = self.streams.last;
                self.sound(task.context)?.launched.get_or_insert(last);
            }
            Work::Appear(allocation, is_there) => {
                self.memory.lock().will_be_there(allocation.address(), *is_there);
            }
            _ => {}
        }
        self.submit(stream, task.work.clone(), behind)
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
