//! Test operands for instructions: edge cases, such as infinities, and random values.

use super::random::Random;

/// The kind of an operand or result: its size, and the values that are edge cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Pred,
    B16,
    B32,
    B64,
    F16,
    Bf16,
    F16x2,
    Bf16x2,
    F32,
    F64,
    /// A shift amount, or a number of bits.
    Count,
    /// The last operand of a shuffle, which has the mask of segments and the clamp.
    Bounds,
    /// One of three values, so that lanes often have equal values.
    Few,
    /// An angle for which the PTX manual bounds the error of sine and cosine.
    Angle,
}

impl Kind {
    pub fn named(name: &str) -> Self {
        match name {
            "pred" => Self::Pred,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "f16x2" => Self::F16x2,
            "bf16x2" => Self::Bf16x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "count" => Self::Count,
            "bounds" => Self::Bounds,
            "few" => Self::Few,
            "angle" => Self::Angle,
            _ => panic!("`{name}` is no kind of operand"),
        }
    }

    /// Returns the number of bytes in memory.
    pub fn size(self) -> usize {
        match self {
            Self::Pred => 1,
            Self::B16 | Self::F16 | Self::Bf16 => 2,
            Self::B64 | Self::F64 => 8,
            _ => 4,
        }
    }

    /// Returns edge cases, the most important first. Tests combine them with each other.
    fn special(self) -> Vec<u64> {
        match self {
            Self::Pred => vec![0, 1],
            Self::B16 => vec![0, 1, 0xffff, 0x8000, 0x7fff, 7, 0xfff9, 0xff, 0x80],
            Self::B32 => {
                let mut all: Vec<u64> =
                    vec![0, 1, 0xffff_ffff, 0x8000_0000, 0x7fff_ffff, 7, 0xffff_fff9, 0xffff, 0x8000];
                all.extend([0xff, 0x80, 0x7f, 0x100, 0xffff_ff80, 0xffff_ff7f, 0x7fff, 0xffff_8000]);
                all.extend([0x0100_0001, 0x00ff_ffff, 0x0100_0003, 0xffff_7fff, 0x1_0000]);
                all
            }
            Self::B64 => {
                let mut all: Vec<u64> = vec![0, 1, u64::MAX, 1 << 63, !(1 << 63), 7, !6, 0xffff_ffff];
                all.extend([
                    0x8000_0000,
                    0xffff_ffff_8000_0000,
                    0xff,
                    0xffff_ffff_ffff_ff80,
                    0xffff,
                    1 << 32,
                ]);
                all.extend([(1 << 53) + 1, (1 << 24) + 1, (1 << 54) + 3, 0x7fff_ffff_ffff_fbff]);
                all
            }
            Self::F16 => half(0x7c00, 0x3c00, 10),
            Self::Bf16 => half(0x7f80, 0x3f80, 7),
            Self::F16x2 | Self::Bf16x2 => Vec::new(),
            Self::F32 => {
                let mut all: Vec<u64> =
                    vec![0, 0x8000_0000, 0x3f80_0000, 0xbfc0_0000, 1, 0x807f_ffff, 0x7f80_0000, 0xff80_0000];
                all.extend([0x7fc1_2345, 0xff81_2345, 0x7f7f_ffff, 0x0080_0000, 0x3f80_0001, 0xff7f_ffff]);
                let values = [0.5, -0.5, 2.5, -2.5, 127.5, 128.5, 255.5, -128.5, -129.0, 32767.5, 65535.5];
                all.extend(values.map(|value: f32| u64::from(value.to_bits())));
                // These include the largest f16, the midpoint between it and the next power of two, and half
                // of the smallest f16.
                let values =
                    [65504.0, 65520.0, 2.9802322e-8, 0.1, -0.1, 1.5, 3.0, 0.99999994, -126.0, -149.0];
                all.extend(values.map(|value: f32| u64::from(value.to_bits())));
                // The limits of 32-bit and 64-bit integers.
                all.extend([0x4eff_ffff, 0x4f00_0000, 0xcf00_0000, 0xcf00_0001, 0x4f7f_ffff, 0x4f80_0000]);
                all.extend([0x5eff_ffff, 0x5f00_0000, 0xdf00_0000, 0x5f80_0000, 0x4b7f_ffff, 0x4b00_0001]);
                all.extend([0x7fff_ffff, 0xffff_ffff, 0x7fa0_0000, 0x3300_0000, 0x8080_0000, 0x7e80_0001]);
                all
            }
            Self::F64 => {
                let mut all: Vec<u64> = vec![0, 1 << 63, 0x3ff0_0000_0000_0000, 0xbff8_0000_0000_0000, 1];
                all.extend([0x800f_ffff_ffff_ffff, 0x7ff0_0000_0000_0000, 0xfff0_0000_0000_0000]);
                all.extend([0x7ff8_1234_5678_9abc, 0xfff0_1234_5678_9abc, 0x7fef_ffff_ffff_ffff]);
                all.extend([0x0010_0000_0000_0000, 0x3ff0_0000_0000_0001, 0x7ff0_0000_0000_0001]);
                let values =
                    [0.5, -0.5, 2.5, 255.5, -128.5, 65520.0, 2147483647.5, -2147483648.5, 4294967295.5];
                all.extend(values.map(f64::to_bits));
                let values =
                    [9223372036854775807.0, -9223372036854775808.0, 18446744073709549568.0, 1e30, -1e30];
                all.extend(values.map(f64::to_bits));
                // These are the largest and smallest f32 and f16, and midpoints between neighbours.
                all.extend([0x47ef_ffff_e000_0000, 0x47ef_ffff_f000_0000, 0x3690_0000_0000_0000]);
                all.extend([0x36a0_0000_0000_0000, 0x3810_0000_0000_0000, 0x380f_ffff_ffff_ffff]);
                all.extend([0x3ff0_0000_1000_0000, 0x3ff0_0000_3000_0000, 0x3ff0_0000_1000_0001]);
                all.extend([0x3ff0_0200_0000_0000, 0x3ff0_0600_0000_0000, 0x3e60_0000_0000_0000]);
                all
            }
            Self::Count => vec![0, 1, 8, 31, 32, 33, 63, 64, 65, 255, 256, 0xffff_ffff],
            Self::Bounds => {
                vec![0x1f, 0, 0x101f, 0x1800, 0x1e1f, 0x1c07, 0x0f0f, 0x1f1f, 0x10, 0x71f]
            }
            Self::Few => vec![5, 0, 0xffff_ffff],
            Self::Angle => Kind::F32.special().into_iter().take(8).collect(),
        }
    }

    /// Returns a random operand, which is often an edge case.
    fn any(self, random: &mut Random) -> u64 {
        let special = self.special();
        match self {
            Self::F16x2 | Self::Bf16x2 => {
                let one = if self == Self::F16x2 { Self::F16 } else { Self::Bf16 };
                return one.any(random) | one.any(random) << 16;
            }
            Self::Few | Self::Pred => return random.of(&special),
            Self::Count if random.below(4) != 0 => return random.below(70),
            Self::Bounds if random.below(2) != 0 => return random.next() & 0x1f1f,
            Self::Angle => {
                let value = (random.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0) * 6.25;
                let value = if random.below(3) == 0 { value * 50.0 } else { value };
                return u64::from(value.to_bits());
            }
            _ => {}
        }
        // Numbers with few bits set lead to results that lie halfway between two numbers.
        let sparse = random.next() & random.next() & random.next();
        let bits = if random.below(2) == 0 { random.next() << 32 ^ random.next() } else { sparse };
        match (random.below(8), self) {
            (0..3, _) => random.of(&special),
            (3..7, Self::F16) => (0x3000 + (random.below(12) << 10)) | bits & 0x83ff,
            (3..7, Self::Bf16) => (0x3d00 + (random.below(12) << 7)) | bits & 0x807f,
            (3..7, Self::F32) => (0x3c00_0000 + (random.below(14) << 23)) | bits & 0x807f_ffff,
            (3..7, Self::F64) => {
                (0x3fb0_0000_0000_0000 + (random.below(12) << 52)) | bits & 0x800f_ffff_ffff_ffff
            }
            _ => bits & (u64::MAX >> (64 - 8 * self.size())),
        }
    }
}

/// Returns the edge cases of a floating-point format with 16 bits.
fn half(infinite: u64, one: u64, mantissa: u32) -> Vec<u64> {
    let sign = 1 << 15;
    let largest = infinite - 1;
    let mut all =
        vec![0, sign, one, sign | one | 1 << (mantissa - 1), 1, sign | ((1 << mantissa) - 1), infinite];
    all.extend([
        sign | infinite,
        infinite | 1 << (mantissa - 1) | 5,
        sign | infinite | 5,
        largest,
        1 << mantissa,
    ]);
    all.extend([sign | largest, one + 1, one - 1, one - (1 << mantissa), 0x7fff, 0xffff]);
    all
}

/// Returns tuples of operands of these kinds. Their number is a multiple of 32, because the lanes of a warp
/// may work together.
pub fn tuples(kinds: &[Kind]) -> Vec<Vec<u64>> {
    let float = matches!(kinds[0], Kind::F16 | Kind::Bf16 | Kind::F32 | Kind::F64);
    // Indices of the edge cases that are combined, and the number of tuples including random ones.
    let (special, count): (Vec<usize>, usize) = match kinds.len() {
        1 if float => ((0..64).collect(), 96),
        1 => ((0..40).collect(), 64),
        2 => ((0..10).collect(), 192),
        3 if float => (vec![1, 2, 5, 6, 8, 9], 288),
        _ => (vec![], 256),
    };
    let mut tuples = vec![vec![]];
    for kind in kinds {
        let values = kind.special();
        let values: Vec<u64> = special.iter().filter_map(|index| values.get(*index).copied()).collect();
        let with_each =
            |tuple: &Vec<u64>| values.iter().map(|value| [&tuple[..], &[*value]].concat()).collect();
        tuples = tuples.iter().flat_map::<Vec<_>, _>(with_each).collect();
    }
    let mut random = Random::new(kinds.len() as u64);
    while tuples.len() < count {
        tuples.push(kinds.iter().map(|kind| kind.any(&mut random)).collect());
    }
    tuples.truncate(count);
    tuples
}
