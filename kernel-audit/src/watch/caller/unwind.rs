//! Reads the stack of a thread, from the registers of one of its frames on. Linux copies the memory and refuses
//! addresses that are not mapped, so reading never faults: the frames of a coroutine do not lead to the thread's first
//! function, and after the last frame there can be any bytes.

use std::arch::asm;
use std::ffi::c_void;
use std::ptr;

use crate::watch::caller::cfi::{FramePointer, Rule, Sum};

/// The registers of a frame by which its caller is found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    /// The address of the next instruction. In a caller, that is the instruction after the call.
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) fp: u64,
}

impl Registers {
    /// Returns the registers of the function into which `here` is inlined.
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let mut here = Registers::default();
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the code only reads registers.
        unsafe {
            asm!(
                "lea {}, [rip]", "mov {}, rsp", "mov {}, rbp",
                out(reg) here.pc, out(reg) here.sp, out(reg) here.fp,
                options(nomem, nostack, preserves_flags)
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the code only reads registers.
        unsafe {
            asm!(
                "adr {}, .", "mov {}, sp", "mov {}, x29",
                out(reg) here.pc, out(reg) here.sp, out(reg) here.fp,
                options(nomem, nostack, preserves_flags)
            );
        }
        here
    }
}

/// The memory of a stack, of which one large part is kept.
pub(crate) struct Stack {
    /// The address of the first word.
    begin: u64,
    /// The number of words that were read.
    count: usize,
    words: [u64; WORDS],
}

const WORDS: usize = 512;
const WORD: u64 = 8;
/// Pages are at least this large.
const PAGE: u64 = 4096;

impl Stack {
    pub(crate) fn new() -> Self {
        Stack { begin: 0, count: 0, words: [0; WORDS] }
    }

    /// Returns the registers of the caller, if this frame has one.
    pub(crate) fn caller(&mut self, its: Registers, rule: &Rule) -> Option<Registers> {
        let frame = self.sum(its, rule.frame)?;
        // A stack grows downwards, so the caller's frame is above. Each step goes up, so the reading ends.
        if frame <= its.sp || !frame.is_multiple_of(WORD) {
            return None;
        }
        let pc = self.word(frame.checked_add_signed(rule.returns)?)?;
        let fp = match rule.fp {
            FramePointer::Same => its.fp,
            FramePointer::InFrame(offset) => self.word(frame.checked_add_signed(offset)?)?,
            FramePointer::At(sum) => {
                let at = self.sum(its, sum)?;
                self.word(at)?
            }
            FramePointer::Unknown => 0,
        };
        Some(Registers { pc: without_signature(pc), sp: frame, fp })
    }

    fn sum(&mut self, its: Registers, sum: Sum) -> Option<u64> {
        let register = if sum.of_fp { its.fp } else { its.sp };
        let begin = match sum.through {
            Some(offset) => self.word(register.checked_add_signed(offset)?)?,
            None => register,
        };
        begin.checked_add_signed(sum.plus)
    }

    fn word(&mut self, at: u64) -> Option<u64> {
        let index = |begin: u64| usize::try_from(at.checked_sub(begin)? / WORD).ok();
        if !at.is_multiple_of(WORD) {
            return None;
        }
        if let Some(index) = index(self.begin).filter(|index| *index < self.count) {
            return Some(self.words[index]);
        }
        // The word that is needed next can be a little below this word.
        const BELOW: u64 = 64;
        let begin = at - BELOW.min(at % PAGE);
        (self.begin, self.count) = (begin, read(begin, &mut self.words));
        let index = index(begin).filter(|index| *index < self.count);
        index.map(|index| self.words[index])
    }
}

/// Reads words from this process's memory, as far as the memory is mapped. Returns the number of words read.
fn read(at: u64, words: &mut [u64; WORDS]) -> usize {
    // Linux reads a part as a whole or not at all, so the first page is one part, and the rest another.
    let bytes = size_of_val(words) as u64;
    let first = (at.next_multiple_of(PAGE) - at).min(bytes);
    let part = |at: u64, bytes: u64| libc::iovec {
        iov_base: ptr::without_provenance_mut::<c_void>(at as usize),
        iov_len: bytes as usize,
    };
    let from = [part(at, first), part(at.wrapping_add(first), bytes - first)];
    let to = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: bytes as usize };
    // SAFETY: Linux writes into `words` only, and reads only what is mapped.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, from.as_ptr(), from.len() as u64, 0) };
    usize::try_from(read).unwrap_or(0) / WORD as usize
}

/// Removes the signature that an ARM processor can put into an address.
fn without_signature(address: u64) -> u64 {
    if cfg!(target_arch = "aarch64") { address & ((1 << 48) - 1) } else { address }
}
