//! Defines the types of PTX, the Rust types of their values, and rows of 32 values.

use std::cell::Cell;

/// A register of a warp: a value for each lane. Signed values are sign-extended to 64 bits, other values
/// zero-extended. A reader takes only the bits of its type.
///
/// The values are cells, so that an operation can write the row that it reads.
pub(crate) type Row = [Cell<u64>; 32];

pub(crate) fn row(value: u64) -> Row {
    [const { Cell::new(0) }; 32].map(|_: Cell<u64>| Cell::new(value))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
    Pred,
}

impl Type {
    /// Returns the type of this name. Untyped bits become unsigned integers, because all operations treat
    /// them like those.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "u8" | "b8" => Self::U8,
            "u16" | "b16" => Self::U16,
            "u32" | "b32" => Self::U32,
            "u64" | "b64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "pred" => Self::Pred,
            _ => return None,
        })
    }

    pub(crate) fn size(self) -> u64 {
        match self {
            Self::U8 | Self::S8 | Self::Pred => 1,
            Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::S32 | Self::F32 | Self::F16x2 | Self::Bf16x2 => 4,
            Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    /// Returns the value of a register into which bits of this type were loaded.
    pub(crate) fn extend(self, bits: u64) -> u64 {
        match self {
            Self::S8 => i8::from_register(bits).bits(),
            Self::S16 => i16::from_register(bits).bits(),
            Self::S32 => i32::from_register(bits).bits(),
            _ => bits,
        }
    }
}

/// A Rust type that a register can hold.
pub(crate) trait Scalar: Copy {
    fn from_register(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! scalar {
    ($($integer:ty),*) => {$(
        impl Scalar for $integer {
            fn from_register(bits: u64) -> Self {
                bits as Self
            }
            // The cast to `i64` sign-extends signed numbers, and zero-extends unsigned numbers.
            fn bits(self) -> u64 {
                self as i64 as u64
            }
        }
    )*};
}

scalar!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Scalar for bool {
    fn from_register(bits: u64) -> Self {
        bits & 1 != 0
    }
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

impl Scalar for f32 {
    fn from_register(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Scalar for f64 {
    fn from_register(bits: u64) -> Self {
        Self::from_bits(bits)
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Rounding {
    #[default]
    Near,
    Zero,
    Down,
    Up,
}

/// The modifiers of an operation, such as rounding, flushing and saturation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct How {
    pub rounding: Rounding,
    /// `.ftz`: subnormal operands and results become zero.
    pub flush: bool,
    /// `.sat`: the result is clamped to the range from 0 to 1, or to the range of the integer type.
    pub saturate: bool,
    /// `.NaN`: the minimum or maximum of a number and a NaN is NaN.
    pub nan: bool,
    /// `.relu`: negative results become zero.
    pub relu: bool,
}

/// A function that computes a row from other rows, for the lanes in a mask. The first row is the result, and
/// the operands follow.
#[derive(Clone, Copy)]
pub(crate) enum Compute {
    One(fn(How, u32, &Row, &Row)),
    Two(fn(How, u32, &Row, &Row, &Row)),
    Three(fn(How, u32, &Row, &Row, &Row, &Row)),
    Four(fn(How, u32, &Row, [&Row; 4])),
}

/// Calls `visit` for each lane in a mask. The full mask is the common case, and the compiler vectorises that
/// loop.
#[inline(always)]
pub(crate) fn each(lanes: u32, mut visit: impl FnMut(usize)) {
    if lanes == u32::MAX {
        for lane in 0..32 {
            visit(lane);
        }
    } else {
        let mut rest = lanes;
        while rest != 0 {
            visit(rest.trailing_zeros() as usize & 31);
            rest &= rest - 1;
        }
    }
}

/// Makes a [`Compute`] from a closure over values: `lanes!(how, |a: u32, b: u32| a + b)`.
macro_rules! lanes {
    ($how:pat, |$a:ident: $A:ty| $value:expr) => {
        Compute::One(|$how, lanes, result, a| {
            each(lanes, |lane| {
                let $a = <$A as Scalar>::from_register(a[lane].get());
                result[lane].set(Scalar::bits($value));
            })
        })
    };
    ($how:pat, |$a:ident: $A:ty, $b:ident: $B:ty| $value:expr) => {
        Compute::Two(|$how, lanes, result, a, b| {
            each(lanes, |lane| {
                let $a = <$A as Scalar>::from_register(a[lane].get());
                let $b = <$B as Scalar>::from_register(b[lane].get());
                result[lane].set(Scalar::bits($value));
            })
        })
    };
    ($how:pat, |$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| $value:expr) => {
        Compute::Three(|$how, lanes, result, a, b, c| {
            each(lanes, |lane| {
                let $a = <$A as Scalar>::from_register(a[lane].get());
                let $b = <$B as Scalar>::from_register(b[lane].get());
                let $c = <$C as Scalar>::from_register(c[lane].get());
                result[lane].set(Scalar::bits($value));
            })
        })
    };
    ($how:pat, |$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty, $d:ident: $D:ty| $value:expr) => {
        Compute::Four(|$how, lanes, result, [a, b, c, d]| {
            each(lanes, |lane| {
                let $a = <$A as Scalar>::from_register(a[lane].get());
                let $b = <$B as Scalar>::from_register(b[lane].get());
                let $c = <$C as Scalar>::from_register(c[lane].get());
                let $d = <$D as Scalar>::from_register(d[lane].get());
                result[lane].set(Scalar::bits($value));
            })
        })
    };
}

/// Evaluates an expression with `$T` as the Rust type of a PTX type. `None` if the type is not listed.
macro_rules! one_of {
    ($kind:expr, $T:ident => $value:expr; $($name:ident = $type:ty),* $(,)?) => {
        match $kind {
            $(Type::$name => Some({
                type $T = $type;
                $value
            }),)*
            _ => None,
        }
    };
}

/// Evaluates an expression with `$T` as an integer of 16 to 64 bits. `None` for another type.
macro_rules! integer {
    ($kind:expr, $T:ident => $value:expr) => {
        $crate::types::one_of!($kind, $T => $value; U16 = u16, U32 = u32, U64 = u64, S16 = i16, S32 = i32, S64 = i64)
    };
}

/// Evaluates an expression with `$T` as a floating-point type. `None` for another type or a packed pair.
macro_rules! scalar_float {
    ($kind:expr, $T:ident => $value:expr) => {
        $crate::types::one_of!($kind, $T => $value; F16 = F16, Bf16 = Bf16, F32 = f32, F64 = f64)
    };
}

/// Evaluates an expression with `$T` as a floating-point type or a packed pair. `None` for another type.
macro_rules! floating {
    ($kind:expr, $T:ident => $value:expr) => {
        $crate::types::one_of!($kind, $T => $value; F16 = F16, Bf16 = Bf16, F32 = f32, F64 = f64, F16x2 = Pair<F16>, Bf16x2 = Pair<Bf16>)
    };
}

pub(crate) use {floating, integer, lanes, one_of, scalar_float};
