//! Tests of matrix products by tensor cores, which are compared with products of the whole matrices.
//!
//! Which lane holds which element is taken from CUTLASS (`cute/atom/mma_traits_sm80.hpp`, `.._sm89.hpp`,
//! `.._sm90.hpp`): strides of lanes and of a lane's values in a matrix that is stored by columns, or for B by
//! rows. No GPU has recorded these results.

use std::fmt::Write;

use crate::common::{Arguments, Device, launch, run};
use half::{bf16, f16};

/// Extents and strides of the lane number, then extents and strides of the index of a lane's value.
type Layout = (&'static [(usize, usize)], &'static [(usize, usize)]);

/// Shape, types of A and B, types of C and D, and layouts of A, B and C.
type Row = (&'static str, &'static str, &'static str, [Layout; 3]);

const ROW_16X8: Layout = (&[(4, 32), (8, 1)], &[(2, 16), (2, 8)]);
const ROW_8X8: Layout = (&[(4, 16), (8, 1)], &[(2, 8)]);
const ROW_8X16: Layout = (&[(4, 32), (8, 1)], &[(4, 8)]);
const COLUMN_8X4: Layout = (&[(4, 8), (8, 1)], &[]);

const SHAPES: &[Row] = &[
    ("m16n8k8", "f16 bf16", "f32 f16", [ROW_16X8, ROW_8X8, ROW_16X8]),
    (
        "m16n8k16",
        "f16 bf16",
        "f32 f16",
        [
            (&[(4, 32), (8, 1)], &[(2, 16), (2, 8), (2, 128)]),
            (&[(4, 16), (8, 1)], &[(2, 8), (2, 64)]),
            ROW_16X8,
        ],
    ),
    ("m16n8k4", "tf32", "f32", [(&[(4, 16), (8, 1)], &[(2, 8)]), COLUMN_8X4, ROW_16X8]),
    (
        "m16n8k8",
        "tf32",
        "f32",
        [(&[(4, 16), (8, 1)], &[(2, 8), (2, 64)]), (&[(4, 8), (8, 1)], &[(2, 32)]), ROW_16X8],
    ),
    ("m8n8k4", "f64", "f64", [COLUMN_8X4, COLUMN_8X4, ROW_8X8]),
    ("m16n8k4", "f64", "f64", [(&[(4, 16), (8, 1)], &[(2, 8)]), COLUMN_8X4, ROW_16X8]),
    (
        "m16n8k8",
        "f64",
        "f64",
        [(&[(4, 16), (8, 1)], &[(2, 8), (2, 64)]), (&[(4, 8), (8, 1)], &[(2, 32)]), ROW_16X8],
    ),
    (
        "m16n8k16",
        "f64",
        "f64",
        [(&[(4, 16), (8, 1)], &[(2, 8), (4, 64)]), (&[(4, 8), (8, 1)], &[(4, 32)]), ROW_16X8],
    ),
    ("m8n8k16", "s8 u8", "s32", [ROW_8X16, ROW_8X16, ROW_8X8]),
    ("m16n8k16", "s8 u8", "s32", [(&[(4, 64), (8, 1)], &[(4, 16), (2, 8)]), ROW_8X16, ROW_16X8]),
    (
        "m16n8k32",
        "s8 u8 e4m3 e5m2",
        "s32 f32 f16",
        [
            (&[(4, 64), (8, 1)], &[(4, 16), (2, 8), (2, 256)]),
            (&[(4, 32), (8, 1)], &[(4, 8), (2, 128)]),
            ROW_16X8,
        ],
    ),
    ("m8n8k32", "s4 u4", "s32", [(&[(4, 64), (8, 1)], &[(8, 8)]), (&[(4, 64), (8, 1)], &[(8, 8)]), ROW_8X8]),
    (
        "m16n8k32",
        "s4 u4",
        "s32",
        [(&[(4, 128), (8, 1)], &[(8, 16), (2, 8)]), (&[(4, 64), (8, 1)], &[(8, 8)]), ROW_16X8],
    ),
    (
        "m16n8k64",
        "s4 u4",
        "s32",
        [
            (&[(4, 128), (8, 1)], &[(8, 16), (2, 8), (2, 512)]),
            (&[(4, 64), (8, 1)], &[(8, 8), (2, 256)]),
            ROW_16X8,
        ],
    ),
];

/// Returns which element of the matrix a lane holds at an index.
fn element(layout: Layout, lane: usize, index: usize) -> usize {
    let along = |mut number: usize, modes: &[(usize, usize)]| {
        modes.iter().fold(0, |offset, (extent, stride)| {
            let found = number % extent * stride;
            number /= extent;
            offset + found
        })
    };
    along(lane, layout.0) + along(index, layout.1)
}

/// Returns the bits of a small whole number in a format.
fn bits(format: &str, value: i32) -> u64 {
    match format {
        "f16" => f16::from_f32(value as f32).to_bits().into(),
        "bf16" => bf16::from_f32(value as f32).to_bits().into(),
        "f32" | "tf32" => (value as f32).to_bits().into(),
        "f64" => f64::from(value).to_bits(),
        // An e5m2 is the upper half of an f16, and an e4m3 is an f16 with another exponent.
        "e5m2" => u64::from(f16::from_f32(value as f32).to_bits() >> 8),
        "e4m3" => {
            let half = f16::from_f32(value as f32 / 256.0).to_bits();
            u64::from(half >> 15 << 7 | half >> 7 & 0x7f)
        }
        _ => value as u32 as u64,
    }
}

fn size(format: &str) -> usize {
    match format {
        "f64" => 64,
        "f32" | "tf32" | "s32" => 32,
        "f16" | "bf16" => 16,
        "s4" | "u4" => 4,
        _ => 8,
    }
}

/// Returns pseudo-random small whole numbers that the format represents exactly.
fn numbers(format: &str, count: usize) -> Vec<i32> {
    let (low, span) = match format {
        "u4" | "u8" => (0, 8),
        "e4m3" | "e5m2" => (-3, 7),
        _ => (-5, 11),
    };
    let mut state = count as u32 + 7;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as i32
    };
    (0..count).map(|_| low + next() % span).collect()
}

/// Returns each lane's registers for a matrix. A register has 64 bits for `f64`, and 32 bits for other
/// formats.
fn registers(format: &str, matrix: &[i32], layout: Layout) -> Vec<Vec<u64>> {
    let (size, per) = (size(format), (32 / size(format)).max(1));
    let elements = matrix.len() / 32;
    let mask = u64::MAX >> (64 - size);
    (0..32)
        .map(|lane| {
            let bits_at = |index| bits(format, matrix[element(layout, lane, index)]) & mask;
            (0..elements / per)
                .map(|register| {
                    (0..per).fold(0, |all, part| all | bits_at(register * per + part) << (part * size))
                })
                .collect()
        })
        .collect()
}

/// Runs a warp that loads the given registers and executes the statement. Returns the first `out` registers
/// of each lane.
fn warp(statement: &str, given: &[Vec<u64>], out: usize, wide: bool) -> Vec<Vec<u64>> {
    let device = Device::default();
    let count = given[0].len();
    let mut input: Vec<u64> = given.concat();
    let mut output = vec![0u64; 32 * out];
    let arguments = Arguments::default().u64(device.lend(&mut input)).u64(device.lend(&mut output)).done();
    let mut text = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) {{\n\
         .reg .b32 %r<99>; .reg .b64 %rd<99>, %me; .reg .b32 %lane; .shared .align 16 .b8 pool[2048];\n\
         mov.u32 %lane, %laneid; ld.param.u64 %rd90, [in]; ld.param.u64 %rd91, [out];\n\
         mad.wide.u32 %rd90, %lane, {}, %rd90; mad.wide.u32 %rd91, %lane, {}, %rd91;\n",
        8 * count,
        8 * out
    );
    let name = if wide { "rd" } else { "r" };
    for index in 0..count {
        let kind = if wide { "b64" } else { "b32" };
        writeln!(text, "ld.global.{kind} %{name}{}, [%rd90+{}];", index + 32, 8 * index).unwrap();
    }
    text += statement;
    for index in 0..out {
        let kind = if wide { "b64" } else { "b32" };
        writeln!(text, "\nst.global.{kind} [%rd91+{}], %{name}{index};", 8 * index).unwrap();
    }
    let module = device.load(&(text + "ret; }")).unwrap();
    assert_eq!(module.program().lacking("k"), None, "{statement}");
    run(&device, &module, "k", launch(1, 32, arguments)).unwrap();
    output.chunks(out).map(<[u64]>::to_vec).collect()
}

fn list(name: &str, first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count).map(|index| format!("%{name}{index}")).collect();
    format!("{{{}}}", names.join(", "))
}

#[test]
fn products() {
    let mut tried = 0;
    for (shape, factors, sums, [a_layout, b_layout, c_layout]) in SHAPES {
        let extents: Vec<usize> =
            shape.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
        let [m, n, k] = extents[..] else { panic!("{shape}") };
        let pairs = factors.split(' ').flat_map(|a| factors.split(' ').map(move |b| (a, b)));
        for ((a, b), d) in pairs.flat_map(|pair| sums.split(' ').map(move |d| (pair, d))) {
            let whole = |kind: &str| kind.starts_with(['s', 'u']);
            let eighth = |kind: &str| kind.starts_with('e');
            let fits = whole(a) == whole(b)
                && whole(a) == whole(d)
                && (a == b || whole(a) || eighth(a) && eighth(b));
            if !fits || a == "bf16" && d == "f16" {
                continue;
            }
            let (left, right, sum) = (numbers(a, m * k), numbers(b, n * k), numbers(d, m * n));
            let given: Vec<Vec<u64>> = (registers(a, &left, *a_layout).into_iter())
                .zip(registers(b, &right, *b_layout).into_iter().zip(registers(d, &sum, *c_layout)))
                .map(|(a, (b, c))| [a, b, c].concat())
                .collect();
            let counts = [(a, m * k), (b, n * k), (d, m * n)]
                .map(|(kind, count)| count / 32 * size(kind) / size(kind).max(32));
            let name = if a == "f64" { "rd" } else { "r" };
            let [of_a, of_b, of_c] = counts;
            let statement = format!(
                "mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{d} {}, {}, {}, {};",
                list(name, 0, of_c),
                list(name, 32, of_a),
                list(name, 32 + of_a, of_b),
                list(name, 32 + of_a + of_b, of_c),
            );
            let product: Vec<i32> = (0..m * n)
                .map(|at| {
                    let (row, column) = (at % m, at / m);
                    sum[at] + (0..k).map(|k| left[row + m * k] * right[column + n * k]).sum::<i32>()
                })
                .collect();
            let expected = registers(d, &product, *c_layout);
            assert_eq!(warp(&statement, &given, of_c, a == "f64"), expected, "{statement}");
            tried += 1;
        }
    }
    assert_eq!(tried, 44);
}

/// Sums of whole numbers wrap around, or saturate with `.satfinite`.
#[test]
fn integer_sums_wrap_or_saturate() {
    for (modifier, expected) in [("", i32::MIN + 15), (".satfinite", i32::MAX)] {
        let statement = format!(
            "mma.sync.aligned.m8n8k16.row.col{modifier}.s32.s8.s8.s32 {{%r0, %r1}}, {{%r32}}, {{%r33}}, {{%r34, %r34}};"
        );
        let given = vec![vec![0x0101_0101, 0x0101_0101, i32::MAX as u64]; 32];
        assert_eq!(warp(&statement, &given, 2, false)[9], [expected as u32 as u64; 2]);
    }
}

/// Loads, stores and transposes matrices of 8 by 8. The element at each row and column is 8 times the row
/// plus the column.
#[test]
fn matrices_of_8_by_8() {
    // Lane `8 * i + r` writes row `r` of matrix `i`. A load gives each lane a pair of neighbours in a row, or
    // in a column.
    let rows: Vec<Vec<u64>> = (0..32u64)
        .map(|lane| {
            (0..4).map(|pair| (32 * lane / 4 + 2 * pair) | (32 * lane / 4 + 2 * pair + 1) << 16).collect()
        })
        .collect();
    let stored = "mul.lo.u32 %r80, %lane, 16; mov.u32 %r81, pool; add.u32 %r81, %r80, %r81;\n\
        st.shared.v4.b32 [%r81], {%r32, %r33, %r34, %r35}; bar.sync 0;\n";
    let pair = |row: usize, column: usize, down: usize| {
        let element = |row: usize, column: usize| (8 * row + column) as u64;
        element(row, column) | element(row + down, column + 1 - down) << 16
    };
    for (load, transposed) in [
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", false),
        ("ldmatrix.sync.aligned.x4.trans.m8n8.shared::cta.b16", true),
    ] {
        let found = warp(&format!("{stored}{load} {{%r0, %r1, %r2, %r3}}, [%r81];"), &rows, 4, false);
        for (lane, registers) in found.iter().enumerate() {
            for (matrix, found) in registers.iter().enumerate() {
                let (along, pairs) = (lane / 4, 2 * (lane % 4));
                let expected = if transposed {
                    pair(8 * matrix + pairs, along, 1)
                } else {
                    pair(8 * matrix + along, pairs, 0)
                };
                assert_eq!(*found, expected, "{load}, lane {lane}, matrix {matrix}");
            }
        }
    }
    // The matrices are stored again with the same layout.
    let stores = format!(
        "{stored}ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r81]; add.u32 %r82, %r81, 1024;\n\
         stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r82], {{%r4, %r5, %r6, %r7}};\n\
         ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%r82];"
    );
    assert_eq!(warp(&stores, &rows, 4, false), rows);
    // The transpose of the transpose is the matrix.
    let turned = format!(
        "{stored}ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 %r4, [%r81];\n\
         movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r4; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r1}}, [%r81];"
    );
    assert!(warp(&turned, &rows, 2, false).iter().all(|registers| registers[0] == registers[1]));
}

#[test]
fn a_row_that_is_not_aligned_is_a_fault() {
    let body = ".shared .align 16 .b8 pool[1024]; mov.u32 %r1, pool; mad.lo.u32 %r1, %r0, 18, %r1;\n\
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];";
    let fault = crate::common::results(body, 32).unwrap_err();
    assert!(fault.contains("thread (1, 0, 0): accesses 16 bytes at 0x12"), "{fault}");
}

/// Tests `wmma`: loads of matrices from shared memory, their product, and its store to shared memory.
#[test]
fn wmma_products() {
    for (shape, kind, of_a, of_b, of_c) in [
        ([16, 16, 16], "f16", 8, 8, 8),
        ([32, 8, 16], "f16", 8, 8, 8),
        ([8, 32, 16], "bf16", 2, 8, 8),
        ([16, 16, 16], "s8", 2, 2, 8),
        ([16, 16, 8], "tf32", 4, 4, 8),
    ] {
        let [m, n, k] = shape;
        let sum = if kind == "s8" { "s32" } else { "f32" };
        let name = format!("m{m}n{n}k{k}");
        let (left, right) = (numbers(kind, m * k), numbers(kind, n * k));
        // A is stored by rows, and B by columns.
        let bytes = size(kind) / 8;
        let all: Vec<u8> = (left.iter().chain(&right))
            .flat_map(|value| bits(kind, *value).to_le_bytes()[..bytes].to_vec())
            .collect();
        let mut words: Vec<u64> =
            all.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()).into()).collect();
        let count = words.len().div_ceil(32);
        words.resize(32 * count, 0);
        let given: Vec<Vec<u64>> = words.chunks(count).map(<[u64]>::to_vec).collect();
        let mut statement =
            format!("mul.lo.u32 %r80, %lane, {}; mov.u32 %r81, pool; add.u32 %r80, %r80, %r81;\n", 4 * count);
        for index in 0..count {
            writeln!(statement, "st.shared.b32 [%r80+{}], %r{};", 4 * index, 32 + index).unwrap();
        }
        let product =
            if kind == "f16" { format!("{sum}.{sum}") } else { format!("{sum}.{kind}.{kind}.{sum}") };
        let zero = if sum == "f32" { "0f00000000" } else { "0" };
        let (a, b, c) = (list("r", 50, of_a), list("r", 60, of_b), list("r", 70, of_c));
        for index in 0..of_c {
            writeln!(statement, "mov.b32 %r{}, {zero};", 70 + index).unwrap();
        }
        // The product is stored by columns. Then each lane loads some elements that follow each other.
        let per = m * n / 32;
        write!(
            statement,
            "wmma.load.a.sync.aligned.row.{name}.shared.{kind} {a}, [%r81], {k};\n\
             wmma.load.b.sync.aligned.col.{name}.shared.{kind} {b}, [%r81+{}], {k};\n\
             wmma.mma.sync.aligned.row.col.{name}.{product} {c}, {a}, {b}, {c};\n\
             wmma.store.d.sync.aligned.col.{name}.shared.{sum} [%r81], {c}, {m};\n\
             mad.lo.u32 %r80, %lane, {}, %r81;\n",
            bytes * m * k,
            4 * per
        )
        .unwrap();
        for index in 0..per {
            writeln!(statement, "ld.shared.b32 %r{index}, [%r80+{}];", 4 * index).unwrap();
        }
        let found = warp(&statement, &given, per, false).concat();
        let expected: Vec<u64> = (0..m * n)
            .map(|at| {
                let (row, column) = (at % m, at / m);
                let total: i32 = (0..k).map(|step| left[k * row + step] * right[k * column + step]).sum();
                bits(sum, total)
            })
            .collect();
        assert_eq!(found, expected, "{name} {kind}");
    }
}
