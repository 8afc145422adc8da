//! Checks candle's kernels that compute each element from the elements at the same index.

use std::ops::Range;

use super::tensors::{Check, EXACT, FLOAT, Number, Outcome, Try, all, info};

/// The relative error of kernels that round to half precision.
const HALF: f64 = 2e-3;

/// Computes the error function by its power series.
fn erf(x: f64) -> f64 {
    let term = |term: f64, n: f64| -term * x * x / n;
    let mut sum = 0.0;
    let mut power = x;
    for n in 0..200 {
        sum += power / f64::from(2 * n + 1);
        power = term(power, f64::from(n + 1));
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

pub fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("usqrt_f32", unary::<f32>(0.0..1e6, FLOAT, f64::sqrt)),
        ("uexp_f32", unary::<f32>(-20.0..10.0, FLOAT, f64::exp)),
        ("uexp_f64", unary::<f64>(-20.0..10.0, 1e-12, f64::exp)),
        ("ulog_f32", unary::<f32>(1e-6..1e6, FLOAT, f64::ln)),
        ("usin_f32", unary::<f32>(all(), FLOAT, f64::sin)),
        ("ucos_f64", unary::<f64>(all(), 1e-12, f64::cos)),
        ("utanh_f32", unary::<f32>(-5.0..5.0, FLOAT, f64::tanh)),
        ("uerf_f32", unary::<f32>(-3.0..3.0, FLOAT, erf)),
        ("urecip_f32", unary::<f32>(0.1..9.0, FLOAT, f64::recip)),
        ("uabs_f32", unary::<f32>(all(), EXACT, f64::abs)),
        ("uneg_f16", unary::<u16>(all(), EXACT, |x| -x)),
        ("usqr_f16", unary::<u16>(all(), HALF, |x| x * x)),
        ("uround_f32", unary::<f32>(all(), EXACT, f64::round)),
        ("ufloor_f64", unary::<f64>(all(), EXACT, f64::floor)),
        ("uceil_f16", unary::<u16>(all(), EXACT, f64::ceil)),
        ("urelu_f32", unary::<f32>(all(), EXACT, |x| x.max(0.0))),
        ("usilu_f32", unary::<f32>(all(), FLOAT, |x| x / (1.0 + (-x).exp()))),
        ("ugelu_erf_f32", unary::<f32>(-4.0..4.0, FLOAT, |x| 0.5 * x * (1.0 + erf(x / 2_f64.sqrt())))),
        ("usign_f32", unary::<f32>(all(), EXACT, f64::signum)),
        ("ucopy_u8", unary::<u8>(0.0..256.0, EXACT, |x| x)),
        ("upowf_f32", with_parameter(0.01..9.0, |x, y| x.powf(y))),
        ("uelu_f32", with_parameter(-5.0..5.0, |x, a| if x > 0.0 { x } else { a * x.exp_m1() })),
        ("badd_f32", binary::<f32, f32>(all(), FLOAT, |x, y| x + y)),
        ("bsub_f64", binary::<f64, f64>(all(), EXACT, |x, y| x - y)),
        ("bmul_u32", binary::<u32, u32>(0.0..65e3, EXACT, |x, y| x * y)),
        ("bdiv_i64", binary::<i64, i64>(1.0..9e5, EXACT, |x, y| (x / y).trunc())),
        ("bdiv_f32", binary::<f32, f32>(1.0..9.0, FLOAT, |x, y| x / y)),
        ("badd_f16", binary::<u16, u16>(all(), HALF, |x, y| x + y)),
        ("bmaximum_f32", binary::<f32, f32>(all(), EXACT, f64::max)),
        ("bminimum_u8", binary::<u8, u8>(0.0..256.0, EXACT, f64::min)),
        ("eq_u8", binary::<u8, u8>(0.0..4.0, EXACT, |x, y| f64::from(x == y))),
        ("lt_f32", binary::<f32, u8>(all(), EXACT, |x, y| f64::from(x < y))),
        ("ge_i64", binary::<i64, u8>(-4.0..4.0, EXACT, |x, y| f64::from(x >= y))),
        ("affine_f32", affine::<f32>(FLOAT)),
        ("affine_f64", affine::<f64>(1e-12)),
        ("affine_u32", affine::<u32>(EXACT)),
        ("cast_f32_f16", cast::<f32, u16>(all(), HALF, |x| x)),
        ("cast_f16_f32", cast::<u16, f32>(all(), EXACT, |x| x)),
        ("cast_u32_f32", cast::<u32, f32>(0.0..4e9, FLOAT, |x| x)),
        ("cast_f64_i64", cast::<f64, i64>(-1e12..1e12, EXACT, f64::trunc)),
        ("cast_i64_u8", cast::<i64, u8>(0.0..1e6, EXACT, |x| x % 256.0)),
        ("fill_f32", Box::new(fill)),
        ("const_set_i64", Box::new(const_set)),
        ("copy2d_u32", Box::new(copy2d)),
        ("where_u8_f32", choose::<u8, f32>()),
        ("where_i64_f64", choose::<i64, f64>()),
    ]
}

fn unary<T: Number>(range: Range<f64>, tolerance: f64, f: fn(f64) -> f64) -> Check {
    cast::<T, T>(range, tolerance, f)
}

/// Checks a kernel that maps each number to one number, which may have another type.
fn cast<S: Number, T: Number>(range: Range<f64>, tolerance: f64, f: fn(f64) -> f64) -> Check {
    Box::new(move |t| {
        let dims = t.dims();
        let layout = t.layout(&dims);
        let (count, x) = (layout.count(), t.numbers::<S>(layout.span(), range.clone()));
        let (info, device) = (t.copy(&info(&[&layout]))?, t.copy(&x)?);
        let (mut out, config) = (t.copy(&vec![T::default(); count])?, t.looping(count));
        t.launch(config, args![count, dims.len(), &info, &device, &mut out])?;
        t.compare(&out, (0..count).map(|i| f(x[layout.place(i)].get())), tolerance)
    })
}

fn with_parameter(range: Range<f64>, f: fn(f64, f64) -> f64) -> Check {
    Box::new(move |t| {
        let dims = t.dims();
        let layout = t.layout(&dims);
        let (count, x) = (layout.count(), t.numbers::<f32>(layout.span(), range.clone()));
        let parameter = t.numbers::<f32>(1, 0.5..3.0)[0];
        let (info, device) = (t.copy(&info(&[&layout]))?, t.copy(&x)?);
        let (mut out, config) = (t.copy(&vec![0_f32; count])?, t.looping(count));
        t.launch(config, args![count, dims.len(), &info, parameter, &device, &mut out])?;
        t.compare(&out, (0..count).map(|i| f(x[layout.place(i)].get(), parameter.get())), FLOAT)
    })
}

fn binary<S: Number, T: Number>(range: Range<f64>, tolerance: f64, f: fn(f64, f64) -> f64) -> Check {
    Box::new(move |t| {
        let dims = t.dims();
        let [a, b] = [t.layout(&dims), t.layout(&dims)];
        let count = a.count();
        let [x, y] = [&a, &b].map(|layout| t.numbers::<S>(layout.span(), range.clone()));
        let (info, device_x, device_y) = (t.copy(&info(&[&a, &b]))?, t.copy(&x)?, t.copy(&y)?);
        let (mut out, config) = (t.copy(&vec![T::default(); count])?, t.looping(count));
        t.launch(config, args![count, dims.len(), &info, &device_x, &device_y, &mut out])?;
        let expected = (0..count).map(|i| f(x[a.place(i)].get(), y[b.place(i)].get()));
        t.compare(&out, expected, tolerance)
    })
}

fn affine<T: Number>(tolerance: f64) -> Check {
    Box::new(move |t| {
        let dims = t.dims();
        let layout = t.layout(&dims);
        let (count, x) = (layout.count(), t.numbers::<T>(layout.span(), 0.0..1000.0));
        let [mul, add] = [0, 1].map(|_| t.numbers::<T>(1, 0.0..50.0)[0]);
        let (info, device) = (t.copy(&info(&[&layout]))?, t.copy(&x)?);
        let (mut out, config) = (t.copy(&vec![T::default(); count])?, t.looping(count));
        t.launch(config, args![count, dims.len(), &info, &device, &mut out, mul, add])?;
        let expected = (0..count).map(|i| x[layout.place(i)].get() * mul.get() + add.get());
        t.compare(&out, expected, tolerance)
    })
}

fn fill(t: &mut Try<'_>) -> Outcome {
    let (count, value) = (t.up_to(1000), t.numbers::<f32>(1, all())[0]);
    let (mut out, config) = (t.copy(&vec![0_f32; count])?, t.looping(count));
    t.launch(config, args![&mut out, value, count])?;
    t.compare(&out, vec![value.get(); count], EXACT)
}

fn const_set(t: &mut Try<'_>) -> Outcome {
    let dims = t.dims();
    let layout = t.layout(&dims);
    let (count, value) = (layout.count(), t.numbers::<i64>(1, -1e9..1e9)[0]);
    let info = t.copy(&info(&[&layout]))?;
    let (mut out, config) = (t.copy(&vec![5_i64; layout.span()])?, t.looping(count));
    t.launch(config, args![count, dims.len(), &info, value, &mut out])?;
    let mut expected = vec![5.0; layout.span()];
    (0..count).for_each(|i| expected[layout.place(i)] = value.get());
    t.compare(&out, expected, EXACT)
}

fn copy2d(t: &mut Try<'_>) -> Outcome {
    let [rows, columns] = [t.up_to(20) as u32, t.up_to(30) as u32];
    let [from, to] = [0, 1].map(|_| columns + t.up_to(5) as u32);
    let x = t.numbers::<u32>((rows * from) as usize, 0.0..4e9);
    let (device, mut out) = (t.copy(&x)?, t.copy(&vec![7_u32; (rows * to) as usize])?);
    let config = t.threads((rows * columns) as usize);
    t.launch(config, args![&device, &mut out, rows, columns, from, to])?;
    let expected = (0..rows * to).map(|i| {
        let (row, column) = (i / to, i % to);
        if column < columns { x[(row * from + column) as usize].get() } else { 7.0 }
    });
    t.compare(&out, expected, EXACT)
}

fn choose<I: Number, T: Number>() -> Check {
    Box::new(|t| {
        let dims = t.dims();
        let layouts = [t.layout(&dims), t.layout(&dims), t.layout(&dims)];
        let [a, b, c] = &layouts;
        let (count, ids) = (a.count(), t.numbers::<I>(a.span(), 0.0..2.0));
        let [x, y] = [b, c].map(|layout| t.numbers::<T>(layout.span(), all()));
        let (info, device_ids) = (t.copy(&info(&[a, b, c]))?, t.copy(&ids)?);
        let (device_x, device_y) = (t.copy(&x)?, t.copy(&y)?);
        let (mut out, config) = (t.copy(&vec![T::default(); count])?, t.looping(count));
        t.launch(config, args![count, dims.len(), &info, &device_ids, &device_x, &device_y, &mut out])?;
        let chosen = |i| {
            let is_first = ids[a.place(i)].get() != 0.0;
            if is_first { x[b.place(i)].get() } else { y[c.place(i)].get() }
        };
        t.compare(&out, (0..count).map(chosen), EXACT)
    })
}
