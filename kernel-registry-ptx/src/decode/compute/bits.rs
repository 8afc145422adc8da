//! Finds the functions of operations on bits: shifts, bit fields, permutations, and tests of address windows.

use crate::address::{LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, WINDOW_SIZE, peer};
use crate::decode::opcode::Opcode;
use crate::types::{Compute, Scalar, Type, each, integer, lanes};

pub(crate) fn function(opcode: &mut Opcode<'_>, kind: Type) -> Option<Compute> {
    let wide = kind.size() == 8;
    match opcode.name {
        "and" => Some(lanes!(_, |a: u64, b: u64| a & b)),
        "or" => Some(lanes!(_, |a: u64, b: u64| a | b)),
        "xor" => Some(lanes!(_, |a: u64, b: u64| a ^ b)),
        "not" if kind == Type::Pred => Some(lanes!(_, |a: bool| !a)),
        "not" => integer!(kind, T => lanes!(_, |a: T| !a)),
        "cnot" => integer!(kind, T => lanes!(_, |a: T| T::from(a == 0))),
        // A shift by all bits or more gives zero. An arithmetic right shift gives the sign in all bits.
        "shl" => integer!(kind, T => lanes!(_, |a: T, b: u32| a.checked_shl(b).unwrap_or(0))),
        "shr" => {
            integer!(kind, T => lanes!(_, |a: T, b: u32| a >> b.min(T::BITS - 1) >> u32::from(b >= T::BITS)))
        }
        "shf" => funnel(opcode),
        "popc" if wide => Some(lanes!(_, |a: u64| a.count_ones())),
        "popc" => Some(lanes!(_, |a: u32| a.count_ones())),
        "clz" if wide => Some(lanes!(_, |a: u64| a.leading_zeros())),
        "clz" => Some(lanes!(_, |a: u32| a.leading_zeros())),
        "brev" if wide => Some(lanes!(_, |a: u64| a.reverse_bits())),
        "brev" => Some(lanes!(_, |a: u32| a.reverse_bits())),
        "bfind" => find(opcode.take("shiftamt"), kind),
        "bfe" => Some(match kind {
            Type::U32 => lanes!(_, |a: u32, at: u8, n: u8| extract(a.into(), at.into(), n.into(), 32, false)),
            Type::S32 => lanes!(_, |a: u32, at: u8, n: u8| extract(a.into(), at.into(), n.into(), 32, true)),
            // The 32-bit forms take position and length from the lowest byte of the operand, as hardware
            // does. The 64-bit forms take 32 bits.
            Type::U64 => lanes!(_, |a: u64, at: u32, n: u32| extract(a, at, n, 64, false)),
            Type::S64 => lanes!(_, |a: u64, at: u32, n: u32| extract(a, at, n, 64, true)),
            _ => return None,
        }),
        "bfi" => Some(match kind {
            Type::U32 => lanes!(_, |a: u32, b: u32, at: u8, n: u8| {
                insert(a.into(), b.into(), at.into(), n.into()) as u32
            }),
            Type::U64 => lanes!(_, |a: u64, b: u64, at: u32, n: u32| insert(a, b, at, n)),
            _ => return None,
        }),
        "bmsk" => Some(match opcode.take_any(&["clamp", "wrap"])? {
            "clamp" => lanes!(_, |at: u32, n: u32| low(n).checked_shl(at).unwrap_or(0) as u32),
            _ => lanes!(_, |at: u32, n: u32| (low(n & 31) << (at & 31)) as u32),
        }),
        "szext" => Some(match (opcode.take_any(&["clamp", "wrap"])?, kind) {
            ("clamp", Type::U32) => lanes!(_, |a: u32, n: u32| extract(a.into(), 0, n, 32, false)),
            ("clamp", Type::S32) => lanes!(_, |a: u32, n: u32| extract(a.into(), 0, n, 32, true)),
            (_, Type::U32) => lanes!(_, |a: u32, n: u32| extract(a.into(), 0, n & 31, 32, false)),
            (_, Type::S32) => lanes!(_, |a: u32, n: u32| extract(a.into(), 0, n & 31, 32, true)),
            _ => return None,
        }),
        "prmt" => permute(opcode),
        "lop3" => Some(lanes!(_, |a: u32, b: u32, c: u32, table: u8| {
            let term = |bit: u32| {
                let pick = |value: u32, shift: u32| if bit >> shift & 1 == 1 { value } else { !value };
                if table >> bit & 1 == 1 { pick(a, 2) & pick(b, 1) & pick(c, 0) } else { 0 }
            };
            (0..8).fold(0, |all, bit| all | term(bit))
        })),
        // `mapa` maps an address in one block's shared memory to the same offset in another block's.
        "mapa" => {
            opcode.ignore("shared::cluster");
            Some(lanes!(_, |a: u64, rank: u32| peer(a, rank)))
        }
        _ => None,
    }
}

/// Returns `b` with the bits from `at` on replaced by the lowest `count` bits of `a`.
fn insert(a: u64, b: u64, at: u32, count: u32) -> u64 {
    let mask = low(count).checked_shl(at).unwrap_or(0);
    a.checked_shl(at).unwrap_or(0) & mask | b & !mask
}

fn low(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

fn funnel(opcode: &mut Opcode<'_>) -> Option<Compute> {
    let left = opcode.take_any(&["l", "r"])? == "l";
    let clamp = opcode.take_any(&["clamp", "wrap"])? == "clamp";
    fn both(low: u32, high: u32) -> u64 {
        u64::from(high) << 32 | u64::from(low)
    }
    Some(match (left, clamp) {
        (true, true) => lanes!(_, |a: u32, b: u32, n: u32| (both(a, b) << n.min(32) >> 32) as u32),
        (true, false) => lanes!(_, |a: u32, b: u32, n: u32| (both(a, b) << (n & 31) >> 32) as u32),
        (false, true) => lanes!(_, |a: u32, b: u32, n: u32| (both(a, b) >> n.min(32)) as u32),
        (false, false) => lanes!(_, |a: u32, b: u32, n: u32| (both(a, b) >> (n & 31)) as u32),
    })
}

/// Returns the function of `bfind`, which finds the highest bit that differs from the sign. The result is the
/// position of that bit, or with `shift` its distance from the top. The result is all ones if there is no
/// such bit.
fn find(shift: bool, kind: Type) -> Option<Compute> {
    fn position(zeros: u32, size: u32, shift: bool) -> u32 {
        match size.checked_sub(zeros + 1) {
            Some(_) if shift => zeros,
            Some(position) => position,
            None => u32::MAX,
        }
    }
    Some(match (kind, shift) {
        (Type::U32, false) => lanes!(_, |a: u32| position(a.leading_zeros(), 32, false)),
        (Type::U32, true) => lanes!(_, |a: u32| position(a.leading_zeros(), 32, true)),
        (Type::S32, false) => lanes!(_, |a: i32| position((a ^ a >> 31).leading_zeros(), 32, false)),
        (Type::S32, true) => lanes!(_, |a: i32| position((a ^ a >> 31).leading_zeros(), 32, true)),
        (Type::U64, false) => lanes!(_, |a: u64| position(a.leading_zeros(), 64, false)),
        (Type::U64, true) => lanes!(_, |a: u64| position(a.leading_zeros(), 64, true)),
        (Type::S64, false) => lanes!(_, |a: i64| position((a ^ a >> 63).leading_zeros(), 64, false)),
        (Type::S64, true) => lanes!(_, |a: i64| position((a ^ a >> 63).leading_zeros(), 64, true)),
        _ => return None,
    })
}

/// Returns the bit field of `count` bits of `value` from `at` on. If `signed`, the bits above the field are
/// copies of the sign, which is the highest bit of the field or of the `size` bits of the value.
fn extract(value: u64, at: u32, count: u32, size: u32, signed: bool) -> u64 {
    let field = value.checked_shr(at).unwrap_or(0) & low(count);
    let top = at.saturating_add(count).wrapping_sub(1).min(size - 1);
    if !signed || count == 0 || value >> top & 1 == 0 {
        return field & low(size);
    }
    let found = count.min(size.saturating_sub(at));
    (field | !low(found)) & low(size)
}

fn permute(opcode: &mut Opcode<'_>) -> Option<Compute> {
    fn bytes(a: u32, b: u32, selectors: [u32; 4]) -> u32 {
        let all = u64::from(b) << 32 | u64::from(a);
        let byte = |selector: u32| {
            let byte = (all >> (8 * (selector & 7))) as u8;
            // The highest bit of a selector asks for eight copies of the byte's sign.
            if selector & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 }
        };
        u32::from_le_bytes(selectors.map(byte))
    }
    Some(match opcode.take_any(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]) {
        None => lanes!(_, |a: u32, b: u32, c: u32| bytes(a, b, [0, 4, 8, 12].map(|n| c >> n & 15))),
        Some("f4e") => lanes!(_, |a: u32, b: u32, c: u32| bytes(a, b, [0, 1, 2, 3].map(|n| (c & 3) + n))),
        Some("b4e") => lanes!(_, |a: u32, b: u32, c: u32| {
            bytes(a, b, [0, 1, 2, 3].map(|n: u32| (c & 3).wrapping_sub(n) & 7))
        }),
        Some("rc8") => lanes!(_, |a: u32, b: u32, c: u32| bytes(a, b, [c & 3; 4])),
        Some("ecl") => lanes!(_, |a: u32, b: u32, c: u32| bytes(a, b, [0, 1, 2, 3].map(|n| n.max(c & 3)))),
        Some("ecr") => lanes!(_, |a: u32, b: u32, c: u32| bytes(a, b, [0, 1, 2, 3].map(|n| n.min(c & 3)))),
        Some(_) => lanes!(_, |a: u32, b: u32, c: u32| {
            let first = 2 * (c & 1);
            bytes(a, b, [first, first + 1, first, first + 1])
        }),
    })
}

/// Returns the function of `isspacep`, which tells whether a generic address is in this space.
pub(crate) fn in_space(space: &str) -> Option<Compute> {
    Some(match space {
        "shared" | "shared::cta" | "shared::cluster" => {
            lanes!(_, |a: u64| a.wrapping_sub(SHARED_WINDOW) < WINDOW_SIZE)
        }
        "local" => lanes!(_, |a: u64| a.wrapping_sub(LOCAL_WINDOW) < WINDOW_SIZE),
        "param" | "param::entry" => lanes!(_, |a: u64| a.wrapping_sub(PARAMETER_WINDOW) < WINDOW_SIZE),
        "global" => lanes!(_, |a: u64| a < LOCAL_WINDOW),
        _ => return None,
    })
}
