//! Reads a frame's file, function and line from its code object. Checks first that the object is one: a frame
//! that's being created or left can refer to a freed object, or to none. Reading is async-signal-safe. Only
//! [`Scratch::boxed`] and [`NamedFrame::frame`] allocate.

use std::alloc;
use std::slice;

use super::interpreter::{Frame, Texts, address};
use super::layout::{CODE, Layout};
use super::pages::Pages;

/// A frame: the addresses of its code object and of an instruction, and the kind of its owner.
#[derive(Clone, Copy)]
pub(super) struct RawFrame {
    pub(super) code: u64,
    pub(super) instruction: u64,
    pub(super) owner: u8,
}

/// The owner of a generator's frame.
const GENERATOR: u8 = 1;

/// The addresses of Python's types for code objects, `str` and `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Types {
    pub(super) code: u64,
    pub(super) text: u64,
    pub(super) bytes: u64,
}

/// The maximum size of a name in bytes.
const LONGEST: usize = 1000;
/// The maximum size of a line table in bytes.
const LARGEST: u64 = 256 << 10;

/// The number of words in the largest `str`: header and characters.
const TEXT: usize = 9 + LONGEST / size_of::<u64>();
/// The number of words of a `str` that are read first. Most have no more.
const SHORT: usize = 24;

/// Buffers for copies of a frame's objects, initially zero.
pub(super) struct Scratch {
    pub(super) pages: Pages,
    code: [u64; CODE],
    file: [u64; TEXT],
    function: [u64; TEXT],
}

impl Scratch {
    pub(super) const NEW: Scratch =
        Scratch { pages: Pages::NEW, code: [0; CODE], file: [0; TEXT], function: [0; TEXT] };

    /// Allocates buffers directly on the heap, because some threads' stacks have no room for a copy.
    pub(super) fn boxed() -> Box<Scratch> {
        let layout = alloc::Layout::new::<Scratch>();
        // SAFETY: the layout's size isn't 0. Zeros are valid, and the box is the memory's only owner.
        unsafe {
            let zeros = alloc::alloc_zeroed(layout).cast::<Scratch>();
            if zeros.is_null() {
                alloc::handle_alloc_error(layout);
            }
            Box::from_raw(zeros)
        }
    }
}

/// A frame with copied names, which haven't been decoded yet.
#[derive(Clone, Copy)]
pub(super) struct NamedFrame<'a> {
    pub(super) line: u32,
    pub(super) file: Characters<'a>,
    pub(super) function: Characters<'a>,
}

impl NamedFrame<'_> {
    pub(super) fn frame(&self, texts: &mut Texts) -> Option<Frame> {
        let (file, function) = (self.file.decode()?, self.function.decode()?);
        Some(Frame { file: texts.intern(file), function: texts.intern(function), line: self.line })
    }
}

/// The characters of a `str`, with `width` bytes each.
#[derive(Clone, Copy)]
pub(super) struct Characters<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) width: u8,
}

impl Characters<'_> {
    /// Returns the text, or `None` if it has an invalid character. Surrogates, which Python uses for bytes
    /// that aren't UTF-8, and control characters such as line breaks are replaced.
    fn decode(self) -> Option<String> {
        let number =
            |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let character = |bytes: &[u8]| match number(bytes) {
            0xd800..0xe000 => Some(char::REPLACEMENT_CHARACTER),
            number => char::from_u32(number)
                .map(|found| if found.is_control() { char::REPLACEMENT_CHARACTER } else { found }),
        };
        self.bytes.chunks(self.width.into()).map(character).collect()
    }
}

/// Returns whether the words are the header of a live object of this type. An object's reference count is 0
/// while it's being freed, and is replaced by an address afterwards. The upper 16 bits are flags since 3.14.
fn is_object(words: &[u64], kind: u64) -> bool {
    let [references, its_kind, ..] = words else { return false };
    *references as u32 != 0 && (*references >> 32) as u16 == 0 && *its_kind == kind
}

fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: the bytes are those of the words.
    unsafe { slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

impl Types {
    pub(super) fn find() -> Option<Self> {
        let [code, text, bytes] = [c"PyCode_Type", c"PyUnicode_Type", c"PyBytes_Type"].map(address);
        Some(Types { code: code?, text: text?, bytes: bytes? })
    }

    /// Reads a frame's names, if the frame has started and has a valid code object. CPython hides other
    /// frames, too: some run the interpreter's internal code, which has no file.
    pub(super) fn name<'s>(
        &self,
        layout: &Layout,
        frame: RawFrame,
        scratch: &'s mut Scratch,
    ) -> Option<NamedFrame<'s>> {
        let Scratch { pages, code, file, function } = scratch;
        let count = pages.read(frame.code, code);
        let [first, its_file, its_function, its_lines, begin] = layout.code.map(|offset| offset as usize);
        if count * size_of::<u64>() < begin || !is_object(code, self.code) {
            return None;
        }
        let word = |offset: usize| code[offset / 8];
        let half = |offset: usize| (word(offset) >> (offset % 8 * 8)) as u32;
        /// The index of the first traceable instruction is this many bytes before the instructions.
        const TRACED: usize = 16;
        /// The size of an instruction in bytes.
        const UNIT: u64 = 2;
        let unit =
            frame.instruction.checked_sub(frame.code.wrapping_add(begin as u64)).map(|bytes| bytes / UNIT);
        let has_begun = unit.is_some_and(|unit| unit >= u64::from(half(begin - TRACED)));
        if !has_begun && frame.owner != GENERATOR {
            return None;
        }
        let first = half(first);
        let line = match unit {
            Some(unit) => line_of(Table::open(word(its_lines), self.bytes, pages)?, first, unit)?,
            None => None,
        };
        // The first instruction of a module has line 0.
        let line = line.filter(|line| *line > 0).unwrap_or(first);
        let file = self.text(layout, pages, word(its_file), file)?;
        let function = self.text(layout, pages, word(its_function), function)?;
        Some(NamedFrame { line, file, function })
    }

    /// Copies a `str`.
    fn text<'w>(
        &self,
        layout: &Layout,
        pages: &mut Pages,
        at: u64,
        words: &'w mut [u64; TEXT],
    ) -> Option<Characters<'w>> {
        let count = pages.read(at, &mut words[..SHORT]);
        let [_, _, length, _, state] = *words.first_chunk::<5>().filter(|_| count >= 5)?;
        let (width, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        let widths: &[u64] = if is_ascii { &[1] } else { &[1, 2, 4] };
        if !is_object(words, self.text) || !is_compact || !widths.contains(&width) || length == 0 {
            return None;
        }
        let [ascii, others] = layout.text;
        let begin = if is_ascii { ascii } else { others } as usize;
        let length = usize::try_from(length.checked_mul(width)?).ok().filter(|length| *length <= LONGEST)?;
        let needed = (begin + length).div_ceil(size_of::<u64>());
        let rest = words.get_mut(count..needed.max(count))?;
        if pages.read(at.wrapping_add((count * size_of::<u64>()) as u64), rest) < rest.len() {
            return None;
        }
        let bytes = bytes(words).get(begin..begin + length)?;
        (!is_ascii || bytes.is_ascii()).then_some(Characters { bytes, width: width as u8 })
    }
}

/// Iterates over the bytes of a line table.
struct Table<'p> {
    pages: &'p mut Pages,
    /// The address of the next word, and the number of bytes that are left.
    next: u64,
    left: u64,
    /// The unread bytes of the current word, and how many they are.
    word: u64,
    in_word: u32,
}

impl<'p> Table<'p> {
    fn open(at: u64, kind: u64, pages: &'p mut Pages) -> Option<Self> {
        // The header of a `bytes`. The third word is the length.
        let mut head = [0; 4];
        let is_bytes = pages.read(at, &mut head) == head.len() && is_object(&head, kind);
        let left = Some(head[2]).filter(|left| is_bytes && *left <= LARGEST)?;
        Some(Table { pages, next: at + size_of_val(&head) as u64, left, word: 0, in_word: 0 })
    }
}

impl Iterator for Table<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        self.left = self.left.checked_sub(1)?;
        if self.in_word == 0 {
            let mut word = [0];
            if self.pages.read(self.next, &mut word) == 0 {
                return None;
            }
            (self.next, self.word, self.in_word) =
                (self.next + u64::from(u64::BITS / 8), word[0], u64::BITS / 8);
        }
        let byte = self.word as u8;
        (self.word, self.in_word) = (self.word >> 8, self.in_word - 1);
        Some(byte)
    }
}

/// Returns an instruction's line from a code object's line table, or `Some(None)` if the instruction has
/// none. Each entry covers a number of instructions, and has a line relative to the entry before. `None`: the
/// table doesn't cover the instruction, so it belongs to other code.
#[expect(clippy::option_option, reason = "an instruction that the table lacks is not one without a line")]
fn line_of(table: impl Iterator<Item = u8>, first: u32, unit: u64) -> Option<Option<u32>> {
    let (mut line, mut end) = (i64::from(first), 0_u64);
    let mut bytes = table.peekable();
    loop {
        let entry = bytes.next()?;
        let kind = entry >> 3 & 15;
        let (has_line, change) = match kind {
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
            let line = has_line.then(|| u32::try_from(line).ok());
            return match line {
                Some(line) => line.map(Some),
                None => Some(None),
            };
        }
        // Skips columns: only the first byte of an entry has the highest bit set.
        while bytes.next_if(|byte| byte & 128 == 0).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPython 3.11's table for these lines: `def f(a):`, `b = a`, an empty line, `return (a +`, `b)`.
    #[test]
    fn lines_are_those_of_the_table() {
        let table = [128, 0, 216, 6, 7, 128, 33, 224, 10, 11, 216, 1, 2, 241, 3, 1, 11, 3, 240, 0, 1, 3, 4];
        let line = |table: &[u8], unit| line_of(table.iter().copied(), 1, unit);
        for (unit, its) in [1, 2, 2, 4, 5, 4, 4, 4].into_iter().enumerate() {
            assert_eq!(line(&table, unit as u64), Some(Some(its)), "{unit}");
        }
        assert_eq!(line(&table, 8), None);
        for damaged in [&[0xf0, 0xc0, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0xe8], &[]] {
            assert_eq!(line(damaged, 9), None);
        }
        assert_eq!(line(&[0xf8], 0), Some(None), "an instruction without a line");
    }
}
