//! Copies a thread's Python frames in a signal handler, with their names. The thread that asked decodes them.

use std::cell::UnsafeCell;

use super::code::{Characters, NamedFrame, Scratch};
use super::interpreter::{Frame, Texts};
use super::structures::{DEPTH, Structures};

/// The size of the buffer for names. Once it's full, the remaining outer frames are left out.
const ROOM: usize = 32 << 10;

/// A frame whose names are in the buffer.
#[derive(Clone, Copy)]
struct Entry {
    line: u32,
    file: Text,
    function: Text,
}

#[derive(Clone, Copy)]
struct Text {
    begin: usize,
    length: usize,
    width: u8,
}

struct Copied {
    /// The address of the thread's Python state, or 0.
    state: u64,
    count: usize,
    entries: [Entry; DEPTH],
    used: usize,
    names: [u8; ROOM],
}

impl Copied {
    fn push(&mut self, named: &NamedFrame<'_>) -> Option<()> {
        let entry = self.entries.get_mut(self.count)?;
        let (names, used) = (&mut self.names, &mut self.used);
        let mut text = |its: Characters<'_>| {
            let (begin, length) = (*used, its.bytes.len());
            names.get_mut(begin..begin + length)?.copy_from_slice(its.bytes);
            *used += length;
            Some(Text { begin, length, width: its.width })
        };
        *entry = Entry { line: named.line, file: text(named.file)?, function: text(named.function)? };
        self.count += 1;
        Some(())
    }
}

struct Shared(UnsafeCell<(Copied, Scratch)>);

// SAFETY: the asked thread writes to it, then the one that asked reads it. `asked` allows one at a time.
unsafe impl Sync for Shared {}

static COPIED: Shared = {
    const NO_TEXT: Text = Text { begin: 0, length: 0, width: 1 };
    let entries = [Entry { line: 0, file: NO_TEXT, function: NO_TEXT }; DEPTH];
    let copied = Copied { state: 0, count: 0, entries, used: 0, names: [0; ROOM] };
    Shared(UnsafeCell::new((copied, Scratch::NEW)))
};

/// Copies this thread's frames. Called in the signal handler of `asked`.
///
/// # Safety
///
/// This thread was asked, and no other thread uses the copy before it has answered.
pub(crate) unsafe fn copy() {
    // SAFETY: the caller's promise.
    let (copied, scratch) = unsafe { &mut *COPIED.0.get() };
    let python = Structures::current();
    (copied.state, copied.count, copied.used) = (python.map_or(0, Structures::state), 0, 0);
    if let Some(python) = python {
        python.each(copied.state, scratch, &mut |named| copied.push(named).is_some());
    }
}

/// Returns the Python state of the thread that was asked, or 0, and its frames, the innermost first.
///
/// # Safety
///
/// The thread has answered, and no other thread is asked before this returns.
pub(crate) unsafe fn read(texts: &mut Texts) -> (u64, Vec<Frame>) {
    // SAFETY: the caller's promise.
    let (copied, _) = unsafe { &*COPIED.0.get() };
    let text =
        |its: Text| Characters { bytes: &copied.names[its.begin..its.begin + its.length], width: its.width };
    let frames = copied.entries[..copied.count].iter().filter_map(|entry| {
        NamedFrame { line: entry.line, file: text(entry.file), function: text(entry.function) }.frame(texts)
    });
    (copied.state, frames.collect())
}
