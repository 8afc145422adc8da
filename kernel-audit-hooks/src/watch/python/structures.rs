//! Reads the Python frames of a thread that doesn't run: this thread, one that a signal has interrupted, or
//! one that waits. It may have stopped in the middle of changing its frames. So each structure is copied as
//! far as it's mapped, and no pointer is trusted.
//!
//! Names must be read before the thread continues, because it may free its code objects then.

use std::ffi::{c_ulong, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::code::{NamedFrame, RawFrame, Scratch, Types};
use super::interpreter::{Frame, MOST as MOST_FRAMES, Texts, address, function, is_running};
use super::layout::{FRAME, Layout};
use crate::watch::process::memory;

/// Limits the number of frames read.
pub(super) const DEPTH: usize = 64;

/// Frames with this owner or a higher one are the interpreter's own, and have no function.
const INTERNAL: u8 = 3;
/// Since 3.14, the lowest bits of a frame's pointer to its code are a tag for reference counting.
const TAG: u64 = 7;

type State = unsafe extern "C" fn() -> *mut c_void;

/// An interpreter with known layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Structures {
    layout: Layout,
    types: Types,
    /// The address of the function that returns a thread's state.
    state: usize,
}

/// The interpreter for signal handlers, or null. None is ever freed, because a thread may answer late.
static CURRENT: AtomicPtr<Structures> = AtomicPtr::new(ptr::null_mut());

impl Structures {
    /// Returns the interpreter in this process, if its layout is known and it's running.
    pub(crate) fn find() -> Option<Self> {
        let version = memory::words::<1>(address(c"Py_Version")?)?[0] as c_ulong;
        let layout = Layout::for_version(version, || address(c"_PyRuntime"))?;
        let types = Types::find()?;
        // SAFETY: this is the function's type.
        let state: State = unsafe { function(c"PyGILState_GetThisThreadState")? };
        is_running().then_some(Structures { layout, types, state: state as usize })
    }

    /// Sets the interpreter that signal handlers read.
    pub(crate) fn set_current(found: Option<Self>) {
        if Self::current() != found.as_ref() {
            let new = found.map_or(ptr::null_mut(), |python| Box::into_raw(Box::new(python)));
            CURRENT.store(new, Ordering::Release);
        }
    }

    /// Returns the interpreter that was set last. Async-signal-safe.
    pub(super) fn current() -> Option<&'static Self> {
        // SAFETY: the pointer is null, or came from a box that is never freed.
        unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the address of this thread's state, or 0. Async-signal-safe.
    pub(crate) fn state(&self) -> u64 {
        // SAFETY: `find` stored the address of a function of this type, which reads a thread-local value.
        unsafe { mem::transmute::<usize, State>(self.state)().addr() as u64 }
    }

    /// Visits a thread's frames, the innermost first, until `visit` returns false. Async-signal-safe.
    pub(super) fn each(
        &self,
        state: u64,
        scratch: &mut Scratch,
        visit: &mut dyn FnMut(&NamedFrame<'_>) -> bool,
    ) {
        scratch.pages.clear();
        let mut field = |base: u64, offset: u64| {
            let mut word = [0];
            // The word stays 0 if it isn't mapped.
            scratch.pages.read(base.wrapping_add(offset), &mut word);
            word[0]
        };
        let holder = self.layout.c_frame.map_or(state, |c_frame| field(state, c_frame));
        let mut frame = field(holder, self.layout.current);
        // A frame that's being created can point anywhere, also back into the chain.
        for _ in 0..2 * DEPTH {
            let mut words = [0; FRAME];
            if scratch.pages.read(frame, &mut words) < FRAME {
                break;
            }
            let [code, previous, instruction] = self.layout.frame.map(|offset| words[offset / 8]);
            let owner = words[self.layout.owner / 8].to_le_bytes()[self.layout.owner % 8];
            let raw = RawFrame { code: code & !TAG, instruction, owner };
            let named = if owner < INTERNAL { self.types.name(&self.layout, raw, scratch) } else { None };
            if named.is_some_and(|named| !visit(&named)) {
                break;
            }
            frame = previous;
        }
    }

    /// Reads the frames of the thread with this state, the innermost first.
    pub(crate) fn frames(&self, state: u64, texts: &mut Texts) -> Vec<Frame> {
        let (mut frames, mut scratch) = (Vec::new(), Scratch::boxed());
        self.each(state, &mut scratch, &mut |named| {
            frames.extend(named.frame(texts));
            frames.len() < MOST_FRAMES
        });
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_memory_is_read_without_a_fault() {
        let layout = Layout::for_version(0x030b << 16, || None).unwrap();
        let types = Types { code: 8, text: 8, bytes: 8 };
        let structures = Structures { layout, types, state: 0 };
        let circle = [0_u64; 16];
        let mut words = [circle.as_ptr().addr() as u64; 32];
        words[8] = 0;
        for state in [0, 1, 8, u64::MAX, words.as_ptr().addr() as u64] {
            assert_eq!(structures.frames(state, &mut Texts::default()), []);
        }
    }
}
