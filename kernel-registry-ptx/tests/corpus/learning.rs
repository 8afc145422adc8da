//! Tests of machine learning kernels: softmax, norms, activations, and half precision.

use half::{bf16, f16};

use super::*;

#[test]
fn softmax_and_norms() {
    each("learning", |code| {
        let (rows, n) = (3, 300);
        let (mut x, mut out) = (fractional(rows * n), vec![0f32; rows * n]);
        let (px, po) = (code.lend(&mut x), code.lend(&mut out));
        code.run("softmax", rows as u32, 128, Compiled::n(n).u64(px).u64(po));
        for (row, found) in x.chunks(n).zip(out.chunks(n)) {
            let powers: Vec<f64> = row.iter().map(|x| f64::from(*x).exp()).collect();
            let sum: f64 = powers.iter().sum();
            close(found, powers.iter().map(|power| power / sum), 1e-6);
        }

        let (mut weight, mut bias) = (fractional(n), whole(n));
        let arguments = Compiled::n(n).u64(px).u64(code.lend(&mut weight)).u64(code.lend(&mut bias)).u64(po);
        code.run("layer_norm", rows as u32, 128, arguments);
        for (row, found) in x.chunks(n).zip(out.chunks(n)) {
            let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / n as f64;
            let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n as f64;
            let value =
                |i: usize| (f64::from(row[i]) - mean) / (variance + 1e-5).sqrt() * f64::from(weight[i]);
            close(found, (0..n).map(|i| value(i) + f64::from(bias[i])), 1e-5);
        }

        let mut x: Vec<bf16> = x.iter().map(|x| bf16::from_f32(*x)).collect();
        let mut out = vec![bf16::ZERO; rows * n];
        let arguments =
            Compiled::n(n).u64(code.lend(&mut x)).u64(code.lend(&mut weight)).u64(code.lend(&mut out));
        code.run("rms_norm", rows as u32, 64, arguments);
        for (row, found) in x.chunks(n).zip(out.chunks(n)) {
            let squares = row.iter().map(|x| x.to_f64().powi(2)).sum::<f64>() / n as f64;
            let found: Vec<f32> = found.iter().map(|x| x.to_f32()).collect();
            close(
                &found,
                (0..n).map(|i| row[i].to_f64() / squares.sqrt() * f64::from(weight[i])),
                1.0 / 256.0,
            );
        }
    });
}

#[test]
fn gelu_and_rope() {
    each("learning", |code| {
        let (mut x, mut out, mut fast) = (fractional(500), vec![0f32; 500], vec![0f32; 500]);
        let arguments =
            Compiled::n(500).u64(code.lend(&mut x)).u64(code.lend(&mut out)).u64(code.lend(&mut fast));
        code.run("gelu", 4, 128, arguments);
        let tanh = |x: f64| 0.5 * x * (1.0 + (0.797_884_56 * (x + 0.044_715 * x.powi(3))).tanh());
        close(&fast, x.iter().map(|x| tanh(f64::from(*x))), 1e-5);
        // `out` is the exact function, and `fast` approximates it by tanh.
        close(&out, fast.iter().map(|x| f64::from(*x)), 1e-3);

        let (positions, pairs) = (20, 16);
        let before = fractional(2 * positions * pairs);
        let mut data = before.clone();
        code.run("rope", positions as u32, 32, Compiled::n(pairs).u64(code.lend(&mut data)));
        let turned = before.chunks(2).enumerate().flat_map(|(i, pair)| {
            let (position, i) = ((i / pairs) as f64, (i % pairs) as f64);
            let (sine, cosine) = (position * 10000f64.powf(-2.0 * i / (2 * pairs) as f64)).sin_cos();
            let (x, y) = (f64::from(pair[0]), f64::from(pair[1]));
            [x * cosine - y * sine, x * sine + y * cosine]
        });
        close(&data, turned, 1e-5);
    });
}

#[test]
fn halves() {
    each("learning", |code| {
        let mut x: Vec<f16> = whole(400).into_iter().map(|x| f16::from_f32(x / 4.0)).collect();
        let mut y = x.clone();
        let (px, py) = (code.lend(&mut x), code.lend(&mut y));
        let two = u32::from(f16::from_f32(2.0).to_bits()) * 0x1_0001;
        code.run("half_axpy", 2, 128, Compiled::n(200).u32(two).u64(px).u64(py));
        assert!(x.iter().zip(&y).all(|(x, y)| y.to_f32() == 3.0 * x.to_f32()));
        let mut out = [0f32];
        code.run("half_dot", 1, 32, Compiled::n(400).u64(px).u64(py).u64(code.lend(&mut out)));
        assert_eq!(out[0], x.iter().map(|x| 3.0 * x.to_f32() * x.to_f32()).sum());

        let mut a: Vec<f16> = (0..64).map(|i| f16::from_f32(i as f32 / 8.0)).collect();
        let expected = a.iter().map(|x| {
            let x = if x.to_f32() > 3.0 { x.to_f32() - 1.0 } else { x.to_f32() };
            f16::from_f32((x * x - 0.5).max(2.0))
        });
        let expected: Vec<f16> = expected.collect();
        let (mut total, mut root) = ([f16::ZERO; 2], [f16::ZERO]);
        let arguments = Arguments::default().u64(code.lend(&mut a)).u64(code.lend(&mut total));
        code.run("half_operations", 1, 64, arguments.u64(code.lend(&mut root)));
        assert_eq!(a, expected);
        assert_eq!((total.map(f16::to_f32), root[0]), ([64.0, 96.0], f16::from_f32(2f32.sqrt())));

        let mut a: Vec<bf16> = whole(64).into_iter().map(bf16::from_f32).collect();
        let mut b = a.clone();
        code.run(
            "bfloat_operations",
            1,
            32,
            Arguments::default().u64(code.lend(&mut a)).u64(code.lend(&mut b)),
        );
        assert!(a.iter().zip(&b).all(|(a, b)| b.to_f32() == 3.0 * a.to_f32()));
    });
}
