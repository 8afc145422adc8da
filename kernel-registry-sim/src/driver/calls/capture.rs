//! Capturing streams, and how far that has come.

use crate::driver::abi::{In, Out};
use crate::driver::capture::Mode;
use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};
use crate::driver::state::{begin, begin_with};

const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

fn begin_capture(stream: Handle, mode: u32, given: Option<(Handle, Vec<Handle>)>) -> Answer {
    let mut state = begin()?;
    let mode = Mode::from_number(mode)?;
    let stream = state.stream(stream)?;
    if let Some((graph, after)) = &given {
        state.may_add(*graph, after)?;
    }
    state.begin_capture(stream, mode, given)
}

/// Where results about a capture go.
struct Information {
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    after: Out<*const Handle>,
    edges: Out<*const u8>,
    count: Out<usize>,
}

impl Information {
    fn get(self, stream: Handle) -> Answer {
        let (state, stream) = begin_with(stream)?;
        // It looks, and does not disturb.
        if state.blocking_capture(stream)?.is_some() {
            return Err(Code::STREAM_CAPTURE_IMPLICIT);
        }
        let Some(part) = &state.streams.get(stream)?.capture else { return self.status.set(NONE) };
        let capture = state.captures.get(&part.capture).ok_or(Code::ILLEGAL_STATE)?;
        self.status.set(if capture.is_invalid { INVALIDATED } else { ACTIVE })?;
        self.id.set_if_wanted(part.capture)?;
        if !capture.is_invalid {
            self.graph.set_if_wanted(capture.graph)?;
            // It stays until the stream is given something.
            self.after.set_if_wanted(part.after.as_ptr())?;
            self.edges.set_if_wanted(std::ptr::null())?;
            self.count.set_if_wanted(part.after.len())?;
        }
        Ok(())
    }
}

fn update_dependencies(stream: Handle, nodes: &In<Handle>, count: usize, flags: u32) -> Answer {
    const SET: u32 = 1;
    let (mut state, stream) = begin_with(stream)?;
    let nodes = nodes.all(count)?;
    if flags > SET {
        return Err(Code::INVALID_VALUE);
    }
    if !state.is_captured(stream)? {
        return Err(Code::ILLEGAL_STATE);
    }
    let part = state.streams.get(stream)?.capture.clone().ok_or(Code::ILLEGAL_STATE)?;
    let graph = state.captures.get(&part.capture).ok_or(Code::ILLEGAL_STATE)?.graph;
    state.may_add(graph, &nodes)?;
    if let Some(part) = &mut state.streams.get_mut(stream)?.capture {
        if flags == SET {
            part.after.clear();
        }
        part.after.extend(nodes);
    }
    Ok(())
}

calls! {
    10000 fn cuStreamBeginCapture(stream: Handle) {
        begin_capture(stream, 0, None)
    }

    10010 fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) {
        begin_capture(stream, mode, None)
    }

    12030 fn cuStreamBeginCaptureToGraph(
        stream: Handle, graph: Handle, after: In<Handle>, _edges: In<u8>, count: usize, mode: u32,
    ) {
        begin_capture(stream, mode, Some((graph, after.all(count)?)))
    }

    10000 fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) {
        let (mut state, stream) = begin_with(stream)?;
        graph.ready()?;
        graph.set(0)?;
        graph.set(state.end_capture(stream)?)
    }

    10000 fn cuStreamIsCapturing(stream: Handle, status: Out<u32>) {
        let (id, graph, after, edges, count) = (Out::null(), Out::null(), Out::null(), Out::null(), Out::null());
        Information { status, id, graph, after, edges, count }.get(stream)
    }

    10010 fn cuStreamGetCaptureInfo(stream: Handle, status: Out<u32>, id: Out<u64>) {
        let (graph, after, edges, count) = (Out::null(), Out::null(), Out::null(), Out::null());
        Information { status, id, graph, after, edges, count }.get(stream)
    }

    11030 fn cuStreamGetCaptureInfo_v2(
        stream: Handle, status: Out<u32>, id: Out<u64>, graph: Out<Handle>, after: Out<*const Handle>,
        count: Out<usize>,
    ) {
        Information { status, id, graph, after, edges: Out::null(), count }.get(stream)
    }

    12030 fn cuStreamGetCaptureInfo_v3(
        stream: Handle, status: Out<u32>, id: Out<u64>, graph: Out<Handle>, after: Out<*const Handle>,
        edges: Out<*const u8>, count: Out<usize>,
    ) {
        Information { status, id, graph, after, edges, count }.get(stream)
    }

    11030 fn cuStreamUpdateCaptureDependencies(stream: Handle, nodes: In<Handle>, count: usize, flags: u32) {
        update_dependencies(stream, &nodes, count, flags)
    }

    12030 fn cuStreamUpdateCaptureDependencies_v2(
        stream: Handle, nodes: In<Handle>, _edges: In<u8>, count: usize, flags: u32,
    ) {
        update_dependencies(stream, &nodes, count, flags)
    }
}
