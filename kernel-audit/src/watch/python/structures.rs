//! Reads the Python frames of a thread that is at any instruction, also in the middle of a change to its frames. So the
//! interpreter's structures are copied, each as far as it is there, and nothing that they point to is trusted.

use std::collections::HashMap;
use std::ffi::{c_ulong, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{mem, ptr};

use super::interpreter::{Frame, MOST as MOST_FRAMES, address, function, runs};
use super::layout::{FRAME, Layout};
use crate::watch::process::memory;

/// The most frames that are read of a stack.
pub(crate) const DEPTH: usize = 64;

/// From this owner on, frames belong to the interpreter, and stand for no function.
const OF_NO_FUNCTION: u8 = 3;
/// Since 3.14, the lowest bits of a frame's reference to its code say who counts the reference.
const TAG: u64 = 7;

type State = unsafe extern "C" fn() -> *mut c_void;

/// An interpreter whose structures are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Structures {
    layout: Layout,
    /// The address of the function that returns a thread's state.
    state: usize,
}

/// The interpreter that was stored last, or null. A thread may answer late, so none is freed.
static KEPT: AtomicPtr<Structures> = AtomicPtr::new(ptr::null_mut());

/// A frame: the addresses of its code object, and of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    code: u64,
    instruction: u64,
}

impl Place {
    pub(crate) const NONE: Place = Place { code: 0, instruction: 0 };
}

impl Structures {
    /// Returns the interpreter in this process, if its structures are known, and it has begun and is not ending.
    pub(crate) fn find() -> Option<Self> {
        let version = memory::words::<1>(address(c"Py_Version")?)?[0] as c_ulong;
        let layout = Layout::for_version(version, || address(c"_PyRuntime"))?;
        // SAFETY: this is the type of CPython's function of this name.
        let state: State = unsafe { function(c"PyGILState_GetThisThreadState")? };
        runs().then_some(Structures { layout, state: state as usize })
    }

    /// Stores the interpreter that was found, or none, for [`kept`](Self::kept).
    pub(crate) fn keep(found: Option<Self>) {
        if Self::kept() != found.as_ref() {
            let kept = found.map_or(ptr::null_mut(), |python| Box::into_raw(Box::new(python)));
            KEPT.store(kept, Ordering::Release);
        }
    }

    /// Returns the interpreter that was stored last. May be called in the handler of a signal.
    pub(crate) fn kept() -> Option<&'static Self> {
        // SAFETY: the pointer is null, or came from a box that is never freed.
        unsafe { KEPT.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the address of this thread's state, or 0. May be called in the handler of a signal.
    pub(crate) fn state(&self) -> u64 {
        // SAFETY: `find` stored the address of a function of this type, which only reads a value of this thread.
        unsafe { mem::transmute::<usize, State>(self.state)().addr() as u64 }
    }

    /// Copies the frames of the thread with this state, the innermost first. Returns their number. May be called in the
    /// handler of a signal.
    pub(crate) fn copy(&self, state: u64, places: &mut [Place; DEPTH]) -> usize {
        let word = |at: u64| if at == 0 { 0 } else { memory::words::<1>(at).map_or(0, |[word]| word) };
        let member = |of: u64, offset: u64| if of == 0 { 0 } else { word(of.wrapping_add(offset)) };
        let holder = self.layout.c_frame.map_or(state, |c_frame| member(state, c_frame));
        let mut frame = member(holder, self.layout.current);
        let mut count = 0;
        // A frame that is being made can lead anywhere, also in a circle.
        for _ in 0..2 * DEPTH {
            let Some(words) = memory::words::<FRAME>(frame).filter(|_| frame != 0 && count < DEPTH) else {
                break;
            };
            let [code, previous, instruction] = self.layout.frame.map(|offset| words[offset / 8]);
            let owner = words[self.layout.owner / 8].to_le_bytes()[self.layout.owner % 8];
            if owner < OF_NO_FUNCTION {
                places[count] = Place { code: code & !TAG, instruction };
                count += 1;
            }
            frame = previous;
        }
        count
    }

    /// Reads the frames of the thread with this state, the innermost first.
    pub(crate) fn frames(&self, state: u64) -> Vec<Frame> {
        let (mut places, mut codes) = ([Place::NONE; DEPTH], Codes::default());
        let count = self.copy(state, &mut places);
        places[..count].iter().filter_map(|place| codes.name(self, *place)).take(MOST_FRAMES).collect()
    }
}

/// What is known of code objects. A code object that is freed can leave its address to another; then the frames of the
/// second have the name of the first.
#[derive(Default)]
pub(crate) struct Codes(HashMap<u64, Option<Code>>);

struct Code {
    file: Arc<str>,
    function: Arc<str>,
    line: u32,
    lines: Vec<u8>,
    /// The address of the first instruction.
    begin: u64,
}

/// More code objects than a program runs.
const MOST: usize = 1 << 16;
/// The most characters of a name, and bytes of a table of lines, that are read.
const LONGEST: usize = 500;
const LARGEST: usize = 64 << 10;

impl Codes {
    /// Names a frame, if its code object is one.
    pub(crate) fn name(&mut self, of: &Structures, place: Place) -> Option<Frame> {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let code = self.0.entry(place.code).or_insert_with(|| read(&of.layout, place.code)).as_ref()?;
        /// The bytes of an instruction.
        const UNIT: u64 = 2;
        let unit = place.instruction.checked_sub(code.begin).map(|bytes| bytes / UNIT);
        let line = unit.and_then(|unit| line_of(&code.lines, code.line, unit)).unwrap_or(code.line);
        Some(Frame { file: code.file.clone(), function: code.function.clone(), line })
    }
}

fn read(layout: &Layout, code: u64) -> Option<Code> {
    let [line, file, function, lines, begin] = layout.code.map(|offset| code.wrapping_add(offset));
    let pointer = |at| Some(memory::words::<1>(at)?[0]);
    let line = u32::from_le_bytes(memory::bytes(line, 4)?.try_into().ok()?);
    /// The offsets in an object of bytes.
    const LENGTH: u64 = 16;
    const BYTES: u64 = 32;
    let lines = pointer(lines)?;
    let length = usize::try_from(pointer(lines.wrapping_add(LENGTH))?).ok()?;
    let lines = memory::bytes(lines.wrapping_add(BYTES), length.min(LARGEST))?;
    let text = |at| text(layout, pointer(at)?);
    Some(Code { file: text(file)?, function: text(function)?, line, lines, begin })
}

/// Reads a text of Python: its length, how its characters are stored, and the characters.
fn text(layout: &Layout, at: u64) -> Option<Arc<str>> {
    let [_, _, length, _, state] = memory::words::<5>(at)?;
    let (width, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
    let [ascii, others] = layout.text;
    let begin = at.wrapping_add(if is_ascii { ascii } else { others });
    if !is_compact || !matches!(width, 1 | 2 | 4) || length == 0 {
        return None;
    }
    let count = usize::try_from(length).unwrap_or(LONGEST).min(LONGEST);
    let bytes = memory::bytes(begin, count * width as usize)?;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    let character = |bytes: &[u8]| char::from_u32(number(bytes)).unwrap_or(char::REPLACEMENT_CHARACTER);
    Some(bytes.chunks(width as usize).map(character).collect::<String>().into())
}

/// Returns the line of an instruction, from the table of a code object whose first line is known: an entry for some
/// instructions after the other, with the number of lines since the entry before.
fn line_of(table: &[u8], first: u32, unit: u64) -> Option<u32> {
    let (mut line, mut end) = (i64::from(first), 0_u64);
    let mut bytes = table.iter().copied().peekable();
    loop {
        let entry = bytes.next()?;
        let kind = entry >> 3 & 15;
        let (has_line, change) = match kind {
            // The columns follow, in bytes whose first bit is 0.
            0..=9 => (true, 0),
            10..=12 => (true, i64::from(kind) - 10),
            13 | 14 => {
                let (mut number, mut shift) = (0_u64, 0);
                loop {
                    let byte = bytes.next()?;
                    number |= u64::from(byte & 63).checked_shl(shift)?;
                    shift += 6;
                    if byte & 64 == 0 {
                        break;
                    }
                }
                let size = (number >> 1).cast_signed();
                (true, if number & 1 == 1 { -size } else { size })
            }
            _ => (false, 0),
        };
        line = line.checked_add(change)?;
        end += u64::from(entry & 7) + 1;
        if unit < end {
            return has_line.then(|| u32::try_from(line).ok()).flatten();
        }
        while bytes.next_if(|byte| byte & 128 == 0).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPython 3.11 wrote the table for these lines: `def f(a):`, `b = a`, nothing, `return (a +`, `b)`.
    #[test]
    fn lines_are_those_of_the_table() {
        let table = [128, 0, 216, 6, 7, 128, 33, 224, 10, 11, 216, 1, 2, 241, 3, 1, 11, 3, 240, 0, 1, 3, 4];
        for (unit, line) in [1, 2, 2, 4, 5, 4, 4, 4].into_iter().enumerate() {
            assert_eq!(line_of(&table, 1, unit as u64), Some(line), "{unit}");
        }
        assert_eq!(line_of(&table, 1, 8), None);
        for damaged in [&[0xf0, 0xc0, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0xe8], &[]] {
            assert_eq!(line_of(damaged, 1, 9), None);
        }
    }

    #[test]
    fn any_memory_is_read_without_a_fault() {
        let layout = Layout::for_version(0x030b << 16, || None).unwrap();
        let structures = Structures { layout, state: 0 };
        let circle = [0_u64; 16];
        let mut words = [circle.as_ptr().addr() as u64; 32];
        words[8] = 0;
        for state in [0, 1, 8, u64::MAX, words.as_ptr().addr() as u64] {
            assert!(structures.copy(state, &mut [Place::NONE; DEPTH]) <= DEPTH);
            let place = Place { code: state, instruction: state };
            assert_eq!(Codes::default().name(&structures, place), None);
        }
    }
}
