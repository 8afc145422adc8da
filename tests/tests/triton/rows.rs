//! Tests of Triton kernels in which each program instance computes one row.

use kernel_registry::DynArg;

use crate::{Kernel, Outcome, assert_close, numbers};

const ROWS: usize = 5;
/// The number of columns. A Triton block has more elements, so the rest is masked.
const COLUMNS: usize = 200;

#[test]
fn softmax_agrees_with_the_cpu() -> Outcome {
    let kernel = Kernel::new("softmax")?;
    let x = numbers(ROWS * COLUMNS, 1);
    let there = kernel.stream.clone_htod(&x)?;
    let mut out = kernel.stream.alloc_zeros::<f32>(x.len())?;
    let columns = COLUMNS as i32;
    kernel
        .launch(ROWS as u32, [DynArg::slice(&there), DynArg::slice_mut(&mut out), DynArg::value(&columns)])?;
    let expected = x.chunks(COLUMNS).flat_map(|row| {
        let powers: Vec<f64> = row.iter().map(|value| f64::from(*value).exp()).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(move |power| power / sum)
    });
    assert_close(&kernel.stream.clone_dtoh(&out)?, expected, 1e-6);
    Ok(())
}

#[test]
fn layer_norm_agrees_with_the_cpu() -> Outcome {
    let kernel = Kernel::new("layer_norm")?;
    let [x, weight, bias] =
        [(ROWS * COLUMNS, 1), (COLUMNS, 2), (COLUMNS, 3)].map(|(n, seed)| numbers(n, seed));
    let [x_there, weight_there, bias_there] =
        [kernel.stream.clone_htod(&x)?, kernel.stream.clone_htod(&weight)?, kernel.stream.clone_htod(&bias)?];
    let mut out = kernel.stream.alloc_zeros::<f32>(x.len())?;
    let (columns, epsilon) = (COLUMNS as i32, 1e-3_f32);
    kernel.launch(
        ROWS as u32,
        [
            DynArg::slice(&x_there),
            DynArg::slice(&weight_there),
            DynArg::slice(&bias_there),
            DynArg::slice_mut(&mut out),
            DynArg::value(&columns),
            DynArg::value(&epsilon),
        ],
    )?;
    let expected = x.chunks(COLUMNS).flat_map(|row| {
        let mean = row.iter().map(|value| f64::from(*value)).sum::<f64>() / COLUMNS as f64;
        let variance =
            row.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / COLUMNS as f64;
        let deviation = (variance + 1e-3).sqrt();
        row.iter()
            .zip(weight.iter().zip(&bias))
            .map(move |(value, (weight, bias))| {
                (f64::from(*value) - mean) / deviation * f64::from(*weight) + f64::from(*bias)
            })
            .collect::<Vec<_>>()
    });
    assert_close(&kernel.stream.clone_dtoh(&out)?, expected, 1e-5);
    Ok(())
}

#[test]
fn argmax_agrees_with_the_cpu() -> Outcome {
    let kernel = Kernel::new("argmax")?;
    let mut x = numbers(ROWS * COLUMNS, 5);
    // `argmax` returns the first of equal values.
    (x[17], x[150]) = (9.0, 9.0);
    let there = kernel.stream.clone_htod(&x)?;
    let mut out = kernel.stream.alloc_zeros::<i32>(ROWS)?;
    let columns = COLUMNS as i32;
    kernel
        .launch(ROWS as u32, [DynArg::slice(&there), DynArg::slice_mut(&mut out), DynArg::value(&columns)])?;
    let expected: Vec<i32> = x
        .chunks(COLUMNS)
        .map(|row| {
            let largest = row.iter().copied().fold(f32::MIN, f32::max);
            row.iter().position(|value| *value == largest).unwrap_or(0) as i32
        })
        .collect();
    assert_eq!(kernel.stream.clone_dtoh(&out)?, expected);
    Ok(())
}

#[test]
fn scan_agrees_with_the_cpu() -> Outcome {
    let kernel = Kernel::new("scan")?;
    let x = numbers(COLUMNS, 6);
    let there = kernel.stream.clone_htod(&x)?;
    let mut sums = kernel.stream.alloc_zeros::<f32>(COLUMNS)?;
    let mut largest = kernel.stream.alloc_zeros::<f32>(COLUMNS)?;
    let n = COLUMNS as i32;
    kernel.launch(
        1,
        [
            DynArg::slice(&there),
            DynArg::slice_mut(&mut sums),
            DynArg::slice_mut(&mut largest),
            DynArg::value(&n),
        ],
    )?;
    let added = x.iter().scan(0.0, |sum, value| {
        *sum += f64::from(*value);
        Some(*sum)
    });
    assert_close(&kernel.stream.clone_dtoh(&sums)?, added, 1e-5);
    let so_far = x.iter().scan(f32::MIN, |largest, value| {
        *largest = largest.max(*value);
        Some(*largest)
    });
    assert_eq!(kernel.stream.clone_dtoh(&largest)?, so_far.collect::<Vec<_>>());
    Ok(())
}

#[test]
fn sort_agrees_with_the_cpu() -> Outcome {
    const BLOCK: usize = 64;
    let kernel = Kernel::new("sort")?;
    let x = numbers(ROWS * BLOCK, 7);
    let there = kernel.stream.clone_htod(&x)?;
    let mut out = kernel.stream.alloc_zeros::<f32>(x.len())?;
    kernel.launch(ROWS as u32, [DynArg::slice(&there), DynArg::slice_mut(&mut out)])?;
    let mut sorted = x;
    sorted.chunks_mut(BLOCK).for_each(|row| row.sort_by(f32::total_cmp));
    assert_eq!(kernel.stream.clone_dtoh(&out)?, sorted);
    Ok(())
}
