//! Filling memory.

use super::copy::finish;
use crate::driver::area::{Area, Extent};
use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};
use crate::driver::state::{State, begin_with};
use crate::driver::stream::Work;

/// `CUDA_MEMSET_NODE_PARAMS`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Fill {
    pub(super) to: usize,
    /// Bytes from one row to the next; of one row there is none.
    pub(super) pitch: usize,
    pub(super) pattern: u32,
    /// Bytes of the pattern.
    pub(super) element: u32,
    /// Elements of a row.
    pub(super) width: usize,
    pub(super) rows: usize,
}

impl Fill {
    /// A row of elements.
    fn line(to: usize, pattern: u32, element: u32, width: usize) -> Self {
        Fill { to, pitch: 0, pattern, element, width, rows: 1 }
    }

    fn is_empty(&self) -> bool {
        self.width == 0 || self.rows == 0
    }

    pub(super) fn work(&self, state: &State) -> Answer<Work> {
        let element = self.element as usize;
        if !matches!(element, 1 | 2 | 4) {
            return Err(Code::INVALID_VALUE);
        }
        let width = self.width.checked_mul(element).ok_or(Code::INVALID_VALUE)?;
        let row = if self.rows == 1 { width } else { self.pitch };
        if row < width || !row.is_multiple_of(element) || !self.to.is_multiple_of(element) {
            return Err(Code::INVALID_VALUE);
        }
        let (to, extent) =
            (Area { start: self.to, row, layer: 0 }, Extent { width, rows: self.rows, layers: 1 });
        let span = to.span(extent).ok_or(Code::INVALID_VALUE)?;
        if !state.memory.lock().has(self.to, span) {
            return Err(Code::INVALID_VALUE);
        }
        Ok(Work::Fill { to, extent, pattern: self.pattern, width: element })
    }

    /// What a node of a graph was made of, or the same in other words.
    pub(super) fn of(work: &Work) -> Answer<Self> {
        let Work::Fill { to, extent, pattern, width } = work else { return Err(Code::INVALID_VALUE) };
        Ok(Fill {
            to: to.start,
            pitch: to.row,
            pattern: *pattern,
            element: *width as u32,
            width: extent.width / width,
            rows: extent.rows,
        })
    }

    fn submit(self, stream: Handle, waits: bool) -> Answer {
        let (mut state, stream) = begin_with(stream)?;
        if self.is_empty() {
            return Ok(());
        }
        let work = self.work(&state)?;
        // A memset is as good as a launch for what the first one of a context waits for.
        let (context, last) = (state.streams.get(stream)?.context, state.last);
        state.sound(context)?.launched.get_or_insert(last);
        finish(state, stream, work, waits)
    }
}

calls! {
    3020 fn cuMemsetD8_v2(to: usize, value: u8, count: usize) {
        Fill::line(to, value.into(), 1, count).submit(0, true)
    }

    3020 fn cuMemsetD16_v2(to: usize, value: u16, count: usize) {
        Fill::line(to, value.into(), 2, count).submit(0, true)
    }

    3020 fn cuMemsetD32_v2(to: usize, value: u32, count: usize) {
        Fill::line(to, value, 4, count).submit(0, true)
    }

    3020 fn cuMemsetD8Async(to: usize, value: u8, count: usize, stream: Handle) {
        Fill::line(to, value.into(), 1, count).submit(stream, false)
    }

    3020 fn cuMemsetD16Async(to: usize, value: u16, count: usize, stream: Handle) {
        Fill::line(to, value.into(), 2, count).submit(stream, false)
    }

    3020 fn cuMemsetD32Async(to: usize, value: u32, count: usize, stream: Handle) {
        Fill::line(to, value, 4, count).submit(stream, false)
    }

    3020 fn cuMemsetD2D8_v2(to: usize, pitch: usize, value: u8, width: usize, rows: usize) {
        Fill { to, pitch, pattern: value.into(), element: 1, width, rows }.submit(0, true)
    }

    3020 fn cuMemsetD2D16_v2(to: usize, pitch: usize, value: u16, width: usize, rows: usize) {
        Fill { to, pitch, pattern: value.into(), element: 2, width, rows }.submit(0, true)
    }

    3020 fn cuMemsetD2D32_v2(to: usize, pitch: usize, value: u32, width: usize, rows: usize) {
        Fill { to, pitch, pattern: value, element: 4, width, rows }.submit(0, true)
    }

    3020 fn cuMemsetD2D8Async(to: usize, pitch: usize, value: u8, width: usize, rows: usize, stream: Handle) {
        Fill { to, pitch, pattern: value.into(), element: 1, width, rows }.submit(stream, false)
    }

    3020 fn cuMemsetD2D16Async(to: usize, pitch: usize, value: u16, width: usize, rows: usize, stream: Handle) {
        Fill { to, pitch, pattern: value.into(), element: 2, width, rows }.submit(stream, false)
    }

    3020 fn cuMemsetD2D32Async(to: usize, pitch: usize, value: u32, width: usize, rows: usize, stream: Handle) {
        Fill { to, pitch, pattern: value, element: 4, width, rows }.submit(stream, false)
    }
}
