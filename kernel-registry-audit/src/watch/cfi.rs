//! How a function's caller is found: the rules in `.eh_frame`, which compilers write for each address. Of registers only the stack pointer and the
//! frame pointer are followed: the rules of other functions than these two's need none.

use crate::watch::mapped::Mapped;

/// The numbers of the registers.
const FP: u64 = if cfg!(target_arch = "aarch64") { 29 } else { 6 };
const SP: u64 = if cfg!(target_arch = "aarch64") { 31 } else { 7 };
/// The return address.
const RETURN: u64 = if cfg!(target_arch = "aarch64") { 30 } else { 16 };

/// A register, or what is in memory where it points, plus a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) of_fp: bool,
    /// Read the memory this far from the register, in place of the register.
    pub(crate) through: Option<i64>,
    pub(crate) plus: i64,
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It was not changed.
    Same,
    /// In memory, so far from the frame's address.
    InFrame(i64),
    In(Sum),
    Unknown,
}

/// What is true of one address in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The frame's address: the stack pointer before the call.
    pub(crate) frame: Sum,
    pub(crate) fp: Place,
    /// Where the return address is, from there. Nowhere in a thread's first function.
    pub(crate) returns: Option<i64>,
}

/// The rule for an address in this file.
pub(crate) fn rule(file: &Mapped<'_>, address: u64) -> Option<Rule> {
    let header = file.headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
    let base = file.start(header);
    let index = file.rest(base)?;
    let description = find(index, base, address)?;
    Description::read(file, description)?.rule(address)
}

/// The address of the description of a function, by binary search in the sorted table of all.
fn find(index: &[u8], base: u64, address: u64) -> Option<u64> {
    // The encodings that all linkers write: numbers of 4 bytes, of which those in the table count from `base`.
    let (head, table) = index.split_first_chunk::<12>()?;
    if head[0] != 1 || head[2] != 0x03 || head[3] != 0x3b {
        return None;
    }
    let count = Reader(&head[8..]).u32()? as usize;
    let table = table.get(..count.checked_mul(8)?)?;
    let entry = |at: usize| {
        let mut words = Reader(&table[8 * at..]);
        let mut word = || Some(base.wrapping_add_signed(i64::from(words.u32()? as i32)));
        Some((word()?, word()?))
    };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if entry(middle)?.0 <= address { low = middle + 1 } else { high = middle }
    }
    Some(entry(low.checked_sub(1)?)?.1)
}

/// The description of a function.
struct Description<'a> {
    begin: u64,
    end: u64,
    code_step: u64,
    data_step: i64,
    /// The rules at the beginning, and those that follow.
    first: &'a [u8],
    further: &'a [u8],
}

impl<'a> Description<'a> {
    fn read(file: &'a Mapped<'_>, at: u64) -> Option<Self> {
        let mut function = entry(file, at)?;
        let common_at = (at + 4).checked_sub(function.u32()?.into())?;
        let mut common = entry(file, common_at)?;
        common.u32()?;
        let version = common.u8()?;
        let letters = common.text()?;
        let (code_step, data_step) = (common.unsigned()?, common.signed()?);
        let returns = if version == 1 { common.u8()?.into() } else { common.unsigned()? };
        if !matches!(version, 1 | 3) || returns != RETURN {
            return None;
        }
        let mut addresses = 0;
        if let [b'z', letters @ ..] = letters {
            let bytes = common.unsigned()?;
            let mut data = Reader(common.take(bytes)?);
            for letter in letters {
                match letter {
                    b'R' => addresses = data.u8()?,
                    b'L' => drop(data.u8()?),
                    b'P' => {
                        let encoding = data.u8()?;
                        data.encoded(encoding)?;
                    }
                    b'B' => {}
                    // The frame of a signal: its rules are of another kind.
                    _ => return None,
                }
            }
        } else if !letters.is_empty() {
            return None;
        }
        let counts_from_here = match addresses >> 4 {
            0 => 0,
            1 => at + 8,
            _ => return None,
        };
        let begin = function.encoded(addresses)?.wrapping_add(counts_from_here);
        let end = begin.wrapping_add(function.encoded(addresses & 15)?);
        if letters.starts_with(b"z") {
            let bytes = function.unsigned()?;
            function.take(bytes)?;
        }
        Some(Description { begin, end, code_step, data_step, first: common.0, further: function.0 })
    }

    fn rule(&self, address: u64) -> Option<Rule> {
        if !(self.begin..self.end).contains(&address) {
            return None;
        }
        let mut rows = Rows::default();
        self.run(self.first, u64::MAX, &mut rows)?;
        rows.first = rows.now;
        self.run(self.further, address, &mut rows)?;
        let Row { frame, fp, returns } = rows.now;
        Some(Rule { frame: frame?, fp, returns })
    }

    /// Obeys instructions up to an address.
    fn run(&self, instructions: &[u8], address: u64, rows: &mut Rows) -> Option<()> {
        let (mut at, mut code) = (self.begin, Reader(instructions));
        while at <= address && !code.0.is_empty() {
            let instruction = code.u8()?;
            let low = u64::from(instruction & 0x3f);
            let mut advance = |steps: u64| at = at.wrapping_add(steps.wrapping_mul(self.code_step));
            match (instruction >> 6, low) {
                (1, steps) => advance(steps),
                (0, 0x02) => advance(code.u8()?.into()),
                (0, 0x03) => advance(code.u16()?.into()),
                (0, 0x04) => advance(code.u32()?.into()),
                _ => rows.obey(instruction, &mut code, self.data_step)?,
            }
        }
        Some(())
    }
}

/// The rules at an address, as far as they are known.
#[derive(Clone, Copy)]
struct Row {
    frame: Option<Sum>,
    fp: Place,
    returns: Option<i64>,
}

struct Rows {
    now: Row,
    /// Those at the beginning.
    first: Row,
    kept: Vec<Row>,
}

impl Default for Rows {
    fn default() -> Self {
        let row = Row { frame: None, fp: Place::Same, returns: None };
        Rows { now: row, first: row, kept: Vec::new() }
    }
}

impl Rows {
    /// Obeys an instruction that changes rules.
    fn obey(&mut self, instruction: u8, code: &mut Reader<'_>, data_step: i64) -> Option<()> {
        const MOST_KEPT: usize = 64;
        let Rows { now, first, kept } = self;
        let factored = |offset: i64| offset.wrapping_mul(data_step);
        match instruction {
            0x80..0xc0 => now.set((instruction & 0x3f).into(), Place::InFrame(factored(code.offset()?))),
            0xc0.. => now.restore((instruction & 0x3f).into(), *first),
            // Nothing; and what PLTs and signed return addresses have.
            0x00 | 0x2d => {}
            0x2e => drop(code.unsigned()?),
            0x05 => now.set(code.unsigned()?, Place::InFrame(factored(code.offset()?))),
            0x11 => now.set(code.unsigned()?, Place::InFrame(factored(code.signed()?))),
            0x2f => now.set(code.unsigned()?, Place::InFrame(factored(-code.offset()?))),
            0x06 => now.restore(code.unsigned()?, *first),
            0x08 => now.set(code.unsigned()?, Place::Same),
            0x07 => now.set(code.unsigned()?, Place::Unknown),
            0x09 | 0x14 => {
                now.set(code.unsigned()?, Place::Unknown);
                code.unsigned()?;
            }
            0x15 => {
                now.set(code.unsigned()?, Place::Unknown);
                code.signed()?;
            }
            0x0a if kept.len() < MOST_KEPT => kept.push(*now),
            0x0b => *now = kept.pop()?,
            0x0c => now.frame = sum(code.unsigned()?, code.offset()?),
            0x12 => now.frame = sum(code.unsigned()?, factored(code.signed()?)),
            0x0d => now.frame = sum(code.unsigned()?, now.frame?.plus),
            0x0e => now.frame.as_mut()?.plus = code.offset()?,
            0x13 => now.frame.as_mut()?.plus = factored(code.signed()?),
            0x0f => now.frame = code.expression()?,
            0x10 => now.set(code.unsigned()?, code.expression()?.map_or(Place::Unknown, Place::In)),
            0x16 => {
                now.set(code.unsigned()?, Place::Unknown);
                code.expression()?;
            }
            _ => return None,
        }
        Some(())
    }
}

impl Row {
    fn set(&mut self, register: u64, place: Place) {
        match (register, place) {
            (FP, place) => self.fp = place,
            (RETURN, Place::InFrame(offset)) => self.returns = Some(offset),
            (RETURN, _) => self.returns = None,
            _ => {}
        }
    }

    fn restore(&mut self, register: u64, first: Row) {
        match register {
            FP => self.fp = first.fp,
            RETURN => self.returns = first.returns,
            _ => {}
        }
    }
}

/// A register plus a number, if it is one of the two.
fn sum(register: u64, plus: i64) -> Option<Sum> {
    matches!(register, FP | SP).then_some(Sum { of_fp: register == FP, through: None, plus })
}

/// A length, and then so many bytes.
fn entry<'a>(file: &'a Mapped<'_>, at: u64) -> Option<Reader<'a>> {
    let mut rest = Reader(file.rest(at)?);
    let bytes = rest.u32()?;
    Some(Reader(rest.take(bytes.into())?)).filter(|entry| !entry.0.is_empty())
}

/// Reads numbers from the beginning of bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(bytes).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N as u64)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// LEB128.
    fn unsigned(&mut self) -> Option<u64> {
        self.leb128().map(|(number, _)| number)
    }

    fn signed(&mut self) -> Option<i64> {
        let (number, bits) = self.leb128()?;
        let unused = 64_u32.saturating_sub(bits);
        Some((number << unused) as i64 >> unused)
    }

    fn leb128(&mut self) -> Option<(u64, u32)> {
        let (mut number, mut bits) = (0, 0);
        loop {
            let byte = self.u8()?;
            number |= u64::from(byte & 0x7f).checked_shl(bits)?;
            bits += 7;
            if byte & 0x80 == 0 {
                return Some((number, bits));
            }
        }
    }

    fn offset(&mut self) -> Option<i64> {
        self.unsigned()?.try_into().ok()
    }

    /// A text that ends with a zero.
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(length as u64)?;
        self.u8()?;
        Some(text)
    }

    /// A number in this encoding, whatever it counts from.
    fn encoded(&mut self, encoding: u8) -> Option<u64> {
        match encoding & 15 {
            0x00 | 0x04 | 0x0c => self.array().map(u64::from_le_bytes),
            0x01 => self.unsigned(),
            0x02 => self.u16().map(u64::from),
            0x03 => self.u32().map(u64::from),
            0x09 => self.signed().map(|number| number as u64),
            0x0a => self.u16().map(|number| number as i16 as u64),
            0x0b => self.u32().map(|number| number as i32 as u64),
            _ => None,
        }
    }

    /// An expression, if it is a sum: functions that align their stack have such.
    fn expression(&mut self) -> Option<Option<Sum>> {
        let bytes = self.unsigned()?;
        let mut code = Reader(self.take(bytes)?);
        let mut read = || {
            const REGISTERS: std::ops::Range<u8> = 0x70..0x90;
            let register = code.u8().filter(|code| REGISTERS.contains(code))?;
            let mut sum = sum((register - REGISTERS.start).into(), code.signed()?)?;
            while let Some(operation) = code.u8() {
                match operation {
                    0x06 if sum.through.is_none() => {
                        sum = Sum { through: Some(sum.plus), plus: 0, ..sum };
                    }
                    0x23 => sum.plus = sum.plus.checked_add(code.offset()?)?,
                    _ => return None,
                }
            }
            Some(sum)
        };
        Some(read())
    }
}
