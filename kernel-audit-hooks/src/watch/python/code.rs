//! Names a frame by its code object, which is read only if it is one: a frame that is being made or left can refer to an object that was
//! freed, or to no object at all. Reading allocates nothing, so it may happen in the handler of a signal.

use std::alloc;
use std::slice;

use super::interpreter::{Frame, Texts, address};
use super::layout::{CODE, Layout};
use super::pages::Pages;

/// A frame: the addresses of its code object and of an instruction, and who owns it.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) code: u64,
    pub(super) instruction: u64,
    pub(super) owner: u8,
}

/// The owner of a generator's frame.
const GENERATOR: u8 = 1;

/// The addresses of the types to which code objects and what they refer to belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Types {
    pub(super) code: u64,
    pub(super) text: u64,
    pub(super) bytes: u64,
}

/// The most bytes of a name, and of a table of lines, that are read.
const LONGEST: usize = 1000;
const LARGEST: u64 = 256 << 10;

/// The words of a text: its head, and its characters.
const TEXT: usize = 9 + LONGEST / size_of::<u64>();
/// The words of a text that are read first. Most texts have no more.
const SHORT: usize = 24;

/// Memory into which a frame's objects are copied, all zeros at first.
pub(super) struct Scratch {
    pub(super) pages: Pages,
    code: [u64; CODE],
    file: [u64; TEXT],
    function: [u64; TEXT],
}

impl Scratch {
    pub(super) const NEW: Scratch =
        Scratch { pages: Pages::NEW, code: [0; CODE], file: [0; TEXT], function: [0; TEXT] };

    /// Allocates one. It would be too large for the stacks of some threads.
    pub(super) fn boxed() -> Box<Scratch> {
        let layout = alloc::Layout::new::<Scratch>();
        // SAFETY: the layout has a size. Zeros are valid, and the box is the memory's only owner.
        unsafe {
            let zeros = alloc::alloc_zeroed(layout).cast::<Scratch>();
            if zeros.is_null() {
                alloc::handle_alloc_error(layout);
            }
            Box::from_raw(zeros)
        }
    }
}

/// A frame whose names are copied, and not decoded yet.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) line: u32,
    pub(super) file: Characters<'a>,
    pub(super) function: Characters<'a>,
}

impl Named<'_> {
    pub(super) fn frame(&self, texts: &mut Texts) -> Option<Frame> {
        let (file, function) = (self.file.decode()?, self.function.decode()?);
        Some(Frame { file: texts.keep(file), function: texts.keep(function), line: self.line })
    }
}

/// The characters of a text of Python: each is a number of `width` bytes.
#[derive(Clone, Copy)]
pub(super) struct Characters<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) width: u8,
}

impl Characters<'_> {
    /// Returns the text, or `None` if a number is no character. A file's name can have bytes that are not UTF-8, for which Python has
    /// halves of characters, and names can break a line.
    fn decode(self) -> Option<String> {
        let number =
            |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let character = |bytes: &[u8]| match number(bytes) {
            0xd800..0xe000 => Some(char::REPLACEMENT_CHARACTER),
            number => char::from_u32(number)
                .map(|its| if its.is_control() { char::REPLACEMENT_CHARACTER } else { its }),
        };
        self.bytes.chunks(self.width.into()).map(character).collect()
    }
}

/// Returns whether the words begin an object of this type that is not freed. An object that is being freed has no references, and one that was
/// freed has an address instead of their number. The upper 16 bits are flags since 3.14.
fn is_object(words: &[u64], of: u64) -> bool {
    let [references, its_type, ..] = words else { return false };
    *references as u32 != 0 && (*references >> 32) as u16 == 0 && *its_type == of
}

/// Returns words as bytes.
fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: the bytes are those of the words, and any bytes are valid.
    unsafe { slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

impl Types {
    pub(super) fn find() -> Option<Self> {
        let [code, text, bytes] = [c"PyCode_Type", c"PyUnicode_Type", c"PyBytes_Type"].map(address);
        Some(Types { code: code?, text: text?, bytes: bytes? })
    }

    /// Names a frame, if it has begun and its code object is one. CPython shows no other frames, either: some run code of the interpreter's
    /// own, which is in no file.
    pub(super) fn name<'s>(
        &self,
        layout: &Layout,
        place: Place,
        scratch: &'s mut Scratch,
    ) -> Option<Named<'s>> {
        let Scratch { pages, code, file, function } = scratch;
        let count = pages.read(place.code, code);
        let [first, its_file, its_function, its_lines, begin] = layout.code.map(|offset| offset as usize);
        if count * size_of::<u64>() < begin || !is_object(code, self.code) {
            return None;
        }
        let word = |offset: usize| code[offset / 8];
        let half = |offset: usize| (word(offset) >> (offset % 8 * 8)) as u32;
        /// From the first instruction that can be traced to the instructions, in bytes.
        const TRACED: usize = 16;
        /// The bytes of an instruction.
        const UNIT: u64 = 2;
        let unit =
            place.instruction.checked_sub(place.code.wrapping_add(begin as u64)).map(|bytes| bytes / UNIT);
        let has_begun = unit.is_some_and(|unit| unit >= u64::from(half(begin - TRACED)));
        if !has_begun && place.owner != GENERATOR {
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
        Some(Named { line, file, function })
    }

    /// Copies a text of Python: its length, how its characters are stored, and the characters.
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

/// The bytes of a table of lines.
struct Table<'p> {
    pages: &'p mut Pages,
    /// The address of the next word, and the number of bytes that are left.
    next: u64,
    left: u64,
    /// What is left of the current word, and how many bytes that is.
    word: u64,
    inside: u32,
}

impl<'p> Table<'p> {
    fn open(at: u64, of: u64, pages: &'p mut Pages) -> Option<Self> {
        // The words before the bytes. The third is the number of bytes.
        let mut head = [0; 4];
        let is_bytes = pages.read(at, &mut head) == head.len() && is_object(&head, of);
        let left = Some(head[2]).filter(|left| is_bytes && *left <= LARGEST)?;
        Some(Table { pages, next: at + size_of_val(&head) as u64, left, word: 0, inside: 0 })
    }
}

impl Iterator for Table<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        self.left = self.left.checked_sub(1)?;
        if self.inside == 0 {
            let mut word = [0];
            if self.pages.read(self.next, &mut word) == 0 {
                return None;
            }
            (self.next, self.word, self.inside) =
                (self.next + u64::from(u64::BITS / 8), word[0], u64::BITS / 8);
        }
        let byte = self.word as u8;
        (self.word, self.inside) = (self.word >> 8, self.inside - 1);
        Some(byte)
    }
}

/// Returns the line of an instruction, if it has one, from the table of a code object whose first line is known: an entry for some
/// instructions after the other, with the number of lines since the entry before. Returns `None` if the table does not have the instruction,
/// so that it is not one of this code object.
#[expect(clippy::option_option, reason = "an instruction that the table lacks is not one without a line")]
fn line_of(table: impl Iterator<Item = u8>, first: u32, unit: u64) -> Option<Option<u32>> {
    let (mut line, mut end) = (i64::from(first), 0_u64);
    let mut bytes = table.peekable();
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
            let line = has_line.then(|| u32::try_from(line).ok());
            return match line {
                Some(line) => line.map(Some),
                None => Some(None),
            };
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
