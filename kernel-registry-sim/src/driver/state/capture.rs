//! Implements stream capture: submitted work becomes nodes of a graph, and unsafe calls are refused.

use std::thread;

use super::State;
use crate::driver::graph::Node;
use crate::driver::handles::Handle;
use crate::driver::report::failures;
use crate::driver::result::{Answer, Code};
use crate::driver::stream::capture::{Capture, MODE, Mode, Part};
use crate::driver::stream::queue::{Order, Work};

impl State {
    pub(crate) fn begin_capture(&mut self, stream: Handle, mode: Mode) -> Answer {
        let found = self.streams.get(stream)?;
        if found.order == Order::Legacy {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        if found.capture.is_some() {
            return Err(Code::ILLEGAL_STATE);
        }
        let (graph, id) = (self.graphs.create(), self.id());
        let thread = thread::current().id();
        self.captures.insert(id, Capture { graph, origin: stream, mode, thread, is_invalid: false });
        self.streams.get_mut(stream)?.capture = Some(Part { capture: id, after: Vec::new() });
        Ok(())
    }

    /// Ends a capture. Returns the graph, or the error that tells why the capture is invalid.
    pub(crate) fn end_capture(&mut self, stream: Handle) -> Answer<Handle> {
        let part = self.streams.get(stream)?.capture.clone().ok_or(Code::ILLEGAL_STATE)?;
        let capture = self.captures.get(&part.capture).ok_or(Code::ILLEGAL_STATE)?;
        let is_wrong_thread = capture.mode != Mode::Relaxed && capture.thread != thread::current().id();
        if !is_wrong_thread && capture.origin != stream {
            self.invalidate(part.capture);
            return Err(Code::STREAM_CAPTURE_UNMATCHED);
        }
        let joined = self.graphs.ancestors(capture.graph, &part.after)?;
        let parts = self.streams.iter().filter_map(|(_, stream)| stream.capture.as_ref());
        let is_joined = parts.filter(|other| other.capture == part.capture).flat_map(|other| &other.after);
        let is_joined = is_joined.into_iter().all(|node| joined.contains(node));
        let (graph, is_invalid) = (capture.graph, capture.is_invalid);
        self.forget_capture(part.capture);
        let wrong = if is_wrong_thread {
            Code::STREAM_CAPTURE_WRONG_THREAD
        } else if is_invalid {
            Code::STREAM_CAPTURE_INVALIDATED
        } else if !is_joined {
            Code::STREAM_CAPTURE_UNJOINED
        } else {
            return Ok(graph);
        };
        self.graphs.remove(graph)?;
        Err(wrong)
    }

    fn forget_capture(&mut self, capture: u64) {
        self.captures.remove(&capture);
        for (_, stream) in self.streams.iter_mut() {
            if stream.capture.as_ref().is_some_and(|part| part.capture == capture) {
                stream.capture = None;
            }
        }
    }

    /// Ends the capture that began in a stream, because that stream is being destroyed.
    pub(crate) fn abandon_capture(&mut self, stream: Handle) {
        let begun = self.captures.iter().find(|(_, capture)| capture.origin == stream);
        let Some((id, graph)) = begun.map(|(id, begun)| (*id, begun.graph)) else { return };
        self.forget_capture(id);
        let _ = self.graphs.remove(graph);
    }

    /// Returns the error for a query of an event that was recorded in a captured stream.
    pub(crate) fn captured_event(&self, capture: u64) -> Code {
        let is_invalid = self.captures.get(&capture).is_some_and(|capture| capture.is_invalid);
        if is_invalid { Code::INVALID_VALUE } else { Code::CAPTURED_EVENT }
    }

    pub(crate) fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.captures.get_mut(&capture) {
            capture.is_invalid = true;
        }
    }

    /// Refuses a call with this error, and invalidates the capture.
    fn refuse(&mut self, capture: u64, error: Code) -> Answer {
        self.invalidate(capture);
        Err(error)
    }

    /// Returns whether a stream is captured, or an error if its capture is invalid.
    pub(crate) fn is_captured(&self, stream: Handle) -> Answer<bool> {
        let Some(part) = &self.streams.get(stream)?.capture else { return Ok(false) };
        let is_invalid = self.captures.get(&part.capture).is_none_or(|capture| capture.is_invalid);
        if is_invalid { Err(Code::STREAM_CAPTURE_INVALIDATED) } else { Ok(true) }
    }

    /// Adds work as a node to the graph that captures a stream.
    pub(crate) fn capture(&mut self, stream: Handle, work: Work) -> Answer {
        let found = self.streams.get(stream)?;
        if found.part.is_some() {
            return failures::not_simulated("a capture in a stream of a green context");
        }
        let (context, part) = (found.context, found.capture.clone().ok_or(Code::ILLEGAL_STATE)?);
        let graph = self.captures.get(&part.capture).ok_or(Code::ILLEGAL_STATE)?.graph;
        let node = self.graphs.add(graph, Node { work, context, after: part.after })?;
        if let Some(part) = &mut self.streams.get_mut(stream)?.capture {
            part.after = vec![node];
        }
        Ok(())
    }

    /// Refuses a call that cannot be captured if the stream is captured, and invalidates the capture.
    pub(crate) fn not_captured(&mut self, stream: Handle) -> Answer {
        match &self.streams.get(stream)?.capture {
            Some(part) => self.refuse(part.capture, Code::STREAM_CAPTURE_UNSUPPORTED),
            None => self.not_implied(stream),
        }
    }

    /// Refuses work for the default stream while a blocking stream is captured. The work would have to wait for that
    /// stream.
    pub(crate) fn not_implied(&mut self, stream: Handle) -> Answer {
        let Some(capture) = self.blocking_capture(stream)? else { return Ok(()) };
        self.refuse(capture, Code::STREAM_CAPTURE_IMPLICIT)
    }

    /// Returns the capture of a blocking stream of the same context, if `stream` is the default stream.
    pub(crate) fn blocking_capture(&self, stream: Handle) -> Answer<Option<u64>> {
        let found = self.streams.get(stream)?;
        if found.order != Order::Legacy {
            return Ok(None);
        }
        let others = self.streams.iter().map(|(_, other)| other);
        let mut blocking =
            others.filter(|other| other.context == found.context && other.order == Order::Blocking);
        Ok(blocking.find_map(|other| other.capture.as_ref()).map(|part| part.capture))
    }

    /// Refuses to wait for a context while any of its streams is captured.
    pub(crate) fn none_captured(&mut self, context: Handle) -> Answer {
        let streams = self.streams.iter().filter(|(_, stream)| stream.context == context);
        let captured: Vec<_> =
            streams.filter_map(|(_, stream)| Some(stream.capture.as_ref()?.capture)).collect();
        if captured.is_empty() {
            return Ok(());
        }
        captured.into_iter().for_each(|capture| self.invalidate(capture));
        Err(Code::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Refuses an unsafe call, such as an allocation, if a capture forbids it, and invalidates that capture. The modes
    /// of the capture and of the calling thread decide.
    pub(crate) fn may_disturb(&mut self) -> Answer {
        let (this, mode) = (thread::current().id(), MODE.get());
        let forbids = |capture: &Capture| match mode {
            Mode::Relaxed => false,
            _ if capture.thread == this => capture.mode != Mode::Relaxed,
            Mode::Global => capture.mode == Mode::Global,
            Mode::ThreadLocal => false,
        };
        let mut disturbed = self.captures.values_mut().filter(|capture| forbids(capture)).peekable();
        if disturbed.peek().is_none() {
            return Ok(());
        }
        disturbed.for_each(|capture| capture.is_invalid = true);
        Err(Code::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Refuses a captured stream's wait for an event that was recorded outside of the capture.
    pub(crate) fn isolated(&mut self, stream: Handle) -> Answer {
        if let Some(part) = self.streams.get(stream)?.capture.clone() {
            self.invalidate(part.capture);
        }
        Err(Code::STREAM_CAPTURE_ISOLATION)
    }

    /// Makes a stream wait for an event of a capture. The stream thereby joins that capture.
    pub(crate) fn join(&mut self, stream: Handle, event: &Part) -> Answer {
        if !self.captures.contains_key(&event.capture) {
            return Err(Code::INVALID_VALUE);
        }
        let found = self.streams.get_mut(stream)?;
        if found.order == Order::Legacy {
            return self.refuse(event.capture, Code::STREAM_CAPTURE_IMPLICIT);
        }
        match &mut found.capture {
            None => found.capture = Some(event.clone()),
            Some(part) if part.capture == event.capture => {
                for node in &event.after {
                    if !part.after.contains(node) {
                        part.after.push(*node);
                    }
                }
            }
            Some(part) => {
                let other = part.capture;
                self.invalidate(other);
                return self.refuse(event.capture, Code::STREAM_CAPTURE_MERGE);
            }
        }
        Ok(())
    }
}
