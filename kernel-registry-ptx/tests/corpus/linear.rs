//! Tests of linear algebra: axpy, dot products, and matrix products.

use super::*;

#[test]
fn axpy() {
    each("linear", |code| {
        let (mut x, mut y) = (fractional(1000), vec![0.5f32; 1000]);
        let (px, py) = (code.lend(&mut x), code.lend(&mut y));
        code.run("axpy", 3, 64, Compiled::n(1000).f32(1.5).u64(px).u64(py));
        assert!(x.iter().zip(&y).all(|(x, y)| *y == 1.5f32.mul_add(*x, 0.5)));
        code.run("axpy4", 4, 64, Compiled::n(250).f32(-1.5).u64(px).u64(py));
        assert!(x.iter().zip(&y).all(|(x, y)| *y == (-1.5f32).mul_add(*x, 1.5f32.mul_add(*x, 0.5))));
    });
}

#[test]
fn dot_and_gemv() {
    each("linear", |code| {
        let mut x: Vec<f64> = whole(5000).into_iter().map(f64::from).collect();
        let expected: f64 = x.iter().map(|x| x * x).sum();
        let (px, mut out) = (code.lend(&mut x), [0f64]);
        code.run("dot", 5, 256, Compiled::n(5000).u64(px).u64(px).u64(code.lend(&mut out)));
        assert_eq!(out, [expected]);

        let (rows, columns) = (37, 101);
        let (mut a, mut x, mut y) = (whole(rows * columns), whole(columns), vec![0f32; rows]);
        let arguments = Compiled::n(rows).u32(columns as u32).u64(code.lend(&mut a)).u64(code.lend(&mut x));
        let mut launch = launch(10, 1, arguments.u64(code.lend(&mut y)).done());
        launch.block = [32, 4, 1];
        code.launch("gemv", launch);
        let row = |row: usize| a[row * columns..].iter().zip(&x).map(|(a, x)| a * x).sum::<f32>();
        assert_eq!(y, (0..rows).map(row).collect::<Vec<_>>());
    });
}

#[test]
fn gemm_and_transpose() {
    each("linear", |code| {
        let (m, n, k) = (35, 50, 41);
        let (mut a, mut b, mut c) = (whole(m * k), whole(k * n), vec![0f32; m * n]);
        let sizes = Compiled::n(m).u32(n as u32).u32(k as u32);
        let arguments = sizes.u64(code.lend(&mut a)).u64(code.lend(&mut b)).u64(code.lend(&mut c));
        let shape = launch(1, 1, arguments.done());
        code.launch("gemm", LaunchParameters { grid: [4, 3, 1], block: [16, 16, 1], ..shape });
        for row in 0..m {
            for column in 0..n {
                let expected: f32 = (0..k).map(|i| a[row * k + i] * b[i * n + column]).sum();
                assert_eq!(c[row * n + column], expected, "{row}, {column}");
            }
        }

        let (rows, columns) = (70, 45);
        let (mut from, mut to): (Vec<u32>, _) = (mixed(rows * columns).collect(), vec![0u32; rows * columns]);
        let arguments =
            Compiled::n(rows).u32(columns as u32).u64(code.lend(&mut from)).u64(code.lend(&mut to));
        let shape = launch(1, 1, arguments.done());
        code.launch("transpose", LaunchParameters { grid: [2, 3, 1], block: [32, 8, 1], ..shape });
        assert!((0..rows * columns).all(|i| to[i % columns * rows + i / columns] == from[i]));
    });
}
