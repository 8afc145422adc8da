//! Graphs, as far as one stream is captured: its launches, copies and memsets, one after the other.

use super::context::current;
use crate::driver::abi::Out;
use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};
use crate::driver::state::begin;

fn begin_capture(stream: Handle, mode: u32) -> Answer {
    let mut state = begin()?;
    if mode > 2 {
        return Err(Code::INVALID_VALUE);
    }
    let stream = state.stream(stream, current)?;
    let context = state.streams.get(stream)?.context;
    if stream == state.sound(context)?.legacy {
        return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    let stream = state.streams.get_mut(stream)?;
    if stream.capture.is_some() {
        return Err(Code::ILLEGAL_STATE);
    }
    stream.capture = Some(Vec::new());
    Ok(())
}

fn instantiate(executable: &Out<Handle>, graph: Handle) -> Answer {
    let mut state = begin()?;
    let works = state.graphs.get(graph)?.clone();
    if executable.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    executable.set(state.executables.insert(works))
}

calls! {
    10010 fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) {
        begin_capture(stream, mode)
    }

    10000 fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) {
        let mut state = begin()?;
        let stream = state.stream(stream, current)?;
        if graph.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let captured = state.streams.get_mut(stream)?.capture.take().ok_or(Code::ILLEGAL_STATE)?;
        graph.set(state.graphs.insert(captured))
    }

    10000 fn cuStreamIsCapturing(stream: Handle, status: Out<u32>) {
        let mut state = begin()?;
        let stream = state.stream(stream, current)?;
        status.set(state.streams.get(stream)?.capture.is_some().into())
    }

    11040 fn cuGraphInstantiateWithFlags(executable: Out<Handle>, graph: Handle, _flags: u64) {
        instantiate(&executable, graph)
    }

    10000 fn cuGraphLaunch(executable: Handle, stream: Handle) {
        let mut state = begin()?;
        let stream = state.stream(stream, current)?;
        for work in state.executables.get(executable)?.clone() {
            state.submit(stream, work, None)?;
        }
        Ok(())
    }

    11010 fn cuGraphUpload(executable: Handle, stream: Handle) {
        let mut state = begin()?;
        state.stream(stream, current)?;
        state.executables.get(executable).map(|_| ())
    }

    10000 fn cuGraphExecDestroy(executable: Handle) {
        begin()?.executables.remove(executable).map(drop)
    }

    10000 fn cuGraphDestroy(graph: Handle) {
        begin()?.graphs.remove(graph).map(drop)
    }
}
