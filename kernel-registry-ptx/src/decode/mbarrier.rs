//! Decodes `mbarrier`: barriers in shared memory, for threads and for asynchronous copies.
//!
//! A barrier is a 64-bit word. An arrival returns that word as the state. From the lowest bit, the word has
//! the number of pending arrivals and the number of expected arrivals (20 bits each), the number of pending
//! bytes (21 bits, signed), and the number of the phase.

use crate::address::Space;
use crate::decode::decoder::{Decoder, Decoding};
use crate::decode::opcode::Opcode;
use crate::error::Reason;
use crate::op::{Op, Update};
use crate::parse::syntax::Operand;
use crate::slot::{Address, Slot};
use crate::types::{Compute, Scalar, Type, each, lanes};

const COUNT: u64 = (1 << 20) - 1;
const EXPECTED: u32 = 20;
const BYTES: u32 = 40;
const PHASE: u32 = 61;

/// The bits of the pending bytes.
const ALL_BYTES: u64 = (1 << PHASE) - (1 << BYTES);

impl<'a> Decoder<'a, '_> {
    pub(crate) fn mbarrier(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        opcode.ignore("release acquire relaxed cta cluster noComplete");
        let named = opcode.take_any(&["shared", "shared::cta", "shared::cluster"]).is_some();
        let space = if named { Space::Shared } else { Space::Generic };
        opcode.kind().filter(|kind| *kind == Type::U64).ok_or(Reason::Instruction)?;
        let what = (!opcode.modifiers.is_empty()).then(|| opcode.modifiers.remove(0));
        match (what, operands) {
            (Some("init"), [at, count]) => {
                let (state, count) = (self.register(), self.source(count, Type::U32)?);
                let both =
                    lanes!(_, |count: u32| u64::from(count) & COUNT | (u64::from(count) & COUNT) << EXPECTED);
                self.apply(both, state, &[count]);
                let address = self.address(space, at)?;
                self.emit(Op::Store { from: [state].into(), kind: Type::U64, address });
            }
            (Some("inval"), [_]) => self.emit(Op::Nothing),
            (Some("expect_tx"), [at, bytes]) => {
                let (address, bytes) = (self.address(space, at)?, self.source(bytes, Type::U32)?);
                self.update(None, address, |old, bytes, _| expect(old, bytes), [bytes; 2]);
            }
            (Some("complete_tx"), [at, bytes]) => {
                let (address, bytes) = (self.address(space, at)?, self.source(bytes, Type::U32)?);
                self.complete(address, bytes);
            }
            (Some("arrive"), operands) if opcode.take("expect_tx") => {
                let [to, at, bytes] = operands else { return Err(Reason::Operands) };
                let (to, address) = (self.target(to)?, self.address(space, at)?);
                let (one, bytes) = (self.bits(1), self.source(bytes, Type::U32)?);
                self.update(
                    Some(to),
                    address,
                    |old, count, bytes| arrive(expect(old, bytes), count),
                    [one, bytes],
                );
            }
            (Some(what @ ("arrive" | "arrive_drop")), [to, at, count @ ..]) => {
                let (to, address) = (self.target(to)?, self.address(space, at)?);
                let count = match count {
                    [] => self.bits(1),
                    [count] => self.source(count, Type::U32)?,
                    _ => return Err(Reason::Operands),
                };
                let update: Update = match what {
                    "arrive" => |old, count, _| arrive(old, count),
                    _ => |old, count, _| arrive(old.wrapping_sub(count << EXPECTED), count),
                };
                self.update(Some(to), address, update, [count; 2]);
            }
            // The optional last operand limits how long a thread sleeps, and is ignored.
            (Some("test_wait" | "try_wait"), [to, at, phase, ..]) => {
                let to = self.target(to)?;
                let (address, now) = (self.address(space, at)?, self.register());
                self.emit(Op::Load { to: [now].into(), kind: Type::U64, address });
                let (function, phase) = if opcode.take("parity") {
                    let differs = lanes!(_, |now: u64, parity: u32| (now >> PHASE) as u32 & 1 != parity & 1);
                    (differs, self.source(phase, Type::U32)?)
                } else {
                    (
                        lanes!(_, |now: u64, then: u64| now >> PHASE != then >> PHASE),
                        self.source(phase, Type::U64)?,
                    )
                };
                self.apply(function, to, &[now, phase]);
            }
            (Some("pending_count"), [to, state]) => {
                let (to, state) = (self.target(to)?, self.source(state, Type::U64)?);
                self.apply(lanes!(_, |state: u64| (state & COUNT) as u32), to, &[state]);
            }
            _ => return Err(Reason::Instruction),
        }
        Ok(())
    }

    /// Subtracts bytes that an asynchronous copy has written from the pending bytes.
    pub(crate) fn complete(&mut self, address: Address, bytes: Slot) {
        self.update(None, address, |old, bytes, _| settle(expect(old, bytes.wrapping_neg())), [bytes; 2]);
    }

    /// Counts one arrival for the copies before it, which are done already.
    pub(crate) fn arrive_behind_copies(&mut self, address: Address) {
        let one = self.bits(1);
        self.update(None, address, |old, count, _| arrive(old, count), [one; 2]);
    }

    fn update(&mut self, to: Option<Slot>, address: Address, update: Update, operands: [Slot; 2]) {
        self.emit(Op::Atomic { to, update, kind: Type::U64, address, operands });
    }
}

fn expect(state: u64, bytes: u64) -> u64 {
    state & !ALL_BYTES | state.wrapping_add(bytes << BYTES) & ALL_BYTES
}

fn arrive(state: u64, count: u64) -> u64 {
    settle(state & !COUNT | state.wrapping_sub(count) & COUNT)
}

/// Begins the next phase if no arrivals and no bytes are pending.
fn settle(state: u64) -> u64 {
    if state & (COUNT | ALL_BYTES) != 0 {
        return state;
    }
    state.wrapping_add(1 << PHASE) | state >> EXPECTED & COUNT
}
