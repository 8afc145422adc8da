//! Checks candle's kernels that reduce, normalise or sort rows.

use kernel_registry::LaunchConfig;

use super::tensors::{Check, EXACT, FLOAT, Number, Outcome, Try, info};

pub fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("fast_sum_f32", reduce::<f32, f32>(FLOAT, |row| row.iter().sum())),
        ("fast_max_i64", reduce::<i64, i64>(EXACT, |row| row.iter().copied().fold(f64::MIN, f64::max))),
        ("fast_min_f64", reduce::<f64, f64>(EXACT, |row| row.iter().copied().fold(f64::MAX, f64::min))),
        ("fast_argmax_f32", reduce::<f32, u32>(EXACT, |row| position(row, f64::gt))),
        ("fast_argmin_f64", reduce::<f64, u32>(EXACT, |row| position(row, f64::lt))),
        ("softmax_f32", Box::new(softmax)),
        ("rmsnorm_f32", Box::new(rmsnorm)),
        ("layernorm_f32", Box::new(layernorm)),
        ("rope_i_f32", Box::new(rope)),
        ("asort_asc_f32", sort::<f32>(false)),
        ("asort_desc_u32", sort::<u32>(true)),
    ]
}

fn position(row: &[f64], is_better: fn(&f64, &f64) -> bool) -> f64 {
    (1..row.len()).fold(0, |best, place| if is_better(&row[place], &row[best]) { place } else { best }) as f64
}

/// Checks a kernel in which one block reduces each row.
fn reduce<S: Number, T: Number>(tolerance: f64, f: fn(&[f64]) -> f64) -> Check {
    Box::new(move |t| {
        let [rows, columns] = [t.up_to(6), t.up_to(700)];
        let mut layout = t.layout(&[rows, columns]);
        // A stride of 0 would repeat a number, which would then have two positions.
        layout.strides[1] = layout.strides[1].max(1);
        let (count, x) = (layout.count(), t.numbers::<S>(layout.span(), -1e3..1e3));
        let (info, device) = (t.copy(&info(&[&layout]))?, t.copy(&x)?);
        let (mut out, block) = (t.copy(&vec![T::default(); rows])?, 32 << t.random.u32(0..5));
        t.launch(
            LaunchConfig::new([rows as u32, 1, 1], [block, 1, 1]),
            args![count, columns, 2_usize, &info, &device, &mut out],
        )?;
        let row = |row| (0..columns).map(|i| x[layout.at(&[row, i])].get()).collect::<Vec<_>>();
        // Positive and negative numbers may cancel in a sum, so the tolerance is relative to the size of the summands.
        let scale = if tolerance == EXACT { 1.0 } else { columns as f64 };
        t.compare(&out, (0..rows).map(|number| f(&row(number))), tolerance * scale)
    })
}

/// Returns the number of rows, the number of columns, and random numbers for all rows.
fn rows(t: &mut Try<'_>) -> (usize, usize, Vec<f32>) {
    let [rows, columns] = [t.up_to(6), t.up_to(300)];
    (rows, columns, t.numbers(rows * columns, -4.0..4.0))
}

fn softmax(t: &mut Try<'_>) -> Outcome {
    let (rows, columns, x) = rows(t);
    let (device, mut out) = (t.copy(&x)?, t.copy(&vec![0_f32; x.len()])?);
    t.launch(LaunchConfig::new([rows as u32, 1, 1], [1, 32, 1]), args![&device, &mut out, columns as i32])?;
    let expected = x.chunks(columns).flat_map(|row| {
        let sum: f64 = row.iter().map(|x| x.get().exp()).sum();
        row.iter().map(move |x| x.get().exp() / sum)
    });
    t.compare(&out, expected, FLOAT)
}

/// Returns the launch configuration of a kernel whose blocks normalise a row each, and the block's size: a warp, or 1024 threads as
/// candle uses for long rows.
fn normalising(t: &mut Try<'_>, rows: usize) -> (LaunchConfig, i32) {
    let block = [32, 1024][t.random.usize(0..2)];
    (LaunchConfig::new([rows as u32, 1, 1], [block, 1, 1]), block as i32)
}

fn rmsnorm(t: &mut Try<'_>) -> Outcome {
    let (rows, columns, x) = rows(t);
    let (alpha, (config, block)) = (t.numbers::<f32>(columns, 0.5..2.0), normalising(t, rows));
    let (device, device_alpha, mut out) = (t.copy(&x)?, t.copy(&alpha)?, t.copy(&vec![0_f32; x.len()])?);
    t.launch(config, args![&device, &mut out, &device_alpha, columns as i32, block, 1e-5_f32])?;
    let expected = x.chunks(columns).flat_map(|row| {
        let mean = row.iter().map(|x| x.get() * x.get()).sum::<f64>() / columns as f64;
        row.iter().zip(&alpha).map(move |(x, alpha)| x.get() * alpha.get() / (mean + 1e-5).sqrt())
    });
    t.compare(&out, expected, FLOAT)
}

fn layernorm(t: &mut Try<'_>) -> Outcome {
    let (rows, columns, x) = rows(t);
    let [alpha, beta] = [0, 1].map(|_| t.numbers::<f32>(columns, 0.5..2.0));
    let (config, block) = normalising(t, rows);
    let (device, mut out) = (t.copy(&x)?, t.copy(&vec![0_f32; x.len()])?);
    let (device_alpha, device_beta) = (t.copy(&alpha)?, t.copy(&beta)?);
    t.launch(config, args![&device, &mut out, &device_alpha, &device_beta, columns as i32, block, 0.01_f32])?;
    let expected = x.chunks(columns).flat_map(|row| {
        let mean = row.iter().map(|x| x.get()).sum::<f64>() / columns as f64;
        let variance = row.iter().map(|x| (x.get() - mean).powi(2)).sum::<f64>() / columns as f64;
        let scaled = row.iter().map(move |x| (x.get() - mean) / (variance + 0.01).sqrt());
        scaled.zip(&alpha).zip(&beta).map(|((x, alpha), beta)| x * alpha.get() + beta.get())
    });
    t.compare(&out, expected, 1e-4)
}

fn rope(t: &mut Try<'_>) -> Outcome {
    let (heads, pairs) = (t.up_to(5), t.up_to(100));
    let [x, angles] = [heads * pairs * 2, pairs].map(|count| t.numbers::<f32>(count, -3.0..3.0));
    let [cos, sin] = [f32::cos, f32::sin].map(|f| angles.iter().copied().map(f).collect::<Vec<_>>());
    let (device, mut out) = (t.copy(&x)?, t.copy(&vec![0_f32; x.len()])?);
    let (device_cos, device_sin, config) = (t.copy(&cos)?, t.copy(&sin)?, t.threads(heads * pairs));
    t.launch(
        config,
        args![&device, &device_cos, &device_sin, &mut out, heads as u32, 2 * pairs as u32, 0_u32],
    )?;
    let expected = x.chunks(2).enumerate().flat_map(|(pair, x)| {
        let (x, y) = (x[0].get(), x[1].get());
        let (cos, sin) = (cos[pair % pairs].get(), sin[pair % pairs].get());
        [x * cos - y * sin, x * sin + y * cos]
    });
    t.compare(&out, expected, FLOAT)
}

fn sort<T: Number>(descending: bool) -> Check {
    Box::new(move |t| {
        let [rows, columns] = [t.up_to(4), t.up_to(200)];
        let x = t.numbers::<T>(rows * columns, 0.0..1e6);
        let (device, mut out) = (t.copy(&x)?, t.copy(&vec![0_u32; x.len()])?);
        let padded = columns.next_power_of_two() as u32;
        let config = LaunchConfig::new([rows as u32, 1, 1], [padded.min(1 << t.random.u32(0..8)), 1, 1]);
        t.launch(config.shared(4 * padded), args![&device, &mut out, columns as i32, padded as i32])?;
        let expected = x.chunks(columns).flat_map(|row| {
            let mut order: Vec<usize> = (0..columns).collect();
            order.sort_by(|a, b| row[*a].get().total_cmp(&row[*b].get()));
            if descending {
                order.reverse();
            }
            order.into_iter().map(|place| place as f64)
        });
        t.compare(&out, expected, EXACT)
    })
}
