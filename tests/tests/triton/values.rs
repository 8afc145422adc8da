//! Tests of Triton kernels that compute each value from the values at the same index, and of kernels that count.

use kernel_registry::DynArg;

use crate::{Kernel, Outcome, assert_close, numbers};

/// The number of values, which is no multiple of the block.
const N: usize = 1000;
const BLOCKS: u32 = 4;

#[test]
fn add_agrees_with_the_cpu() -> Outcome {
    let kernel = Kernel::new("add")?;
    let (x, y) = (numbers(N, 1), numbers(N, 2));
    let (x_there, y_there) = (kernel.stream.clone_htod(&x)?, kernel.stream.clone_htod(&y)?);
    let mut out = kernel.stream.alloc_zeros::<f32>(N)?;
    let n = N as i32;
    kernel.launch(
        BLOCKS,
        [DynArg::slice(&x_there), DynArg::slice(&y_there), DynArg::slice_mut(&mut out), DynArg::value(&n)],
    )?;
    let sums: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
    assert_eq!(kernel.stream.clone_dtoh(&out)?, sums);
    Ok(())
}

#[test]
fn reduce_agrees_with_the_cpu() -> Outcome {
    let kernel = Kernel::new("reduce")?;
    let x: Vec<i32> = (0..N as i32).map(|i| i * 37 % 501 - 250).collect();
    let there = kernel.stream.clone_htod(&x)?;
    let mut sum = kernel.stream.alloc_zeros::<f32>(1)?;
    let mut largest = kernel.stream.clone_htod(&[i32::MIN])?;
    let n = N as i32;
    kernel.launch(
        BLOCKS,
        [
            DynArg::slice(&there),
            DynArg::slice_mut(&mut sum),
            DynArg::slice_mut(&mut largest),
            DynArg::value(&n),
        ],
    )?;
    assert_eq!(kernel.stream.clone_dtoh(&sum)?, [x.iter().sum::<i32>() as f32]);
    assert_eq!(kernel.stream.clone_dtoh(&largest)?, [*x.iter().max().ok_or("no values")?]);
    Ok(())
}

#[test]
fn histogram_agrees_with_the_cpu() -> Outcome {
    let kernel = Kernel::new("histogram")?;
    let x: Vec<i32> = (0..N as i32).map(|i| i * i % 64).collect();
    let there = kernel.stream.clone_htod(&x)?;
    let mut bins = kernel.stream.alloc_zeros::<i32>(64)?;
    let n = N as i32;
    kernel.launch(BLOCKS, [DynArg::slice(&there), DynArg::slice_mut(&mut bins), DynArg::value(&n)])?;
    let counts: Vec<i32> =
        (0..64).map(|bin| x.iter().filter(|value| **value == bin).count() as i32).collect();
    assert_eq!(kernel.stream.clone_dtoh(&bins)?, counts);
    Ok(())
}

#[test]
fn philox_agrees_with_the_cpu() -> Outcome {
    let kernel = Kernel::new("philox")?;
    let mut out = kernel.stream.alloc_zeros::<u32>(N)?;
    let mut uniform = kernel.stream.alloc_zeros::<f32>(N)?;
    let (seed, n) = (12_345_i32, N as i32);
    kernel.launch(
        BLOCKS,
        [
            DynArg::value(&seed),
            DynArg::slice_mut(&mut out),
            DynArg::slice_mut(&mut uniform),
            DynArg::value(&n),
        ],
    )?;
    let found = kernel.stream.clone_dtoh(&out)?;
    let random: Vec<u32> = (0..N as u32).map(|i| philox4x32([i, 0, 0, 0], [seed as u32, 0])[0]).collect();
    assert_eq!(found, random);
    for (number, uniform) in random.into_iter().zip(kernel.stream.clone_dtoh(&uniform)?) {
        let signed = number as i32;
        let magnitude = if signed < 0 { -signed - 1 } else { signed };
        assert_eq!(uniform, magnitude as f32 * 4.656_612_5e-10);
    }
    Ok(())
}

/// Computes ten rounds of Philox as its paper defines them (Salmon and others, 2011).
fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let [a, b] = [(0xd251_1f53_u64, counter[0]), (0xcd9e_8d57, counter[2])]
            .map(|(factor, word)| factor * u64::from(word));
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    counter
}

#[test]
fn math_agrees_with_the_cpu() -> Outcome {
    let kernel = Kernel::new("math")?;
    let x = numbers(N, 3);
    let there = kernel.stream.clone_htod(&x)?;
    let mut out = kernel.stream.alloc_zeros::<f32>(8 * N)?;
    let n = N as i32;
    kernel.launch(BLOCKS, [DynArg::slice(&there), DynArg::slice_mut(&mut out), DynArg::value(&n)])?;
    let found = kernel.stream.clone_dtoh(&out)?;
    let expected: [fn(f64) -> f64; 8] = [
        f64::exp,
        |v| (v.abs() + 1.0).ln(),
        |v| v.sin() * v.cos(),
        |v| 1.0 / (v.abs() + 1.0).sqrt() + v.abs().sqrt(),
        |v| erf(v) + 1.0 / (1.0 + (-v).exp()),
        |v| v.floor() + v.ceil() + v.mul_add(v, v),
        |v| v.tanh() + v.abs().powf(1.5),
        |v| v / (v.abs() + 3.0) + v.clamp(-1.0, 1.0),
    ];
    for (found, expected) in found.chunks(N).zip(expected) {
        assert_close(found, x.iter().map(|v| expected(f64::from(*v))), 1e-5);
    }
    Ok(())
}

/// Computes the error function by its power series.
fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

/// A number in e5m2 is the upper half of a number in half precision.
#[test]
fn fp8_agrees_with_the_cpu() -> Outcome {
    let kernel = Kernel::new("fp8")?;
    let x: Vec<f32> = numbers(N, 4).iter().map(|value| value * value * value).collect();
    let given: Vec<u8> =
        (0..N).map(|i| i as u8).map(|code| if code & 0x7c == 0x7c { 0 } else { code }).collect();
    let (x_there, given_there) = (kernel.stream.clone_htod(&x)?, kernel.stream.clone_htod(&given)?);
    let mut codes = kernel.stream.alloc_zeros::<u8>(N)?;
    let mut out = kernel.stream.alloc_zeros::<f32>(N)?;
    let n = N as i32;
    kernel.launch(
        BLOCKS,
        [
            DynArg::slice(&x_there),
            DynArg::slice(&given_there),
            DynArg::slice_mut(&mut codes),
            DynArg::slice_mut(&mut out),
            DynArg::value(&n),
        ],
    )?;
    let wide = |code: u8| half::f16::from_bits(u16::from(code) << 8).to_f32();
    for (code, value) in kernel.stream.clone_dtoh(&codes)?.into_iter().zip(x) {
        let away = |code: u8| (wide(code) - value).abs();
        let least = (0..=255).filter(|code| wide(*code).is_finite()).map(away).fold(f32::MAX, f32::min);
        assert_eq!(away(code), least, "{value} became {code:#x}");
    }
    let expected: Vec<f32> = given.into_iter().map(wide).collect();
    assert_eq!(kernel.stream.clone_dtoh(&out)?, expected);
    Ok(())
}
