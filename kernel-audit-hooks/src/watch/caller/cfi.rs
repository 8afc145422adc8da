//! Reads unwind rules from `.eh_frame`. Only the stack pointer and the frame pointer are tracked: hardly any
//! rule needs another register.

use gimli::{
    AArch64, BaseAddresses, CfaRule, DW_EH_PE_udata4, EhFrame, EhFrameHdr, EhFrameOffset, Encoding,
    EndianSlice, Expression, LittleEndian, Operation, Register, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindSection, UnwindTableRow, Vendor, X86_64,
};

use crate::watch::loader::mapped::Mapped;

const IS_ARM: bool = cfg!(target_arch = "aarch64");
const FP: Register = if IS_ARM { AArch64::X29 } else { X86_64::RBP };
const SP: Register = if IS_ARM { AArch64::SP } else { X86_64::RSP };
/// The return address.
const RETURN: Register = if IS_ARM { AArch64::X30 } else { X86_64::RA };

/// An address: `register + plus`, or `*(register + deref) + plus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Whether the register is the frame pointer, and not the stack pointer.
    pub(crate) of_fp: bool,
    pub(crate) deref: Option<i64>,
    pub(crate) plus: i64,
}

/// Location of the caller's frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FramePointer {
    /// In its register, which the function hasn't changed.
    Same,
    /// In memory at this offset from the frame's address.
    InFrame(i64),
    At(Sum),
    Unknown,
}

/// The unwind rule for one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The start of the function, or of a part that the compiler split off.
    pub(crate) function: u64,
    /// The canonical frame address: the stack pointer before the call.
    pub(crate) frame: Sum,
    pub(crate) fp: FramePointer,
    /// Offset of the return address from the frame's address.
    pub(crate) returns: i64,
}

/// Storage for gimli's rules without further allocations. Compilers write fewer rules than fit.
struct Inline;

impl UnwindContextStorage<usize> for Inline {
    type Rules = [(Register, RegisterRule<usize>); 24];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

/// Returns the rule for an address in this file. `None` if there's no caller, or its address can't be found.
pub(crate) fn rule(file: &Mapped<'_>, address: u64) -> Option<Rule> {
    let header = file.headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
    let index_at = file.start(header);
    let index = file.rest(index_at)?;
    // Linkers write the number of entries in 4 bytes. A corrupt number of 8 bytes would overflow in gimli.
    if index.get(2) != Some(&DW_EH_PE_udata4.0) {
        return None;
    }
    let bases = BaseAddresses::default().set_eh_frame_hdr(index_at);
    let index = EhFrameHdr::new(index, LittleEndian).parse(&bases, 8).ok()?;
    let frames_at = index.eh_frame_ptr().direct().ok()?;
    let bases = bases.set_eh_frame(frames_at);
    let mut frames = EhFrame::new(file.rest(frames_at)?, LittleEndian);
    if IS_ARM {
        frames.set_vendor(Vendor::AArch64);
    }
    // gimli's `fde_for_address` overflows if a corrupt index points before the section.
    let entry_at = index.table()?.lookup(address, &bases).ok()?.direct().ok()?;
    let offset = EhFrameOffset(usize::try_from(entry_at.checked_sub(frames_at)?).ok()?);
    let entry = frames.fde_from_offset(&bases, offset, EhFrame::cie_from_offset).ok()?;
    let common = entry.cie();
    if !entry.contains(address) || entry.is_signal_trampoline() || common.return_address_register() != RETURN
    {
        return None;
    }
    // Boxed, because some threads have a small stack.
    let mut context = Box::new(UnwindContext::<usize, Inline>::new_in());
    let row = entry.unwind_info_for_address(&frames, &bases, &mut context, address).ok()?;
    let frame = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Sum::new(*register, *offset)?,
        CfaRule::Expression(expression) => Sum::read(expression.get(&frames).ok()?, common.encoding())?,
    };
    let fp = match row.register(FP) {
        None | Some(RegisterRule::SameValue) => FramePointer::Same,
        Some(RegisterRule::Offset(offset)) => FramePointer::InFrame(offset),
        Some(RegisterRule::Expression(expression)) => {
            Sum::read(expression.get(&frames).ok()?, common.encoding())
                .map_or(FramePointer::Unknown, FramePointer::At)
        }
        Some(_) => FramePointer::Unknown,
    };
    match row.register(RETURN)? {
        RegisterRule::Offset(returns) => Some(Rule { function: entry.initial_address(), frame, fp, returns }),
        _ => None,
    }
}

impl Sum {
    fn new(register: Register, plus: i64) -> Option<Self> {
        matches!(register, FP | SP).then_some(Sum { of_fp: register == FP, deref: None, plus })
    }

    /// Reads an expression of this form. Functions that align their stack have such expressions.
    fn read(expression: Expression<EndianSlice<'_, LittleEndian>>, encoding: Encoding) -> Option<Self> {
        let mut operations = expression.operations(encoding);
        let Operation::RegisterOffset { register, offset, .. } = operations.next().ok()?? else {
            return None;
        };
        let mut sum = Sum::new(register, offset)?;
        while let Some(operation) = operations.next().ok()? {
            match operation {
                Operation::Deref { size: 8, space: false, .. } if sum.deref.is_none() => {
                    sum = Sum { deref: Some(sum.plus), plus: 0, ..sum };
                }
                Operation::PlusConstant { value } => {
                    sum.plus = sum.plus.checked_add_unsigned(value)?;
                }
                _ => return None,
            }
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use std::mem;

    use super::*;
    use crate::watch::loader::mapped;

    #[test]
    fn a_damaged_table_is_read_without_a_panic() {
        let mut program = None;
        mapped::each(&mut |file| {
            let index = file.headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME).unwrap();
            let (segment, index_at) = file.segment_at(file.start(index), 1).unwrap();
            let bytes = file.rest(file.start(segment)).unwrap().to_vec();
            program = Some((bytes, [*segment, *index], index_at as usize));
            true
        });
        let (mut copy, headers, index_at) = program.unwrap();
        let base = (copy.as_mut_ptr().expose_provenance() as u64).wrapping_sub(headers[0].p_vaddr);
        let file = Mapped { name: b"", headers: &headers, base };
        let number = |at: usize| i32::from_le_bytes(copy[index_at + at..][..4].try_into().unwrap()) as isize;
        // A function, and the offset of its entry. Offsets in the index count from the beginning of the index.
        let function = |row| file.start(&headers[1]).wrapping_add_signed(number(row) as i64);
        // On arm64 a function has no rule before the instruction that stores the return address.
        let (row, address, whole) = (16..200)
            .flat_map(|index| (0..64).step_by(4).map(move |inside| (12 + 8 * index, inside)))
            .find_map(|(row, inside)| {
                let rule = rule(&file, function(row) + inside)?;
                (rule.function == function(row)).then_some((row, function(row) + inside, rule))
            })
            .expect("a function with a rule");
        let [frames_at, entry_at] = [4 + number(4), number(row + 4)];
        let parts = [(0, 20), (row as isize, 8), (frames_at, 24), (entry_at, 40)];
        let offsets =
            parts.map(|(begin, bytes)| (0..bytes).map(move |at| index_at.wrapping_add_signed(begin) + at));
        let offsets: Vec<usize> = offsets.into_iter().flatten().collect();
        // Two bytes are damaged at a time. One of them is in the head of the index.
        for (first, second) in
            offsets.iter().flat_map(|offset| offsets[..20].iter().map(move |head| (*offset, *head)))
        {
            for (one, other) in [0, 4, 0x0a, 0x80, 0xff].into_iter().flat_map(|one| [(one, 4), (one, 0xff)]) {
                let before = [mem::replace(&mut copy[first], one), mem::replace(&mut copy[second], other)];
                rule(&file, address);
                [copy[second], copy[first]] = [before[1], before[0]];
            }
        }
        assert_eq!(rule(&file, address), Some(whole));
    }
}
