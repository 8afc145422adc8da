//! Reads the frames of functions, as `.debug_frame` describes them for debuggers.
//!
//! `.nv.info` lacks the frames of functions that were compiled together with a kernel with recursive calls:
//! it has the kernel's only. `.debug_frame` has them all.

use std::collections::BTreeMap;

use crate::bytes;
use crate::elf::{CodeAddress, Elf};

/// Returns the frame size in bytes, by the address of the code.
pub(super) fn frames(elf: &Elf<'_>) -> BTreeMap<CodeAddress, u32> {
    let section = elf.section(".debug_frame").map_or(&[][..], |section| section.data);
    let described_code = described_code(elf, section);
    let placed =
        descriptions(section).filter_map(|(offset, frame)| Some((*described_code.get(&offset)?, frame)));
    placed.collect()
}

/// Returns the code of each description, by the offset of the description's address field. A relocation
/// refers to the code. The addend is in the relocation, or up to sm_89 in the address field.
fn described_code(elf: &Elf<'_>, section: &[u8]) -> BTreeMap<u64, CodeAddress> {
    let relocations = |name: &str, size: usize| {
        let data = elf.section(name).map_or(&[][..], |section| section.data);
        data.chunks_exact(size)
    };
    let place = |entry: &[u8]| {
        let (offset, symbol) = (bytes::u64_at(entry, 0)?, bytes::u32_at(entry, 12)?);
        let in_place = || bytes::u64_at(section, usize::try_from(offset).ok()?);
        let addend = bytes::u64_at(entry, 16).or_else(in_place)?;
        let place = elf.place(symbol)?;
        Some((offset, CodeAddress { address: place.address.wrapping_add(addend), ..place }))
    };
    let all = relocations(".rela.debug_frame", 24).chain(relocations(".rel.debug_frame", 16));
    all.filter_map(place).collect()
}

/// Returns the descriptions of functions: the offset of the address field, and the frame.
fn descriptions(section: &[u8]) -> impl Iterator<Item = (u64, u32)> {
    let mut at = 0;
    let next = move || {
        let (start, length) = match bytes::u32_at(section, at)? {
            u32::MAX => (at + 12, bytes::u64_at(section, at + 4)?),
            length => (at + 4, u64::from(length)),
        };
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        // The identifier of a description (FDE) is the offset of the common part (CIE) that it builds upon.
        // In a CIE, all bits of the identifier are set.
        let id_size = if start - at == 12 { 8 } else { 4 };
        let is_common = section.get(start..start + id_size)?.iter().all(|byte| *byte == 0xff);
        let address = start + id_size;
        let instructions = section.get(address + 16..end.max(address + 16))?;
        at = end;
        Some((!is_common).then(|| (address as u64, largest(instructions))))
    };
    std::iter::from_fn(next).flatten()
}

/// Returns the largest frame that these DWARF instructions set up. Stops at an unknown instruction.
fn largest(instructions: &[u8]) -> u32 {
    let (mut rest, mut largest) = (instructions, 0);
    while let Some(frame) = step(&mut rest) {
        largest = largest.max(frame);
    }
    largest
}

/// Removes one instruction, and returns the frame size that it sets, or 0.
fn step(rest: &mut &[u8]) -> Option<u32> {
    let [opcode] = bytes::array(take(rest, 1)?, 0)?;
    match opcode {
        // DW_CFA_nop, _remember_state, _restore_state, _advance_loc, _restore
        0x00 | 0x0a | 0x0b | 0x40..=0x7f | 0xc0.. => {}
        // DW_CFA_set_loc, _advance_loc1, _advance_loc2, _advance_loc4
        0x01 => drop(take(rest, 8)?),
        0x02 => drop(take(rest, 1)?),
        0x03 => drop(take(rest, 2)?),
        0x04 => drop(take(rest, 4)?),
        // DW_CFA_offset_extended, _register
        0x05 | 0x09 => drop((number(rest)?, number(rest)?)),
        // DW_CFA_restore_extended, _undefined, _same_value, _def_cfa_register, _offset
        0x06..=0x08 | 0x0d | 0x80..=0xbf => drop(number(rest)?),
        // DW_CFA_def_cfa, _def_cfa_offset
        0x0c => {
            number(rest)?;
            return number(rest);
        }
        0x0e => return number(rest),
        // DW_CFA_def_cfa_expression, _expression
        0x0f | 0x10 => {
            if opcode == 0x10 {
                number(rest)?;
            }
            let length = number(rest)?;
            take(rest, length as usize)?;
        }
        _ => return None,
    }
    Some(0)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    Some(taken)
}

/// Reads a number in groups of seven bits, the lowest first (LEB128). Returns `None` if it is larger than
/// 32 bits, which is too large for a frame.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let [byte] = bytes::array(take(rest, 1)?, 0)?;
        let bits = u32::from(byte & 0x7f);
        if bits != 0 {
            number |= bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits)?;
        }
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_number_beyond_32_bits_is_none() {
        let read = |mut bytes: &[u8]| number(&mut bytes);
        assert_eq!(read(&[0xe5, 0x8e, 0x26]), Some(624_485));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Some(u32::MAX));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x1f]), None);
        assert_eq!(read(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x01]), None);
        assert_eq!(read(&[0x81, 0x80, 0x80, 0x80, 0x80, 0x00]), Some(1));
        assert_eq!(read(&[0x80]), None);
    }
}
