//! Tests of simulations: bodies, fractals, stencils, and random numbers.

use super::*;

#[test]
fn bodies() {
    each("nature", |code| {
        let (mut bodies, mut force) = (fractional(4 * 128), vec![0f32; 3 * 128]);
        let arguments = Compiled::n(128).u64(code.lend(&mut bodies)).u64(code.lend(&mut force));
        code.run("bodies", 2, 64, arguments);
        let at = |i: usize| [0, 1, 2, 3].map(|axis| f64::from(bodies[4 * i + axis]));
        let expected = (0..128).flat_map(|i| {
            (0..128).fold([0.0; 3], |sum, j| {
                let by = [0, 1, 2].map(|axis| at(j)[axis] - at(i)[axis]);
                let distance = by.iter().map(|x| x * x).sum::<f64>() + 0.01;
                [0, 1, 2].map(|axis| sum[axis] + by[axis] * at(j)[3] * distance.powf(-1.5))
            })
        });
        close(&force, expected, 1e-4);
    });
}

#[test]
fn mandelbrot() {
    each("nature", |code| {
        let (width, height) = (50, 41);
        let mut out = vec![0u16; width * height];
        let arguments = Compiled::n(width).u32(height as u32).u64(code.lend(&mut out)).done();
        code.launch(
            "mandelbrot",
            LaunchParameters { grid: [4, 6, 1], block: [16, 8, 1], ..launch(1, 1, arguments) },
        );
        let steps = |column: usize, row: usize| {
            // A compiler may fuse the product and the sum here, which saves one rounding.
            let a = (3.0 * column as f64 / width as f64) - 2.0;
            let b = (3.0 * row as f64 / height as f64) - 1.5;
            let (mut x, mut y, mut steps) = (0.0f64, 0.0f64, 0u16);
            while steps < 200 && x.mul_add(x, y * y) < 4.0 {
                (x, y) = (x * x - y * y + a, 2.0 * x * y + b);
                steps += 1;
            }
            steps
        };
        let differing = (0..width * height).filter(|i| out[*i] != steps(i % width, i / width)).count();
        assert!(differing < 10, "{differing}");
    });
}

#[test]
fn stencil() {
    each("nature", |code| {
        let (width, height) = (45, 21);
        let (mut x, mut out) = (whole(width * height), vec![0f32; width * height]);
        let arguments =
            Compiled::n(width).u32(height as u32).u64(code.lend(&mut x)).u64(code.lend(&mut out)).done();
        code.launch(
            "stencil",
            LaunchParameters { grid: [2, 3, 1], block: [32, 8, 1], ..launch(1, 1, arguments) },
        );
        let at = |row: usize, column: usize| x[row.min(height - 1) * width + column.min(width - 1)];
        for (i, found) in out.iter().enumerate() {
            let (row, column) = (i / width, i % width);
            // An element at the border is its own neighbour on the outside.
            let (up, left) = (row.saturating_sub(1), column.saturating_sub(1));
            let around = at(up, column) + at(row + 1, column) + at(row, left) + at(row, column + 1);
            assert_eq!(*found, 0.5 * at(row, column) + 0.125 * around, "{row}, {column}");
        }
    });
}

/// Computes the next number of the generator that the kernels use.
fn random(state: &mut u64) -> u32 {
    let old = *state;
    *state = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (((old >> 18 ^ old) >> 27) as u32).rotate_right((old >> 59) as u32)
}

#[test]
fn random_numbers() {
    each("nature", |code| {
        let (mut out, mut uniform) = ([0u32; 64], [0f32; 64]);
        let arguments =
            Arguments::default().u64(99).u32(20).u64(code.lend(&mut out)).u64(code.lend(&mut uniform));
        code.run("random_numbers", 1, 64, arguments);
        for thread in 0..64 {
            let mut state = 99 + thread as u64;
            assert_eq!(out[thread], (0..20).fold(0, |all, _| all ^ random(&mut state)));
            assert_eq!(uniform[thread], random(&mut state) as f32 * 2.328_306_4e-10);
        }

        let mut inside = [0u64];
        code.run("inside_circle", 2, 96, Compiled::n(50).u64(code.lend(&mut inside)));
        let found = (0..192u64).flat_map(|thread| {
            let mut state = thread;
            (0..50).map(move |_| {
                let (x, y) = (u64::from(random(&mut state) >> 8), u64::from(random(&mut state) >> 8));
                u64::from(x * x + y * y < 1 << 48)
            })
        });
        assert_eq!(inside[0], found.sum());
    });
}
