//! Unwinds a thread's stack from a frame's registers. Reading never faults: a coroutine's frames don't lead
//! to the thread's first function, and the last one may be followed by arbitrary bytes.

use std::arch::asm;

use crate::watch::caller::cfi::{FramePointer, Rule, Sum};
use crate::watch::process::memory::{self, PAGE};

/// The registers of a frame that unwinding needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    /// The next instruction. In a caller, that's the return address.
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) fp: u64,
}

impl Registers {
    /// Returns the registers of the calling function, into which this is inlined.
    #[inline(always)]
    pub(crate) fn current() -> Self {
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

    /// Returns the registers of a thread that was interrupted by a signal. Lookups subtract 1 from `pc`, as
    /// for a return address, so 1 is added here.
    pub(crate) fn interrupted(context: &libc::ucontext_t) -> Self {
        let registers = &context.uc_mcontext;
        #[cfg(target_arch = "x86_64")]
        let [pc, sp, fp] = [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP]
            .map(|register| registers.gregs[register as usize].cast_unsigned());
        #[cfg(target_arch = "aarch64")]
        let [pc, sp, fp] = [registers.pc, registers.sp, registers.regs[29]];
        Registers { pc: pc.wrapping_add(1), sp, fp }
    }
}

/// A window onto a stack's memory.
pub(crate) struct Stack {
    /// The address of the first word.
    begin: u64,
    /// The number of words that are valid.
    count: usize,
    words: Box<[u64]>,
    /// Whether the words were copied earlier. Then nothing else may be read: the stack has changed since.
    is_copy: bool,
}

const WORDS: usize = 512;
const WORD: u64 = 8;

impl Stack {
    pub(crate) fn new() -> Self {
        Stack { begin: 0, count: 0, words: Box::new([0; WORDS]), is_copy: false }
    }

    /// Returns a stack that has only these words.
    pub(crate) fn copied(begin: u64, words: &[u64]) -> Self {
        Stack { begin, count: words.len(), words: words.into(), is_copy: true }
    }

    /// Returns the registers of the caller, if this frame has one.
    pub(crate) fn caller(&mut self, its: Registers, rule: &Rule) -> Option<Registers> {
        let frame = self.sum(its, rule.frame)?;
        // Stacks grow downwards, so a caller's frame has a higher address. This also ensures termination.
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
        let begin = match sum.deref {
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
        if self.is_copy {
            return None;
        }
        // The next word needed may be slightly below this one.
        const BELOW: u64 = 64;
        let begin = at - BELOW.min(at % PAGE);
        (self.begin, self.count) = (begin, memory::read(begin, &mut self.words));
        let index = index(begin).filter(|index| *index < self.count);
        index.map(|index| self.words[index])
    }
}

/// Strips the signature that ARM's pointer authentication adds to an address.
fn without_signature(address: u64) -> u64 {
    if cfg!(target_arch = "aarch64") { address & ((1 << 48) - 1) } else { address }
}
