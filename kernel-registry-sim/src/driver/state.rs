//! All that the simulated driver knows, under one lock.

use std::collections::BTreeMap;

use super::calls::current;
use super::capture::{Capture, Part};
use super::config::Config;
use super::deadlock::Waiting;
use super::device;
use super::graph::Graphs;
use super::handles::{Handle, Handles};
use super::load::{Function, Kernel, Library, Module};
use super::memory::Shared;
use super::pool::Pool;
use super::process::{Locked, Simulator};
use super::result::{Answer, Code};
use super::stream::{Because, Behind, Item, Order, Seq, Stream, Work};

/// What every function that needs `cuInit` begins with.
pub(super) fn begin() -> Answer<Locked> {
    let state = Simulator::of_this_process()?.lock();
    if state.initialised { Ok(state) } else { Err(Code::NOT_INITIALIZED) }
}

/// The same for what is about a stream, as the caller means it.
pub(super) fn begin_with(stream: Handle) -> Answer<(Locked, Handle)> {
    let mut state = begin()?;
    let stream = state.stream(stream)?;
    Ok((state, stream))
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) config: Config,
    pub(super) initialised: bool,
    pub(super) devices: Vec<Device>,
    pub(super) contexts: Handles<Context>,
    pub(super) streams: Handles<Stream>,
    pub(super) events: Handles<Event>,
    pub(super) modules: Handles<Module>,
    pub(super) libraries: Handles<Library>,
    pub(super) kernels: Handles<Kernel>,
    pub(super) functions: Handles<Function>,
    pub(super) graphs: Graphs,
    /// What is being captured, by its id.
    pub(super) captures: BTreeMap<u64, Capture>,
    pub(super) pools: Handles<Pool>,
    pub(super) memory: Shared,
    /// What went wrong in a context, if that is not contained: then there are no new ones.
    pub(super) broken: Option<Code>,
    /// What was submitted last.
    pub(super) last: Seq,
    pub(super) waiting: BTreeMap<u64, Waiting>,
    /// How often the kernels that run had a turn, and whether they have one now.
    pub(super) turns: u64,
    pub(super) in_turn: bool,
    /// For what is counted and never used again.
    next_id: u64,
}

#[derive(Debug)]
pub(super) struct Device {
    pub(super) kind: device::Device,
    /// Its primary context, which comes and goes, but always with this handle.
    pub(super) primary: Handle,
    pub(super) references: u32,
    /// Those of the next primary context.
    pub(super) flags: u32,
    /// Bytes of its memory that somebody else has.
    pub(super) taken: u64,
    pub(super) default_pool: Option<Handle>,
    /// Another one, if it was told so.
    pub(super) pool: Option<Handle>,
}

/// Whether something is set up: once nothing occupies the device that was submitted until then.
pub(super) type Ready = Option<Seq>;

#[derive(Debug)]
pub(super) struct Context {
    pub(super) id: u64,
    pub(super) device: usize,
    pub(super) flags: u32,
    pub(super) legacy: Handle,
    pub(super) per_thread: Handle,
    pub(super) stack: u64,
    /// The stack limit was changed, and no launch has paid for that yet.
    pub(super) stack_changed: bool,
    /// The other limits.
    pub(super) limits: BTreeMap<u32, usize>,
    pub(super) cache_config: u32,
    pub(super) launched: Ready,
    pub(super) printed: Ready,
    pub(super) allocated: Ready,
    pub(super) stack_ready: Seq,
    /// The most streams that were alive at once.
    pub(super) most_streams: usize,
    /// What a kernel did wrong: from then on everything returns it.
    pub(super) error: Option<Code>,
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) context: Handle,
    pub(super) timing: bool,
    /// Where it was recorded last: the stream, and the place.
    pub(super) recorded: Option<(Handle, Seq)>,
    /// Where, if that stream was captured.
    pub(super) captured: Option<Part>,
    pub(super) at: Option<std::time::Instant>,
}

/// Bytes of a device that every context takes.
const CONTEXT_MEMORY: u64 = 500 << 20;

impl State {
    pub(super) fn new(config: Config) -> Self {
        let mut contexts = Handles::new(1);
        let device = |kind: &device::Device| Device {
            kind: kind.clone(),
            primary: contexts.reserve(),
            references: 0,
            flags: 0,
            taken: 0,
            default_pool: None,
            pool: None,
        };
        let devices = config.devices.iter().map(device).collect();
        State {
            config,
            initialised: false,
            devices,
            contexts,
            streams: Handles::new(2),
            events: Handles::new(3),
            modules: Handles::new(4),
            libraries: Handles::new(5),
            kernels: Handles::new(6),
            functions: Handles::new(7),
            graphs: Graphs::new(),
            captures: BTreeMap::new(),
            pools: Handles::of_values(10),
            memory: Shared::default(),
            last: 0,
            waiting: BTreeMap::new(),
            broken: None,
            turns: 0,
            in_turn: false,
            next_id: 0,
        }
    }

    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The lowest handle that no context has: the next context often has the address of one that is gone.
    pub(super) fn free_context_handle(&mut self) -> Handle {
        let primaries: Vec<_> = self.devices.iter().map(|device| device.primary).collect();
        self.contexts.lowest_free(|handle| primaries.contains(&handle))
    }

    pub(super) fn create_context(&mut self, handle: Handle, device: usize, flags: u32) -> Answer {
        if let Some(code) = self.broken {
            return Err(code);
        }
        if self.free_memory(device) < CONTEXT_MEMORY {
            return Err(Code::OUT_OF_MEMORY);
        }
        let mut stream = |order| self.streams.insert(Stream::new(handle, device, order));
        let (legacy, per_thread) = (stream(Order::Legacy), stream(Order::Blocking));
        let context = Context {
            id: self.id(),
            device,
            flags,
            legacy,
            per_thread,
            stack: 1024,
            stack_changed: false,
            limits: BTreeMap::from([(1, 1 << 20), (2, 8 << 20), (3, 2), (4, 2048), (5, 128), (6, 0)]),
            cache_config: 0,
            launched: None,
            printed: None,
            allocated: None,
            stack_ready: 0,
            most_streams: 0,
            error: None,
        };
        self.contexts.insert_at(handle, context);
        Ok(())
    }

    /// With everything that was made in it.
    pub(super) fn destroy_context(&mut self, handle: Handle) -> Answer {
        self.contexts.remove(handle)?;
        let streams = self.streams.iter().filter(|(_, stream)| stream.context == handle);
        let streams: Vec<_> = streams.map(|(stream, _)| stream).collect();
        streams.into_iter().for_each(|stream| self.abandon_capture(stream));
        self.streams.retain(|stream| stream.context != handle);
        self.events.retain(|event| event.context != handle);
        self.modules.retain(|module| module.context != handle);
        self.functions.retain(|function| function.context != handle);
        self.memory.lock().free_all_of(handle);
        // Nobody is to wait for what is gone.
        Simulator::get().changed.notify_all();
        Ok(())
    }

    /// A context that is alive.
    pub(super) fn context(&mut self, handle: Handle) -> Answer<&mut Context> {
        let error =
            if self.contexts.has_given(handle) { Code::CONTEXT_IS_DESTROYED } else { Code::INVALID_CONTEXT };
        self.contexts.get_mut(handle).map_err(|_| error)
    }

    /// A context in which nothing has gone wrong.
    pub(super) fn sound(&mut self, handle: Handle) -> Answer<&mut Context> {
        let context = self.context(handle)?;
        context.error.map_or(Ok(context), Err)
    }

    /// The stream that a caller means in the current context.
    pub(super) fn stream(&mut self, handle: Handle) -> Answer<Handle> {
        let stream = match handle {
            0 | 1 => self.sound(current()?)?.legacy,
            2 => self.sound(current()?)?.per_thread,
            _ => handle,
        };
        let context = self
            .streams
            .get(stream)
            .ok()
            .filter(|stream| !stream.closed)
            .ok_or(Code::INVALID_HANDLE)?
            .context;
        self.sound(context)?;
        Ok(stream)
    }

    /// Submits something, or adds it to what is captured there.
    pub(super) fn submit(&mut self, stream: Handle, work: Work, behind: Option<Behind>) -> Answer<Seq> {
        if self.is_captured(stream)? {
            self.capture(stream, work)?;
            return Ok(self.last);
        }
        self.not_implied(stream)?;
        self.last += 1;
        let seq = self.last;
        let stream = self.streams.get_mut(stream)?;
        if stream.queue.is_empty() {
            stream.still_since = std::time::Instant::now();
        }
        stream.queue.push_back(Item { seq, work, behind, state: super::stream::Doing::Waiting });
        Simulator::get().changed.notify_all();
        Ok(seq)
    }

    /// Whether something occupies the device that was submitted until then.
    pub(super) fn is_busy(&self, device: usize, until: Seq) -> bool {
        until > 0 && self.streams.iter().any(|(_, stream)| stream.device == device && stream.is_busy(until))
    }

    /// Whether something is set up, or else what it is behind.
    pub(super) fn behind(&self, device: usize, ready: Ready, because: Because) -> Option<Behind> {
        let until = ready.unwrap_or(self.last);
        self.is_busy(device, until).then_some(Behind { until, because, reported: false })
    }

    /// Bytes of a device that nobody has.
    pub(super) fn free_memory(&self, device: usize) -> u64 {
        let Device { kind, taken, .. } = &self.devices[device];
        let contexts = self.contexts.iter().filter(|(_, context)| context.device == device);
        let contexts: u64 = contexts
            .map(|(_, context)| CONTEXT_MEMORY + context.stack.saturating_sub(1024) * kind.threads())
            .sum();
        let of_device = |module: &&Module| {
            self.contexts.get(module.context).is_ok_and(|context| context.device == device)
        };
        let modules = self.modules.iter().map(|(_, module)| module).filter(of_device);
        let modules: u64 = modules.map(|module| module.image.bytes as u64).sum();
        kind.memory.saturating_sub(taken + contexts + modules + self.memory.lock().used(device))
    }
}
