//! Reads the Python frames of a thread that stands still at any instruction, also in the middle of a change to its frames: this thread, one
//! that a signal has interrupted, or one that waits. So the interpreter's structures are copied, each as far as it is there, and nothing that
//! they point to is trusted.
//!
//! Names have to be read before the thread goes on. Then it may free its code objects, and other objects get their memory.

use std::ffi::{c_ulong, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::code::{Named, Place, Scratch, Types};
use super::interpreter::{Frame, MOST as MOST_FRAMES, Texts, address, function, runs};
use super::layout::{FRAME, Layout};
use crate::watch::process::memory;

/// The most frames that are read of a stack.
pub(super) const DEPTH: usize = 64;

/// From this owner on, frames belong to the interpreter, and stand for no function.
const OF_NO_FUNCTION: u8 = 3;
/// Since 3.14, the lowest bits of a frame's reference to its code say who counts the reference.
const TAG: u64 = 7;

type State = unsafe extern "C" fn() -> *mut c_void;

/// An interpreter whose structures are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Structures {
    layout: Layout,
    types: Types,
    /// The address of the function that returns a thread's state.
    state: usize,
}

/// The interpreter that was stored last, or null. A thread may answer late, so none is freed.
static KEPT: AtomicPtr<Structures> = AtomicPtr::new(ptr::null_mut());

impl Structures {
    /// Returns the interpreter in this process, if its structures are known, and it has begun and is not ending.
    pub(crate) fn find() -> Option<Self> {
        let version = memory::words::<1>(address(c"Py_Version")?)?[0] as c_ulong;
        let layout = Layout::for_version(version, || address(c"_PyRuntime"))?;
        let types = Types::find()?;
        // SAFETY: this is the type of CPython's function of this name.
        let state: State = unsafe { function(c"PyGILState_GetThisThreadState")? };
        runs().then_some(Structures { layout, types, state: state as usize })
    }

    /// Stores the interpreter that was found, or none, for [`kept`](Self::kept).
    pub(crate) fn keep(found: Option<Self>) {
        if Self::kept() != found.as_ref() {
            let kept = found.map_or(ptr::null_mut(), |python| Box::into_raw(Box::new(python)));
            KEPT.store(kept, Ordering::Release);
        }
    }

    /// Returns the interpreter that was stored last. May be called in the handler of a signal.
    pub(super) fn kept() -> Option<&'static Self> {
        // SAFETY: the pointer is null, or came from a box that is never freed.
        unsafe { KEPT.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the address of this thread's state, or 0. May be called in the handler of a signal.
    pub(crate) fn state(&self) -> u64 {
        // SAFETY: `find` stored the address of a function of this type, which only reads a value of this thread.
        unsafe { mem::transmute::<usize, State>(self.state)().addr() as u64 }
    }

    /// Passes the frames of the thread with this state to `take`, the innermost first, until it returns `false`. May be called in the handler
    /// of a signal.
    pub(super) fn each(&self, state: u64, scratch: &mut Scratch, take: &mut dyn FnMut(&Named<'_>) -> bool) {
        scratch.pages.clear();
        let mut member = |of: u64, offset: u64| {
            let mut word = [0];
            // No word is read where nothing is mapped.
            scratch.pages.read(of.wrapping_add(offset), &mut word);
            word[0]
        };
        let holder = self.layout.c_frame.map_or(state, |c_frame| member(state, c_frame));
        let mut frame = member(holder, self.layout.current);
        // A frame that is being made can lead anywhere, also in a circle.
        for _ in 0..2 * DEPTH {
            let mut words = [0; FRAME];
            if scratch.pages.read(frame, &mut words) < FRAME {
                break;
            }
            let [code, previous, instruction] = self.layout.frame.map(|offset| words[offset / 8]);
            let owner = words[self.layout.owner / 8].to_le_bytes()[self.layout.owner % 8];
            let place = Place { code: code & !TAG, instruction, owner };
            let named =
                if owner < OF_NO_FUNCTION { self.types.name(&self.layout, place, scratch) } else { None };
            if named.is_some_and(|named| !take(&named)) {
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
