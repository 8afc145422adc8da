//! Describes matrices in the registers of a warp: shapes, formats of elements, and which lane holds which
//! element.

use crate::slot::{Address, Slot};

/// The number format of a matrix element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
}

impl Element {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "e4m3" => Self::E4m3,
            "e5m2" => Self::E5m2,
            "s8" => Self::S8,
            "u8" => Self::U8,
            "s4" => Self::S4,
            "u4" => Self::U4,
            "b1" => Self::B1,
            "s32" => Self::S32,
            _ => return None,
        })
    }

    /// Returns the size of an element in bits.
    pub(crate) fn bits(self) -> usize {
        match self {
            Self::B1 => 1,
            Self::S4 | Self::U4 => 4,
            Self::E4m3 | Self::E5m2 | Self::S8 | Self::U8 => 8,
            Self::F16 | Self::Bf16 => 16,
            Self::Tf32 | Self::F32 | Self::S32 => 32,
            Self::F64 => 64,
        }
    }

    /// Returns how many elements a register holds. A register has 32 bits, or 64 bits for f64.
    pub(crate) fn per_register(self) -> usize {
        (32 / self.bits()).max(1)
    }
}

/// The shape of a matrix product: A is `m` by `k`, B is `k` by `n`, and C is `m` by `n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

impl Shape {
    /// Parses a shape such as `m16n8k8`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let (m, rest) = name.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some(Self { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
    }

    /// Returns the rows and columns of one of the matrices.
    pub(crate) fn part_size(self, part: Part) -> (usize, usize) {
        match part {
            Part::A => (self.m, self.k),
            Part::B => (self.k, self.n),
            Part::C => (self.m, self.n),
        }
    }
}

/// A row of the tables of `mma` and `wmma`: the shapes, the types of A and B, and the types of C and D.
type Row = (&'static str, &'static str, &'static str);
pub(crate) const MMA: &[Row] = &[
    ("m16n8k8 m16n8k16", "f16", "f16 f32"),
    ("m16n8k8 m16n8k16", "bf16", "f32"),
    ("m16n8k4 m16n8k8", "tf32", "f32"),
    ("m8n8k4 m16n8k4 m16n8k8 m16n8k16", "f64", "f64"),
    ("m16n8k16 m16n8k32", "e4m3 e5m2", "f16 f32"),
    ("m8n8k16 m16n8k16 m16n8k32", "s8 u8", "s32"),
    ("m8n8k32 m16n8k32 m16n8k64", "s4 u4", "s32"),
    ("m8n8k128 m16n8k128 m16n8k256", "b1", "s32"),
];
pub(crate) const WMMA: &[Row] = &[
    ("m16n16k16 m32n8k16 m8n32k16", "f16", "f16 f32"),
    ("m16n16k16 m32n8k16 m8n32k16", "bf16", "f32"),
    ("m16n16k8", "tf32", "f32"),
    ("m8n8k4", "f64", "f64"),
    ("m16n16k16 m32n8k16 m8n32k16", "s8 u8", "s32"),
];

/// A matrix of a product: A, B, or C, which has the same shape as the result D.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    A,
    B,
    C,
}

/// How the elements of a matrix are distributed over the lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// The layout that PTX defines for `mma` and `ldmatrix`.
    Fragment(Part),
    /// Elements follow each other, lane by lane. Where the lanes have room for more, the matrix begins again.
    /// PTX does not specify the layout for `wmma`.
    Linear,
}

/// A matrix in registers, or several matrices of 8 by 8 elements.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub element: Element,
    pub layout: Layout,
    pub registers: Box<[Slot]>,
}

impl Matrix {
    /// Returns how many elements a lane has.
    pub(crate) fn elements(&self) -> usize {
        self.registers.len() * self.element.per_register()
    }

    /// Returns row and column of a lane's element. Elements of a register follow each other from the lowest
    /// bits.
    pub(crate) fn place(&self, lane: usize, index: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        let per = self.element.per_register();
        let along = |index: usize, tall: bool| {
            let (register, number) = (index / per, index % per);
            let (half, block) = if tall { (register % 2, register / 2) } else { (0, register) };
            (group + 8 * half, per * (4 * block + thread) + number)
        };
        match self.layout {
            Layout::Fragment(Part::A) => along(index, self.rows == 16),
            Layout::Fragment(Part::B) => {
                let (column, row) = along(index, false);
                (row, column)
            }
            Layout::Fragment(Part::C) => (group + 8 * (index / 2), 2 * thread + index % 2),
            Layout::Linear => {
                let number = (lane * self.elements() + index) % (self.rows * self.columns);
                (number / self.columns, number % self.columns)
            }
        }
    }
}

/// How elements are multiplied and added. The functions take the bits of an element.
pub(crate) enum Product {
    /// The sum is computed in f64, which holds products of narrower formats exactly, and rounded once at the
    /// end. If `fused`, it is rounded after each multiply-add.
    Float { a: fn(u64) -> f64, b: fn(u64) -> f64, c: fn(u64) -> f64, d: fn(f64) -> u64, fused: bool },
    /// The sum is computed in integers. `saturate` clamps it to its range.
    Integer { a: fn(u64) -> i64, b: fn(u64) -> i64, saturate: bool },
    /// The sum counts the bits that are set in exactly one of two factors (`xor`), or in both.
    Bits { xor: bool },
}

/// An instruction on matrices, which all lanes of a warp execute together.
pub(crate) enum Together {
    /// D = A * B + C.
    Multiply { d: Matrix, a: Matrix, b: Matrix, c: Matrix, product: Product },
    /// A transfer between memory and a matrix. The rows of the matrix are `stride` elements apart in
    /// memory; with `by_columns`, the columns are.
    Whole { stores: bool, matrix: Matrix, address: Address, stride: Slot, by_columns: bool },
    /// A transfer between memory and matrices of 8 by 8 elements. For each matrix, 8 lanes have the addresses
    /// of its rows.
    Rows { stores: bool, matrix: Matrix, address: Address, transposed: bool },
    /// Transposes a matrix of 8 by 8 elements.
    Transpose { to: Matrix, from: Matrix },
}

impl Together {
    /// Returns the slots that the instruction reads and writes.
    pub(crate) fn touches(&self) -> (Vec<Slot>, Vec<Slot>) {
        let registers =
            |matrices: &[&Matrix]| matrices.iter().flat_map(|matrix| matrix.registers.to_vec()).collect();
        match self {
            Self::Multiply { d, a, b, c, .. } => (registers(&[a, b, c]), registers(&[d])),
            Self::Transpose { to, from } => (registers(&[from]), registers(&[to])),
            Self::Whole { stores: false, matrix, address, .. }
            | Self::Rows { stores: false, matrix, address, .. } => (vec![address.base], registers(&[matrix])),
            Self::Whole { matrix, address, .. } | Self::Rows { matrix, address, .. } => {
                let mut reads: Vec<Slot> = registers(&[matrix]);
                reads.push(address.base);
                (reads, vec![])
            }
        }
    }
}
