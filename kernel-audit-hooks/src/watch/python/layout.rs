//! Offsets of the fields in CPython's structures. Those of 3.11 and 3.12 are hard-coded. From 3.13 on, CPython
//! publishes a table: a magic number, the version, whether there's no GIL, then the offsets.

use crate::watch::process::memory;

/// The words read of a frame, and of a code object.
pub(super) const FRAME: usize = 10;
pub(super) const CODE: usize = 32;

/// Field offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Thread state: the innermost C frame, before 3.13.
    pub(super) c_frame: Option<u64>,
    /// C frame, or thread state since 3.13: the innermost frame.
    pub(super) current: u64,
    /// Frame: code object, calling frame, and instruction (the last one until 3.12, then the current one).
    pub(super) frame: [usize; 3],
    /// Frame: kind of owner.
    pub(super) owner: usize,
    /// Code object: first line, file, name, line table, instructions.
    pub(super) code: [u64; 5],
    /// `str`: characters, if they're ASCII, and otherwise.
    pub(super) text: [u64; 2],
}

const KNOWN: [(u64, Layout); 2] = [
    (
        0x030b,
        Layout {
            c_frame: Some(56),
            current: 8,
            frame: [32, 48, 56],
            owner: 69,
            code: [72, 112, 128, 136, 184],
            text: [48, 72],
        },
    ),
    (
        0x030c,
        Layout {
            c_frame: Some(56),
            current: 0,
            frame: [0, 8, 56],
            owner: 70,
            code: [68, 112, 128, 136, 192],
            text: [40, 56],
        },
    ),
];

const NAME: u64 = u64::from_le_bytes(*b"xdebugpy");

/// Indices into the published table.
struct Words {
    current: usize,
    /// The first of: calling frame, code object, instruction, variables, owner.
    frame: usize,
    /// The first of: file, name, qualified name, line table, first line, three others, instructions.
    code: usize,
    /// The size of the header that ASCII characters follow.
    ascii: usize,
}

/// Supported tables, by the upper half of the version.
const TABLES: [(u64, Words); 3] = [
    (0x030d, Words { current: 23, frame: 29, code: 35, ascii: 70 }),
    (0x030e, Words { current: 26, frame: 32, code: 40, ascii: 80 }),
    (0x030f, Words { current: 26, frame: 40, code: 48, ascii: 92 }),
];
/// The number of words that are needed of the longest table.
const LONGEST: usize = 93;

impl Layout {
    /// Returns the layout of a version. `table` returns the address of the published table.
    pub(super) fn for_version(version: u64, table: impl FnOnce() -> Option<u64>) -> Option<Self> {
        let known = KNOWN.iter().find(|(its, _)| *its == version >> 16);
        known.map(|(_, layout)| *layout).or_else(|| published(version, table()?))
    }
}

/// Returns the layout from a published table. `None` for unsupported versions, and for free-threaded
/// interpreters, whose objects have other headers.
fn published(version: u64, at: u64) -> Option<Layout> {
    let (_, words) = TABLES.iter().find(|(its, _)| *its == version >> 16)?;
    let table = memory::words::<LONGEST>(at)?;
    if table[..3] != [NAME, version, 0] {
        return None;
    }
    let [previous, code, instruction, _, owner] = small(&table[words.frame..])?;
    let [file, _, function, lines, first, _, _, _, begin] = small(&table[words.code..])?;
    let [ascii] = small(&table[words.ascii..])?;
    let [current] = small(&table[words.current..])?;
    let frame = [code, previous, instruction];
    let is_inside = frame.iter().all(|offset| offset % 8 == 0 && *offset / 8 < FRAME) && owner < 8 * FRAME;
    let code = [first, file, function, lines, begin];
    // Fields before the instructions are read, too: see `TRACED`.
    let is_inside = is_inside && code.iter().all(|offset| *offset < 8 * CODE) && begin >= 16;
    let code = code.map(|offset| offset as u64);
    /// The header for other characters also has their UTF-8 form: length and pointer.
    const MORE: usize = 16;
    let text = [ascii as u64, (ascii + MORE) as u64];
    is_inside.then_some(Layout { c_frame: None, current: current as u64, frame, owner, code, text })
}

/// Returns offsets, if all are plausible.
fn small<const N: usize>(words: &[u64]) -> Option<[usize; N]> {
    const LARGEST: u64 = 1 << 16;
    let words = words.first_chunk::<N>()?;
    words.iter().all(|offset| *offset < LARGEST).then(|| words.map(|offset| offset as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPython 3.14.0 publishes these.
    #[test]
    fn what_is_published_is_read_and_checked() {
        const VERSION: u64 = 0x030e_00f0;
        let mut table = [0; LONGEST];
        table[..3].copy_from_slice(&[NAME, VERSION, 0]);
        table[26] = 72;
        table[32..37].copy_from_slice(&[8, 0, 56, 80, 74]);
        table[40..49].copy_from_slice(&[112, 120, 128, 136, 68, 52, 96, 104, 208]);
        table[80] = 40;
        let read = |table: &[u64; LONGEST], version| published(version, table.as_ptr().addr() as u64);
        let expected = Layout {
            c_frame: None,
            current: 72,
            frame: [0, 8, 56],
            owner: 74,
            code: [68, 112, 128, 136, 208],
            text: [40, 56],
        };
        assert_eq!(read(&table, VERSION), Some(expected));
        assert_eq!(read(&table, 0x0310_00f0), None, "an unsupported version");
        for (index, word) in [(0, 1), (1, 0x030e_01f0), (2, 1), (32, 80), (33, 4), (36, 80), (48, u64::MAX)] {
            let mut other = table;
            other[index] = word;
            assert_eq!(read(&other, VERSION), None, "word {index} is {word}");
        }
        assert_eq!(published(VERSION, 8), None);
    }
}
