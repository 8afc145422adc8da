//! Tests of Triton kernels that multiply matrices.

use half::{bf16, f16};
use kernel_registry::{DynArg, KernelParam};

use crate::{Kernel, Outcome, assert_close, numbers};

/// The sizes are no multiples of the tiles, which have 32 rows and columns. `N` and `K` are multiples of 16, as the compiler was told.
const M: usize = 50;
const N: usize = 48;
const K: usize = 80;

/// Multiplies matrices. `narrow` converts a number to an element of a matrix, and `wide` converts an element to a number.
fn dot<T: KernelParam + Copy + kernel_registry::cudarc::driver::DeviceRepr>(
    name: &str,
    narrow: fn(f32) -> T,
    wide: fn(T) -> f32,
) -> Outcome {
    let kernel = Kernel::new(name)?;
    let [a, b] = [(M * K, 1), (K * N, 2)]
        .map(|(count, seed)| numbers(count, seed).into_iter().map(narrow).collect::<Vec<_>>());
    let (a_there, b_there) = (kernel.stream.clone_htod(&a)?, kernel.stream.clone_htod(&b)?);
    let mut c = kernel.stream.alloc_zeros::<f32>(M * N)?;
    let [m, n, k] = [M, N, K].map(|size| size as i32);
    let grid = (M.div_ceil(32) as u32, N.div_ceil(32) as u32);
    kernel.launch(
        grid,
        [
            DynArg::slice(&a_there),
            DynArg::slice(&b_there),
            DynArg::slice_mut(&mut c),
            DynArg::value(&m),
            DynArg::value(&n),
            DynArg::value(&k),
        ],
    )?;
    let value = |matrix: &[T], place: usize| f64::from(wide(matrix[place]));
    let (value, a, b) = (&value, &a, &b);
    let expected = (0..M).flat_map(|row| {
        (0..N).map(move |column| {
            (0..K).map(|at| value(a, row * K + at) * value(b, at * N + column)).sum::<f64>()
        })
    });
    assert_close(&kernel.stream.clone_dtoh(&c)?, expected, 1e-4);
    Ok(())
}

#[test]
fn dot_f16_agrees_with_the_cpu() -> Outcome {
    dot("dot_f16", |value| f16::from_f32(value).to_bits(), |bits| f16::from_bits(bits).to_f32())
}

#[test]
fn dot_bf16_agrees_with_the_cpu() -> Outcome {
    dot("dot_bf16", |value| bf16::from_f32(value).to_bits(), |bits| bf16::from_bits(bits).to_f32())
}

/// TF32 multiplies only the highest 19 bits of each number.
#[test]
fn dot_tf32_agrees_with_the_cpu() -> Outcome {
    dot("dot_tf32", |value| value, |value| f32::from_bits(value.to_bits() & !0x1fff))
}

#[test]
fn attention_agrees_with_the_cpu() -> Outcome {
    const HEADS: usize = 2;
    const ROWS: usize = 70;
    const WIDTH: usize = 32;
    const SCALE: f32 = 0.125;
    let kernel = Kernel::new("attention")?;
    let [q, k, v] = [1, 2, 3]
        .map(|seed| numbers(HEADS * ROWS * WIDTH, seed).into_iter().map(f16::from_f32).collect::<Vec<_>>());
    let there = |values: &[f16]| {
        kernel.stream.clone_htod(&values.iter().map(|value| value.to_bits()).collect::<Vec<_>>())
    };
    let [q_there, k_there, v_there] = [there(&q)?, there(&k)?, there(&v)?];
    let mut out = kernel.stream.alloc_zeros::<u16>(q.len())?;
    let (n, scale) = (ROWS as i32, SCALE);
    kernel.launch(
        (ROWS.div_ceil(32) as u32, HEADS as u32),
        [
            DynArg::slice(&q_there),
            DynArg::slice(&k_there),
            DynArg::slice(&v_there),
            DynArg::slice_mut(&mut out),
            DynArg::value(&n),
            DynArg::value(&scale),
        ],
    )?;
    let found: Vec<f32> =
        kernel.stream.clone_dtoh(&out)?.into_iter().map(|bits| f16::from_bits(bits).to_f32()).collect();
    let row = |of: &[f16], head: usize, row: usize| -> Vec<f64> {
        of[(head * ROWS + row) * WIDTH..][..WIDTH].iter().map(|value| value.to_f64()).collect()
    };
    let mut expected = Vec::new();
    for head in 0..HEADS {
        for query in 0..ROWS {
            let asked = row(&q, head, query);
            let weights: Vec<f64> = (0..=query)
                .map(|key| {
                    let score: f64 = asked.iter().zip(row(&k, head, key)).map(|(q, k)| q * k).sum();
                    (score * f64::from(SCALE)).exp()
                })
                .collect();
            let total: f64 = weights.iter().sum();
            expected.extend((0..WIDTH).map(|column| {
                let weighed =
                    weights.iter().enumerate().map(|(key, weight)| weight * row(&v, head, key)[column]);
                weighed.sum::<f64>() / total
            }));
        }
    }
    // Weights and result are in half precision, which has 11 binary digits.
    assert_close(&found, expected, 4e-3);
    Ok(())
}
