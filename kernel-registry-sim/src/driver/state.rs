//! The state of the driver, under one lock: devices, contexts, and all objects in them.
//!
//! All methods of [`State`] are in this folder: those of contexts here, the others in `load`, `launch`, `rooms`,
//! `capture` and `graph_launch`. `worker` is the thread that does the work of all streams, and `deadlock` waits for a
//! device and reports waits that can't end.

pub(crate) mod capture;
pub(crate) mod context_lock;
pub(crate) mod current;
pub(crate) mod deadlock;
pub(crate) mod explore;
pub(crate) mod graph_launch;
pub(crate) mod launch;
pub(crate) mod load;
pub(crate) mod races;
pub(crate) mod rooms;
pub(crate) mod simulator;
pub(crate) mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::current::CurrentContext;
use self::explore::choices::Scheduler;
use crate::driver::config::Config;
use crate::driver::config::device;
use crate::driver::config::races::Races;
use crate::driver::graph::Graphs;
use crate::driver::handles::{Handle, Handles};
use crate::driver::launch::span::Span;
use crate::driver::load::code::{Function, Kernel, Library, Link, Module};
use crate::driver::memory::blocks::Shared;
use crate::driver::memory::pools::Pools;
use crate::driver::report::failures::Failure;
use crate::driver::report::texts::Launcher;
use crate::driver::result::{Answer, Code};
use crate::driver::stream::capture::{Capture, Part};
use crate::driver::stream::known::Watched;
use crate::driver::stream::order::Streams;
use crate::driver::stream::queue::{Order, Stream, Work};
use crate::driver::stream::wakeup::Wakeup;
use crate::driver::wait::{Behind, Ready, Seq, Waiting};

pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) initialised: bool,
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: Handles<Context>,
    pub(crate) streams: Streams,
    pub(crate) events: Handles<Event>,
    pub(crate) modules: Handles<Module>,
    pub(crate) libraries: Handles<Library>,
    pub(crate) kernels: Handles<Kernel>,
    pub(crate) functions: Handles<Function>,
    pub(crate) links: Handles<Link>,
    pub(crate) graphs: Graphs,
    /// The green contexts.
    pub(crate) greens: Handles<Green>,
    /// Descriptions for creating green contexts. The API has no function that destroys them.
    pub(crate) descriptions: Handles<Description>,
    /// Captures that have begun and not ended, by id.
    pub(crate) captures: BTreeMap<u64, Capture>,
    pub(crate) pools: Pools,
    pub(crate) memory: Shared,
    /// A sticky error of the whole process, after which no context can be created.
    pub(crate) broken: Option<Arc<Failure>>,
    /// Failures that may still have to be written to standard error.
    pub(crate) failures: Vec<Arc<Failure>>,
    pub(crate) waiting: BTreeMap<u64, Waiting>,
    /// How many turns kernels have had.
    pub(crate) turns: u64,
    /// Whether a turn is in progress.
    pub(crate) in_turn: bool,
    pub(crate) wakeup: Wakeup,
    /// The detector of races, if they are looked for.
    pub(crate) watched: Option<Box<Watched>>,
    /// Decides who goes on, if the order is chosen.
    pub(crate) scheduler: Option<Box<Scheduler<State>>>,
    /// The last id of a context, a capture or a wait.
    next_id: u64,
}

pub(crate) struct Device {
    pub(crate) kind: device::Device,
    /// The handle of the primary context. It stays the same when the primary context is created again.
    pub(crate) primary: Handle,
    pub(crate) references: u32,
    /// The flags for the next primary context.
    pub(crate) flags: u32,
    /// Bytes of memory that `leave_memory` has taken.
    pub(crate) taken: u64,
}

pub(crate) struct Context {
    pub(crate) id: u64,
    pub(crate) device: usize,
    pub(crate) flags: u32,
    pub(crate) legacy: Handle,
    pub(crate) per_thread: Handle,
    pub(crate) stack: u64,
    /// Whether the stack limit was changed and no launch has waited for the change yet.
    pub(crate) stack_changed: bool,
    /// The other limits, by `CUlimit`.
    pub(crate) limits: BTreeMap<u32, usize>,
    pub(crate) cache_config: u32,
    pub(crate) launched: Ready,
    pub(crate) printed: Ready,
    pub(crate) allocated: Ready,
    pub(crate) stack_ready: Seq,
    /// The most streams that existed at once.
    pub(crate) most_streams: usize,
    /// The sticky error that a kernel's fault has left.
    pub(crate) error: Option<Arc<Failure>>,
}

/// A green context: some multiprocessors of a device, with streams of their own. The green context shares everything
/// else with the device's primary context.
pub(crate) struct Green {
    pub(crate) id: u64,
    pub(crate) device: usize,
    pub(crate) span: Span,
}

pub(crate) struct Description {
    pub(crate) device: usize,
    pub(crate) span: Span,
}

pub(crate) struct Event {
    pub(crate) context: Handle,
    pub(crate) timing: bool,
    /// The stream and the position where the event was last recorded.
    pub(crate) recorded: Option<(Handle, Seq)>,
    /// The position in a capture, if the event was recorded in a captured stream.
    pub(crate) captured: Option<Part>,
    pub(crate) at: Option<std::time::Instant>,
}

/// Bytes of device memory that every context takes.
const CONTEXT_MEMORY: u64 = 500 << 20;

impl State {
    pub(crate) fn new(config: Config) -> Self {
        let mut contexts = Handles::new(1);
        let device = |kind: &device::Device| Device {
            kind: kind.clone(),
            primary: contexts.reserve(),
            references: 0,
            flags: 0,
            taken: 0,
        };
        let devices = config.devices.iter().map(device).collect();
        let wakeup = Wakeup::default();
        let scheduler = Scheduler::new();
        State {
            watched: (config.races != Races::Off || scheduler.is_some()).then(Box::default),
            scheduler,
            config,
            initialised: false,
            devices,
            contexts,
            streams: Streams::new(wakeup.clone()),
            wakeup,
            events: Handles::new(3),
            modules: Handles::new(4),
            libraries: Handles::new(5),
            kernels: Handles::new(6),
            functions: Handles::new(7),
            links: Handles::new(15),
            graphs: Graphs::new(),
            greens: Handles::new(13),
            descriptions: Handles::of_values(14),
            captures: BTreeMap::new(),
            pools: Pools::default(),
            memory: Shared::default(),
            waiting: BTreeMap::new(),
            broken: None,
            failures: Vec::new(),
            turns: 0,
            in_turn: false,
            next_id: 0,
        }
    }

    pub(crate) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Returns the lowest handle that no context has. As in the real driver, a new context often has the handle of a
    /// destroyed one.
    pub(crate) fn free_context_handle(&mut self) -> Handle {
        let primaries: Vec<_> = self.devices.iter().map(|device| device.primary).collect();
        self.contexts.lowest_free(|handle| primaries.contains(&handle))
    }

    pub(crate) fn create_context(&mut self, handle: Handle, device: usize, flags: u32) -> Answer {
        if let Some(failure) = &self.broken {
            return Err(failure.code);
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

    /// Destroys a context and all objects in it.
    pub(crate) fn destroy_context(&mut self, handle: Handle) -> Answer {
        self.contexts.remove(handle)?;
        let streams = self.streams.iter().filter(|(_, stream)| stream.context == handle);
        let streams: Vec<_> = streams.map(|(stream, _)| stream).collect();
        streams.into_iter().for_each(|stream| self.abandon_capture(stream));
        self.streams.retain(|stream| stream.context != handle);
        self.events.retain(|event| event.context != handle);
        self.modules.retain(|module| module.context != handle);
        self.functions.retain(|function| function.context != handle);
        self.memory.lock().free_all_of(handle);
        // Wakes threads that wait for work of the context.
        self.wakeup.notify();
        Ok(())
    }

    /// Returns a context that is not destroyed.
    pub(crate) fn context(&mut self, handle: Handle) -> Answer<&mut Context> {
        let error =
            if self.contexts.has_given(handle) { Code::CONTEXT_IS_DESTROYED } else { Code::INVALID_CONTEXT };
        self.contexts.get_mut(handle).map_err(|_| error)
    }

    /// Returns a green context that is not destroyed.
    pub(crate) fn green(&self, handle: Handle) -> Answer<&Green> {
        let error =
            if self.greens.has_given(handle) { Code::CONTEXT_IS_DESTROYED } else { Code::INVALID_CONTEXT };
        self.greens.get(handle).map_err(|_| error)
    }

    /// Returns a context or a green context that is not destroyed, in the form in which it becomes current in a thread.
    pub(crate) fn for_threads(&mut self, handle: Handle) -> Answer<CurrentContext> {
        if !self.greens.has_given(handle) {
            self.context(handle)?;
            return Ok(CurrentContext { context: handle, green: 0 });
        }
        let device = self.green(handle)?.device;
        Ok(CurrentContext { context: self.devices[device].primary, green: handle })
    }

    /// Returns a context that has no sticky error.
    pub(crate) fn sound(&mut self, handle: Handle) -> Answer<&mut Context> {
        let context = self.context(handle)?;
        match &context.error {
            Some(failure) => Err(failure.code),
            None => Ok(context),
        }
    }

    /// Returns the stream that a caller's handle means. 0, 1 and 2 are default streams of the current context.
    pub(crate) fn stream(&mut self, handle: Handle) -> Answer<Handle> {
        let stream = match handle {
            0 | 1 => self.sound(CurrentContext::get()?)?.legacy,
            2 => self.sound(CurrentContext::get()?)?.per_thread,
            _ => handle,
        };
        let found =
            self.streams.get(stream).ok().filter(|stream| !stream.closed).ok_or(Code::INVALID_HANDLE)?;
        let (context, part) = (found.context, found.part);
        if let Some((green, _)) = part {
            self.green(green)?;
        }
        self.sound(context)?;
        Ok(stream)
    }

    /// Submits work to a stream, or adds it to the graph if the stream is captured.
    pub(crate) fn submit(&mut self, stream: Handle, work: Work, behind: Option<Behind>) -> Answer<Seq> {
        if self.is_captured(stream)? {
            self.capture(stream, work)?;
            return Ok(self.streams.last);
        }
        self.not_implied(stream)?;
        let seq = self.streams.push(stream, work, behind)?;
        if let Some(watched) = &mut self.watched {
            watched.submit(seq);
        }
        Ok(seq)
    }

    /// Gives a context a sticky error, and drops the work of its streams. Unless faults are contained, all other
    /// contexts are broken too.
    /// `launcher` is the thread that submitted the failed work.
    pub(crate) fn break_context(&mut self, handle: Handle, code: Code, words: &str, launcher: Launcher) {
        let failure = Failure::new(code, words, launcher);
        self.failures.push(failure.clone());
        let contained = self.config.contained;
        if !contained {
            self.broken.get_or_insert(failure.clone());
        }
        for (_, context) in self.contexts.iter_mut().filter(|(context, _)| !contained || *context == handle) {
            context.error.get_or_insert(failure.clone());
        }
        for (_, stream) in
            self.streams.iter_mut().filter(|(_, stream)| !contained || stream.context == handle)
        {
            stream.queue.clear();
        }
        // Destroyed streams were kept only for their work, which is dropped now.
        self.streams.retain(|stream| !stream.closed || contained && stream.context != handle);
        self.wakeup.notify();
    }

    /// Breaks the context of a stream because the work at the head of the stream failed.
    pub(crate) fn break_context_of(&mut self, stream: Handle, code: Code, words: &str) {
        let Ok(stream) = self.streams.get(stream) else { return };
        let launcher = stream.queue.front().map(|item| item.launcher.clone()).unwrap_or_default();
        self.break_context(stream.context, code, words, launcher);
    }

    /// Returns the free bytes of a device's memory.
    pub(crate) fn free_memory(&self, device: usize) -> u64 {
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
