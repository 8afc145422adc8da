//! Copies: of bytes, of rows of them, and of layers of rows.

use super::lacking::say_once;
use super::stream::wait;
use crate::driver::abi::In;
use crate::driver::area::{Area, Extent};
use crate::driver::caller::{self, Access};
use crate::driver::handles::Handle;
use crate::driver::memory::{Block, Kind};
use crate::driver::process::Locked;
use crate::driver::result::{Answer, Code};
use crate::driver::state::{State, begin, begin_with};
use crate::driver::stream::{Source, Work};

/// Where the bytes of a copy are.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Device,
    Host,
}

/// Which way bytes go.
struct Copy {
    to: (usize, Place),
    from: (usize, Place),
    bytes: usize,
}

impl Copy {
    /// Gives a copy to a stream. Memory of the host that is not pinned is read at once, and written before the call returns,
    /// as is everything if the caller wants to wait.
    fn submit(self, stream: Handle, waits: bool) -> Answer {
        let (state, stream) = begin_with(stream)?;
        let is_captured = state.is_captured(stream)?;
        if self.bytes == 0 {
            return Ok(());
        }
        let Copy { to, from, bytes } = self;
        if [to, from].iter().any(|(address, _)| *address == 0) {
            return Err(Code::INVALID_VALUE);
        }
        // Whether the driver knows the memory; of the host's it need not.
        let is_known = |(address, place)| {
            let memory = state.memory.lock();
            let is_known = memory.has(address, bytes);
            let must_be = place == Place::Device || memory.find(address, 1).is_some();
            if must_be && !is_known { Err(Code::INVALID_VALUE) } else { Ok(is_known) }
        };
        let (to_known, from_known) = (is_known(to)?, is_known(from)?);
        let from = if from_known || is_captured {
            Source::Address(from.0)
        } else {
            Source::Bytes(caller::read(from.0, bytes)?)
        };
        if to_known || is_captured {
            return finish(state, stream, Work::Copy { to: to.0, from, bytes }, waits);
        }
        // By way of memory that is there for sure, so that an address of the caller's which is none concerns nobody else.
        let (context, device) = state.streams.get(stream).map(|stream| (stream.context, stream.device))?;
        let between = state.memory.lock().allocate(Block { bytes, kind: Kind::Host, context, device })?;
        let done = finish(state, stream, Work::Copy { to: between, from, bytes }, true);
        let state = begin()?;
        let mut memory = state.memory.lock();
        let written = done.and_then(|()| memory.copy(to.0, between, bytes).map_err(|_| Code::INVALID_VALUE));
        memory.free(between);
        written
    }
}

/// Gives work to a stream, and perhaps waits until it is done.
pub(super) fn finish(mut state: Locked, stream: Handle, work: Work, waits: bool) -> Answer {
    let seq = state.submit(stream, work, None)?;
    if waits { wait(state, stream, seq).map(drop) } else { Ok(()) }
}

/// One end of a `CUDA_MEMCPY3D`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct End {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: u32,
    host: usize,
    device: usize,
    array: usize,
    /// In a `CUDA_MEMCPY3D_PEER`; otherwise nothing.
    context: Handle,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Copy3 {
    from: End,
    to: End,
    width: usize,
    height: usize,
    depth: usize,
}

/// One end of a `CUDA_MEMCPY2D`.
#[derive(Clone, Copy)]
#[repr(C)]
struct End2 {
    x: usize,
    y: usize,
    kind: u32,
    host: usize,
    device: usize,
    array: usize,
    pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Copy2 {
    from: End2,
    to: End2,
    width: usize,
    height: usize,
}

impl From<Copy2> for Copy3 {
    fn from(Copy2 { from, to, width, height }: Copy2) -> Self {
        let end = |End2 { x, y, kind, host, device, array, pitch }| End {
            x,
            y,
            kind,
            host,
            device,
            array,
            pitch,
            ..End::default()
        };
        Copy3 { from: end(from), to: end(to), width, height, depth: 1 }
    }
}

/// `CUmemorytype`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

impl End {
    /// Where it is, and whether that has to be memory that the driver knows.
    fn area(&self, extent: Extent) -> Answer<(Area, bool)> {
        let base = match self.kind {
            HOST => self.host,
            DEVICE | UNIFIED => self.device,
            ARRAY => {
                say_once("a copy of an array");
                return Err(Code::NOT_SUPPORTED);
            }
            _ => return Err(Code::INVALID_VALUE),
        };
        let columns = self.x.checked_add(extent.width).ok_or(Code::INVALID_VALUE)?;
        let row = if self.pitch == 0 { columns } else { self.pitch };
        let rows = self.y.checked_add(extent.rows).ok_or(Code::INVALID_VALUE)?;
        let height = if self.height == 0 { rows } else { self.height };
        // Pitches matter only where there is more than one row, and heights where there is more than one layer.
        let is_narrow = row < columns && (rows > 1 || extent.layers > 1);
        if base == 0 || is_narrow || (height < rows && extent.layers > 1) {
            return Err(Code::INVALID_VALUE);
        }
        let layer = row.checked_mul(height).ok_or(Code::INVALID_VALUE)?;
        let before = self.z.checked_mul(layer).and_then(|bytes| bytes.checked_add(self.y.checked_mul(row)?));
        let start = before.and_then(|bytes| base.checked_add(bytes)?.checked_add(self.x));
        Ok((Area { start: start.ok_or(Code::INVALID_VALUE)?, row, layer }, self.kind == DEVICE))
    }
}

impl Copy3 {
    fn extent(&self) -> Extent {
        Extent { width: self.width, rows: self.height, layers: self.depth }
    }

    /// As work, and whether all of it is memory that the driver knows.
    fn work(&self, state: &State) -> Answer<(Work, bool)> {
        let extent = self.extent();
        let ends = [self.to.area(extent)?, self.from.area(extent)?];
        let mut all_known = true;
        for (area, must_be_known) in ends {
            let bytes = area.span(extent).filter(|bytes| area.start.checked_add(*bytes).is_some());
            let is_known = state.memory.lock().has(area.start, bytes.ok_or(Code::INVALID_VALUE)?);
            if must_be_known && !is_known {
                return Err(Code::INVALID_VALUE);
            }
            all_known &= is_known;
        }
        let [(to, _), (from, _)] = ends;
        Ok((Work::CopyArea { to, from, extent }, all_known))
    }

    /// Whether both ends are memory of this process: an address of the caller's which is none concerns nobody else.
    fn is_there(&self) -> Answer<bool> {
        let extent = self.extent();
        let is_there = |area: Area, access| {
            area.span(extent).is_some_and(|bytes| caller::allows(area.start, bytes, access))
        };
        let (from, to) = (self.from.area(extent)?.0, self.to.area(extent)?.0);
        Ok(is_there(from, Access::Read) && is_there(to, Access::Write))
    }

    /// What a node of a graph does.
    pub(super) fn node(&self, state: &State) -> Answer<Work> {
        if self.extent().is_empty() { Ok(Work::Nothing) } else { Ok(self.work(state)?.0) }
    }

    /// What a node of a graph was made of, or the same in other words.
    pub(super) fn of(work: &Work, state: &State) -> Answer<Self> {
        let (to, from, extent) = match work {
            Work::CopyArea { to, from, extent } => (*to, *from, *extent),
            Work::Copy { to, from: Source::Address(from), bytes } => {
                let line = |start: usize| Area { start, row: *bytes, layer: *bytes };
                (line(*to), line(*from), Extent { width: *bytes, rows: 1, layers: 1 })
            }
            _ => return Err(Code::INVALID_VALUE),
        };
        let end = |area: Area| {
            let is_known = state.memory.lock().has(area.start, 1);
            let (host, device) = if is_known { (0, area.start) } else { (area.start, 0) };
            let kind = if is_known { DEVICE } else { HOST };
            let height = area.layer / area.row.max(1);
            End { kind, host, device, pitch: area.row, height, ..End::default() }
        };
        Ok(Copy3 {
            from: end(from),
            to: end(to),
            width: extent.width,
            height: extent.rows,
            depth: extent.layers,
        })
    }

    fn submit(self, stream: Handle, waits: bool) -> Answer {
        let (state, stream) = begin_with(stream)?;
        let is_captured = state.is_captured(stream)?;
        if self.extent().is_empty() {
            return Ok(());
        }
        let (work, all_known) = self.work(&state)?;
        if !all_known && !is_captured && !self.is_there()? {
            return Err(Code::INVALID_VALUE);
        }
        // Memory that is not pinned is copied before the call returns.
        finish(state, stream, work, (waits || !all_known) && !is_captured)
    }
}

calls! {
    3020 fn cuMemcpyHtoD_v2(to: usize, from: usize, bytes: usize) {
        Copy { to: (to, Place::Device), from: (from, Place::Host), bytes }.submit(0, true)
    }

    3020 fn cuMemcpyDtoH_v2(to: usize, from: usize, bytes: usize) {
        Copy { to: (to, Place::Host), from: (from, Place::Device), bytes }.submit(0, true)
    }

    3020 fn cuMemcpyDtoD_v2(to: usize, from: usize, bytes: usize) {
        Copy { to: (to, Place::Device), from: (from, Place::Device), bytes }.submit(0, false)
    }

    4000 fn cuMemcpy(to: usize, from: usize, bytes: usize) {
        Copy { to: (to, Place::Host), from: (from, Place::Host), bytes }.submit(0, true)
    }

    4000 fn cuMemcpyPeer(to: usize, _to_context: Handle, from: usize, _from_context: Handle, bytes: usize) {
        Copy { to: (to, Place::Device), from: (from, Place::Device), bytes }.submit(0, true)
    }

    3020 fn cuMemcpyHtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: Handle) {
        Copy { to: (to, Place::Device), from: (from, Place::Host), bytes }.submit(stream, false)
    }

    3020 fn cuMemcpyDtoHAsync_v2(to: usize, from: usize, bytes: usize, stream: Handle) {
        Copy { to: (to, Place::Host), from: (from, Place::Device), bytes }.submit(stream, false)
    }

    3020 fn cuMemcpyDtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: Handle) {
        Copy { to: (to, Place::Device), from: (from, Place::Device), bytes }.submit(stream, false)
    }

    4000 fn cuMemcpyAsync(to: usize, from: usize, bytes: usize, stream: Handle) {
        Copy { to: (to, Place::Host), from: (from, Place::Host), bytes }.submit(stream, false)
    }

    4000 fn cuMemcpyPeerAsync(
        to: usize, _to_context: Handle, from: usize, _from_context: Handle, bytes: usize, stream: Handle,
    ) {
        Copy { to: (to, Place::Device), from: (from, Place::Device), bytes }.submit(stream, false)
    }

    3020 fn cuMemcpy2D_v2(copy: In<Copy2>) {
        Copy3::from(copy.get()?).submit(0, true)
    }

    3020 fn cuMemcpy2DUnaligned_v2(copy: In<Copy2>) {
        Copy3::from(copy.get()?).submit(0, true)
    }

    3020 fn cuMemcpy2DAsync_v2(copy: In<Copy2>, stream: Handle) {
        Copy3::from(copy.get()?).submit(stream, false)
    }

    3020 fn cuMemcpy3D_v2(copy: In<Copy3>) {
        copy.get()?.submit(0, true)
    }

    3020 fn cuMemcpy3DAsync_v2(copy: In<Copy3>, stream: Handle) {
        copy.get()?.submit(stream, false)
    }

    4000 fn cuMemcpy3DPeer(copy: In<Copy3>) {
        copy.get()?.submit(0, true)
    }

    4000 fn cuMemcpy3DPeerAsync(copy: In<Copy3>, stream: Handle) {
        copy.get()?.submit(stream, false)
    }
}
