//! Checks candle's kernels that gather elements by index, or add elements by index.

use super::tensors::{Check, EXACT, FLOAT, Layout, Number, Outcome, Try, all, info};

pub fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("is_u32_f32", Box::new(index_select)),
        ("gather_i64_f32", Box::new(gather)),
        ("ia_u32_f32", Box::new(index_add)),
        ("sa_i64_f64", Box::new(scatter_add)),
    ]
}

/// Returns random sizes: the product of the dimensions before the indexed one, the indexed dimension, the product of the dimensions
/// after it, and the number of chosen elements.
fn around(t: &mut Try<'_>) -> [usize; 4] {
    [t.up_to(5), t.up_to(12), t.up_to(9), t.up_to(7)]
}

fn index_select(t: &mut Try<'_>) -> Outcome {
    let [left, size, chosen, right] = around(t);
    let layout = t.layout(&[left, size, right]);
    let mut ids = t.numbers::<u32>(chosen, 0.0..size as f64);
    // The largest number means that no element is chosen.
    ids[t.random.usize(0..chosen)] = u32::MAX;
    let (count, x) = (left * chosen * right, t.numbers::<f32>(layout.span(), all()));
    let (info, device_ids, device) = (t.copy(&info(&[&layout]))?, t.copy(&ids)?, t.copy(&x)?);
    let (mut out, config) = (t.copy(&vec![1_f32; count])?, t.looping(count));
    t.launch(
        config,
        args![count, 3_usize, &info, &device_ids, &device, &mut out, left, size, chosen, right],
    )?;
    let expected = (0..count).map(|i| match ids[i / right % chosen] {
        u32::MAX => 0.0,
        id => x[layout.at(&[i / (chosen * right), id as usize, i % right])].get(),
    });
    t.compare(&out, expected, EXACT)
}

fn gather(t: &mut Try<'_>) -> Outcome {
    let [left, size, chosen, right] = around(t);
    let count = left * chosen * right;
    let (ids, x) = (t.numbers::<i64>(count, 0.0..size as f64), t.numbers::<f32>(left * size * right, all()));
    let (device_ids, device) = (t.copy(&ids)?, t.copy(&x)?);
    let (mut out, config) = (t.copy(&vec![1_f32; count])?, t.looping(count));
    t.launch(config, args![count, &device_ids, &device, &mut out, left, size, chosen, right])?;
    let source = Layout::contiguous(&[left, size, right]);
    let expected =
        (0..count).map(|i| x[source.at(&[i / (right * chosen), ids[i] as usize, i % right])].get());
    t.compare(&out, expected, EXACT)
}

fn index_add(t: &mut Try<'_>) -> Outcome {
    let [left, size, chosen, right] = around(t);
    let ids = t.numbers::<u32>(chosen, 0.0..size as f64);
    let (x, y) =
        (t.numbers::<f32>(left * chosen * right, all()), t.numbers::<f32>(left * size * right, all()));
    let (device_ids, device, mut out) = (t.copy(&ids)?, t.copy(&x)?, t.copy(&y)?);
    let config = t.looping(left * right);
    t.launch(config, args![&device_ids, chosen, &device, &mut out, left, chosen, size, right])?;
    let (from, to) = (Layout::contiguous(&[left, chosen, right]), Layout::contiguous(&[left, size, right]));
    let mut expected: Vec<f64> = y.iter().map(|y| y.get()).collect();
    for i in 0..from.count() {
        let id = ids[i / right % chosen] as usize;
        expected[to.at(&[i / (chosen * right), id, i % right])] += x[i].get();
    }
    t.compare(&out, expected, FLOAT)
}

fn scatter_add(t: &mut Try<'_>) -> Outcome {
    let [left, size, chosen, right] = around(t);
    let count = left * chosen * right;
    let ids = t.numbers::<i64>(count, 0.0..size as f64);
    let (x, y) = (t.numbers::<f64>(count, all()), t.numbers::<f64>(left * size * right, all()));
    let (device_ids, device, mut out) = (t.copy(&ids)?, t.copy(&x)?, t.copy(&y)?);
    let config = t.looping(left * right);
    t.launch(config, args![&device_ids, &device, &mut out, left, chosen, size, right])?;
    let to = Layout::contiguous(&[left, size, right]);
    let mut expected = y.clone();
    (0..count).for_each(|i| expected[to.at(&[i / (chosen * right), ids[i] as usize, i % right])] += x[i]);
    t.compare(&out, expected, 1e-12)
}
