//! Checks the forms of instructions: which types, modifiers and operands each instruction can have.

use crate::decode::compute::fp8::is_narrow;
use crate::error::Reason;

/// The kind of a register or operand: its size, and a class that is checked. Untyped bits fit any class of
/// the same size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    pub size: u64,
    pub class: Class,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Bits,
    Integer,
    Float,
    /// Two packed 16-bit numbers.
    Pair,
    Predicate,
}

impl Kind {
    pub(crate) fn named(name: &str) -> Option<Self> {
        let class = match name {
            "pred" => return Some(Self { size: 1, class: Class::Predicate }),
            "bf16" => return Some(Self { size: 2, class: Class::Float }),
            "b128" => return Some(Self { size: 16, class: Class::Bits }),
            "f16x2" | "bf16x2" => return Some(Self { size: 4, class: Class::Pair }),
            _ => match name.get(..1)? {
                "b" => Class::Bits,
                "u" | "s" => Class::Integer,
                "f" => Class::Float,
                _ => return None,
            },
        };
        let bits: u64 = name[1..].parse().ok()?;
        let known = matches!(bits, 8 | 16 | 32 | 64) && (class, bits) != (Class::Float, 8);
        known.then_some(Self { size: bits / 8, class })
    }

    /// Returns how many 32-bit registers of the hardware hold a value of this kind: none for a predicate.
    pub(crate) fn width(self) -> u8 {
        match (self.class, self.size) {
            (Class::Predicate, _) => 0,
            (_, size) => size.div_ceil(4) as u8,
        }
    }

    /// Returns whether a register of this kind can be an operand of the kind `operand`. In loads, stores and
    /// conversions the register may be `wider`, unless both are floating point.
    pub(crate) fn fits(self, operand: Self, wider: bool) -> bool {
        let class = self.class == operand.class
            || [self.class, operand.class].contains(&Class::Bits)
                && ![self.class, operand.class].contains(&Class::Predicate);
        let wider = wider && (self.class, operand.class) != (Class::Float, Class::Float);
        class && (self.size == operand.size || wider && self.size > operand.size)
    }
}

/// The form of an instruction.
pub(crate) struct Form {
    /// Letters for the allowed groups of types, see [`in_groups`]. If empty, types are not checked.
    pub types: &'static str,
    /// Alternative lists of operands, separated by spaces. A list has a letter for each operand:
    ///
    /// - `t`: of the instruction's type; `r`: at least as wide; `w`: twice as wide
    /// - `s`: of the instruction's second type; `R`: at least as wide
    /// - `u`: 32 bits; `q`: 64 bits; `p`: a predicate
    /// - `a`: an address; `c`: a constant; `b`: a barrier; `n`: a number of threads
    pub operands: &'static str,
}

/// The modifiers of the checked forms. An instruction with another modifier counts as lacking, and its form
/// is not checked.
const MODIFIERS: &str = "lo hi wide cc rn rz rm rp rni rzi rmi rpi ftz sat NaN relu approx full xorsign abs \
    finite infinite number notanumber normal subnormal eq ne lt le gt ge ls hs equ neu ltu leu gtu geu num nan \
    and or xor add min max inc dec cas exch popc any all uni ballot up down bfly idx l r clamp wrap shiftamt \
    f4e b4e rc8 ecl ecr rc16 to global const shared shared::cta shared::cluster local param param::entry param::func \
    v2 v4 v8 weak volatile relaxed acquire release acq_rel mmio cta cluster gpu sys nc ca cg cs lu cv wb wt noftz \
    L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::64B L2::128B L2::256B \
    L2::evict_normal L2::evict_first L2::evict_last sync aligned warp arrive wait red";

/// Returns whether `part` is a type or a modifier of a checked form. No form has types of 128 bits.
pub(crate) fn is_known(part: &str) -> bool {
    Kind::named(part).is_some_and(|kind| kind.size < 16)
        || MODIFIERS.split_whitespace().any(|known| known == part)
}

/// Returns the form of an opcode, given its parts. `None` if only decoding checks the instruction.
pub(crate) fn form(parts: &[&str]) -> Option<Form> {
    let has = |modifier: &str| parts.contains(&modifier);
    let (types, operands) = match parts[0] {
        "add" | "sub" if has("cc") => ("c", "ttt"),
        "add" | "sub" | "min" | "max" => ("ihfd", "ttt"),
        "addc" | "subc" => ("c", "ttt"),
        "mul" if has("wide") => ("n", "wtt"),
        "mul" | "div" => ("ihfd", "ttt"),
        "mad" if has("cc") => ("c", "tttt"),
        "madc" => ("c", "tttt"),
        "mad" if has("wide") => ("n", "wttw"),
        "mad" => ("ifd", "tttt"),
        "mul24" => ("w", "ttt"),
        "mad24" => ("w", "tttt"),
        "fma" => ("hfd", "tttt"),
        "rem" => ("i", "ttt"),
        "neg" | "abs" => ("zhfd", "tt"),
        "sad" => ("i", "tttt"),
        "rcp" | "sqrt" | "rsqrt" => ("fd", "tt"),
        "sin" | "cos" | "lg2" => ("f", "tt"),
        "ex2" | "tanh" => ("hf", "tt"),
        "copysign" => ("fd", "ttt"),
        "testp" => ("fd", "pt"),
        "and" | "or" | "xor" => ("bp", "ttt"),
        "not" => ("bp", "tt"),
        "cnot" => ("b", "tt"),
        "shl" => ("b", "ttu"),
        "shr" => ("bi", "ttu"),
        "shf" => ("4", "uuuu"),
        "popc" | "clz" => ("B", "ut"),
        "brev" => ("B", "tt"),
        "bfind" => ("i", "ut"),
        "bfe" => ("i", "ttuu"),
        "bfi" => ("B", "tttuu"),
        "prmt" => ("4", "tttt"),
        "lop3" => ("4", "ttttc"),
        "bmsk" => ("4", "uuu"),
        "szext" => ("w", "ttu"),
        "dp2a" | "dp4a" => ("w", "uuuu"),
        "mapa" => ("a", "ttu"),
        "selp" => ("bifd", "tttp"),
        "slct" => ("bifd", "ttts"),
        "setp" => ("bihfd", "ptt pttp"),
        "set" => ("", "tss tssp"),
        "cvt" if is_narrow(parts) => return None,
        "cvt" => ("", "rR tss"),
        "mov" => ("bifdp", "tt"),
        "ld" | "ldu" => ("8bifd", "ra"),
        "st" if has("async") => return None,
        "st" => ("8bifd", "ar"),
        "cvta" => ("i", "tt"),
        "isspacep" => ("", "pq"),
        "atom" | "red" if has("v2") || has("v4") || has("v8") || has("async") => return None,
        "atom" => (updated(parts), if has("cas") { "tatt" } else { "tat" }),
        "red" => (updated(parts), "at"),
        "shfl" => ("4", "ttuuu"),
        "vote" if has("ballot") => ("4", "upu"),
        "vote" => ("p", "ppu"),
        "match" => ("B", "utu"),
        "redux" => ("4i", "ttu"),
        "activemask" => ("4", "t"),
        "nanosleep" => ("i", "t"),
        "bar" | "barrier" if has("cluster") => return None,
        "bar" | "barrier" if has("warp") => ("", "u"),
        "bar" | "barrier" if has("popc") => ("i", "ubp ubnp"),
        "bar" | "barrier" if has("red") => ("p", "pbp pbnp"),
        "bar" | "barrier" => ("", "b bn"),
        _ => return None,
    };
    Some(Form { types, operands })
}

/// Returns the letters for the types of an atomic operation.
fn updated(parts: &[&str]) -> &'static str {
    match parts {
        _ if parts.contains(&"add") => "ahfd",
        _ if parts.contains(&"min") || parts.contains(&"max") => "ih",
        _ if parts.contains(&"inc") || parts.contains(&"dec") => "a",
        _ => "b",
    }
}

fn in_groups(groups: &str, kind: &str) -> bool {
    groups.chars().any(|group| match group {
        'a' => matches!(kind, "u32" | "s32" | "u64"),
        'b' => matches!(kind, "b16" | "b32" | "b64"),
        'B' => matches!(kind, "b32" | "b64"),
        'c' => matches!(kind, "u32" | "s32" | "u64" | "s64"),
        'w' => matches!(kind, "u32" | "s32"),
        '4' => kind == "b32",
        '8' => matches!(kind, "b8" | "u8" | "s8"),
        'i' => matches!(kind, "u16" | "u32" | "u64" | "s16" | "s32" | "s64"),
        'n' => matches!(kind, "u16" | "u32" | "s16" | "s32"),
        'z' => matches!(kind, "s16" | "s32" | "s64"),
        'h' => matches!(kind, "f16" | "f16x2" | "bf16" | "bf16x2"),
        'f' => kind == "f32",
        'd' => kind == "f64",
        'p' => kind == "pred",
        _ => false,
    })
}

/// Checks those types and modifiers that decoding does not check.
pub(crate) fn check(form: &Form, parts: &[&str], types: &[&str]) -> Result<(), Reason> {
    let Some(&kind) = types.first() else { return Ok(()) };
    if !form.types.is_empty() && !in_groups(form.types, kind) {
        return Err(Reason::Form);
    }
    let has = |modifiers: &[&str]| parts.iter().any(|part| modifiers.contains(part));
    let rounds = has(&["rn", "rz", "rm", "rp"]);
    let float = in_groups("hfd", kind);
    let compared = types[types.len() - 1];
    let wrong = match parts[0] {
        "fma" => !rounds,
        "mad" if float => !rounds,
        "mad" | "madc" if has(&["wide"]) => parts[0] == "madc" || has(&["cc"]),
        "dp2a" | "dp4a" => !in_groups("w", compared),
        "div" if kind == "f32" => !rounds && !has(&["approx", "full"]),
        "rcp" | "sqrt" if kind == "f32" => !rounds && !has(&["approx"]),
        "rcp" => !(rounds || has(&["approx"]) && has(&["ftz"])),
        "div" | "sqrt" if float => !rounds,
        // `ex2` of bf16 must have `.ftz`, and of f16 cannot have it.
        "ex2" if kind != "f32" => has(&["ftz"]) != kind.starts_with("bf"),
        "tanh" => has(&["ftz"]),
        "setp" | "set" => match () {
            _ if has(&["lo", "ls", "hi", "hs"]) => !compared.starts_with('u'),
            _ if has(&["lt", "le", "gt", "ge"]) => compared.starts_with('b') && !compared.starts_with("bf"),
            _ if has(&["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]) => {
                !in_groups("hfd", compared)
            }
            _ => false,
        },
        "cvt" => return converts(parts, types),
        "ld" | "st" => {
            let ordered = has(&["relaxed", "acquire", "release"]);
            let own = has(&["param", "const", "local", "param::entry", "param::func"]);
            let other = if parts[0] == "ld" { "release" } else { "acquire" };
            ordered && (own || !has(&["cta", "cluster", "gpu", "sys"]))
                || has(&["nc"]) && (parts[0] == "st" || !has(&["global"]))
                || has(&[other])
                || parts[0] == "st" && has(&["const"])
        }
        _ => false,
    };
    let flushes = has(&["ftz"])
        && !matches!(compared, "f32" | "f16" | "f16x2")
        && !matches!(parts[0], "rcp" | "rsqrt" | "ex2");
    let saturates = has(&["sat"]) && !matches!(kind, "s32" | "f32" | "f16" | "f16x2");
    let directed = has(&["rz", "rm", "rp"]) && !matches!(kind, "f32" | "f64");
    if wrong || flushes || saturates || directed { Err(Reason::Form) } else { Ok(()) }
}

/// Checks the rounding modifiers of a conversion.
fn converts(parts: &[&str], types: &[&str]) -> Result<(), Reason> {
    let &[to, from] = types else { return Err(Reason::Form) };
    let (Some(wide), Some(narrow)) = (Kind::named(to), Kind::named(from)) else { return Err(Reason::Form) };
    let has = |modifiers: &[&str]| parts.iter().any(|part| modifiers.contains(part));
    let (rounds, whole) = (has(&["rn", "rz", "rm", "rp"]), has(&["rni", "rzi", "rmi", "rpi"]));
    let right = match (wide.class, narrow.class) {
        (Class::Integer, Class::Float) => whole && !rounds,
        (Class::Float, Class::Integer) => rounds && !whole,
        (Class::Pair, Class::Float) => rounds && !whole,
        (Class::Float, Class::Float) if wide.size < narrow.size => rounds && !whole,
        (Class::Float, Class::Float) if wide.size > narrow.size => !rounds && !whole,
        (Class::Float, Class::Float) => !(rounds && whole),
        (Class::Integer, Class::Integer) => !rounds && !whole,
        _ => false,
    };
    if right { Ok(()) } else { Err(Reason::Form) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untyped_bits_fit_any_class_of_their_size() {
        let kind = |name| Kind::named(name).unwrap();
        let fits = |register, operand, wider| kind(register).fits(kind(operand), wider);
        assert!(fits("b32", "f32", false) && fits("f32", "b32", false) && fits("u32", "s32", false));
        assert!(!fits("f32", "u32", false) && !fits("u32", "f32", false) && !fits("b64", "u32", false));
        assert!(
            fits("b64", "f32", true)
                && !fits("f64", "f32", true)
                && fits("f64", "b32", true)
                && !fits("f32", "f16x2", false)
        );
        assert!(fits("b64", "u32", true) && !fits("b16", "u32", true) && !fits("f32", "u16", true));
        assert!(!fits("b8", "pred", false) && fits("pred", "pred", false) && fits("b16", "bf16", false));
        assert_eq!([Kind::named("f8"), Kind::named("b7"), Kind::named("q32"), Kind::named("")], [None; 4]);
    }
}
