//! Computes room on the multiprocessors: how many blocks of a kernel fit next to the kernels that started earlier. The
//! limits of a multiprocessor come from [`fit`], as in the library.

use kernel_registry_cuda::fit::{self, Processor};

use super::State;
use crate::driver::handles::Handle;
use crate::driver::launch::shape::Launch;
use crate::driver::launch::span::Span;
use crate::driver::stream::queue::{Doing, Item, Stream, Work};

/// A running kernel with its multiprocessors.
#[derive(Clone, Copy)]
struct Running<'a> {
    stream: Handle,
    launch: &'a Launch,
    on: Span,
    /// The kernel's rank in the order of starts.
    order: u64,
}

impl State {
    /// Returns whether a kernel can start next to the running kernels: some multiprocessor must have room for one of
    /// its blocks, and all multiprocessors together must have room for the threads.
    pub(crate) fn has_room(&self, stream: &Stream, item: &Item) -> bool {
        let Work::Launch(launch) = &item.work else { return true };
        let (span, running) = (self.span(stream), self.running(stream.device));
        let room = self.devices[stream.device].kind.room();
        let capacity = |span: Span| u64::from(span.count) * u64::from(room.threads);
        let threads_within = |other: &Running<'_>| {
            let shared = u64::from(other.on.shared_with(span));
            other.launch.threads().min(capacity(other.on)) * shared / u64::from(other.on.count)
        };
        let threads = launch.threads_of_block() + running.iter().map(threads_within).sum::<u64>();
        threads <= capacity(span) && blocks(&room, launch, span, &running) > 0
    }

    /// Tells each running kernel how many of its blocks have room now.
    pub(crate) fn make_room(&mut self) {
        let mut rooms = Vec::new();
        for device in 0..self.devices.len() {
            let (running, room) = (self.running(device), self.devices[device].kind.room());
            for kernel in &running {
                let earlier: Vec<_> =
                    running.iter().filter(|other| other.order < kernel.order).copied().collect();
                rooms.push((kernel.stream, blocks(&room, kernel.launch, kernel.on, &earlier)));
            }
        }
        for (stream, room) in rooms {
            let head = self.streams.get_mut(stream).ok().and_then(|stream| stream.queue.front_mut());
            if let Some(Item { state: Doing::Running(execution), .. }) = head {
                execution.set_room(room);
            }
        }
    }

    fn span(&self, stream: &Stream) -> Span {
        stream.part.map_or(Span::whole(&self.devices[stream.device].kind), |(_, span)| span)
    }

    fn running(&self, device: usize) -> Vec<Running<'_>> {
        let others = self.streams.iter().filter(|(_, other)| other.device == device);
        let running = others.filter_map(|(stream, other)| match other.queue.front() {
            Some(Item { work: Work::Launch(launch), state: Doing::Running(execution), .. }) => {
                Some(Running { stream, launch, on: self.span(other), order: execution.order() })
            }
            _ => None,
        });
        running.collect()
    }
}

/// Returns how many blocks of a launch have room on these multiprocessors, next to the running grids.
fn blocks(room: &fit::Device, launch: &Launch, on: Span, running: &[Running<'_>]) -> u64 {
    // Between two neighbouring edges, the same kernels run on every multiprocessor.
    let mut edges: Vec<u32> = running.iter().flat_map(|other| [other.on.first, other.on.end()]).collect();
    edges.retain(|edge| on.contains(*edge));
    edges.extend([on.first, on.end()]);
    edges.sort_unstable();
    let between = edges.windows(2).filter(|pair| pair[0] < pair[1]);
    between
        .map(|pair| {
            let overlapping: Vec<_> = running.iter().filter(|other| other.on.contains(pair[0])).collect();
            blocks_on(room, launch, pair[1] - pair[0], &overlapping)
        })
        .sum()
}

/// Returns how many blocks fit on `count` multiprocessors if each running grid is spread evenly.
fn blocks_on(room: &fit::Device, launch: &Launch, count: u32, running: &[&Running<'_>]) -> u64 {
    // The first of these has the fewest possible blocks of each running kernel, the second has the most.
    let mut processors = [Processor::new(room), Processor::new(room)];
    // The most multiprocessors on which a running kernel has one block more than elsewhere.
    let mut fuller = 0;
    for Running { launch, on, .. } in running {
        let (usage, of_all) = (launch.usage(), u64::from(on.count));
        let blocks = [launch.blocks() / of_all, launch.blocks().div_ceil(of_all)];
        fuller = fuller.max((launch.blocks() % of_all) as u32).min(count);
        for (processor, blocks) in processors.iter_mut().zip(blocks) {
            let most = processor.space(&usage).blocks;
            processor.put(&usage, most.min(blocks.try_into().unwrap_or(u32::MAX)));
        }
    }
    let [most, fewest] = processors.map(|processor| u64::from(processor.space(&launch.usage()).blocks));
    u64::from(count - fuller) * most + u64::from(fuller) * fewest
}
