//! Checks candle's convolution, pooling and upsampling kernels against the CPU.

use super::tensors::{Check, EXACT, FLOAT, Layout, Number, Outcome, Try, all, info};

pub fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("conv1d_f32", Box::new(conv1d)),
        ("conv2d_f32", Box::new(conv2d)),
        ("im2col_f32", Box::new(im2col)),
        ("conv_transpose1d_f32", Box::new(conv_transpose1d)),
        ("max_pool2d_f32", pool(|window| window.iter().copied().fold(f64::MIN, f64::max))),
        ("avg_pool2d_f32", pool(|window| window.iter().sum::<f64>() / window.len() as f64)),
        ("upsample_nearest2d_f32", Box::new(upsample)),
    ]
}

/// Returns the dimensions and strides of several tensors, one tensor after the other.
fn infos(layouts: &[&Layout]) -> Vec<usize> {
    layouts.iter().flat_map(|layout| layout.dims.iter().chain(&layout.strides)).copied().collect()
}

fn conv1d(t: &mut Try<'_>) -> Outcome {
    let [batch, from, to, size] = [t.up_to(3), t.up_to(4), t.up_to(4), t.up_to(4)];
    let [length, stride, padding] = [size + t.up_to(20), t.up_to(3), t.up_to(3) - 1];
    let layout = t.layout(&[batch, from, length]);
    let kernel = Layout::contiguous(&[to, from, size]);
    let out_length = (length + 2 * padding - size) / stride + 1;
    let count = batch * to * out_length;
    let [x, k] = [&layout, &kernel].map(|layout| t.numbers::<f32>(layout.span(), -2.0..2.0));
    let (info, device, device_k) = (t.copy(&infos(&[&layout, &kernel]))?, t.copy(&x)?, t.copy(&k)?);
    let (mut out, config) = (t.copy(&vec![0_f32; count])?, t.threads(count));
    t.launch(
        config,
        args![layout.count(), out_length, stride, padding, 1_usize, &info, &device, &device_k, &mut out],
    )?;
    let expected = (0..count).map(|i| {
        let (b, channel, place) = (i / (to * out_length), i / out_length % to, i % out_length);
        let products = (0..from).flat_map(|c| (0..size).map(move |o| (c, o))).filter_map(|(c, o)| {
            let place = (stride * place + o).checked_sub(padding).filter(|place| *place < length)?;
            Some(x[layout.at(&[b, c, place])].get() * k[kernel.at(&[channel, c, o])].get())
        });
        products.sum()
    });
    t.compare(&out, expected, 1e-4)
}

fn conv2d(t: &mut Try<'_>) -> Outcome {
    let [batch, from, to] = [t.up_to(2), t.up_to(3), t.up_to(3)];
    let [kh, kw] = [t.up_to(3), t.up_to(3)];
    let [h, w, stride, padding, dilation] =
        [2 * kh + t.up_to(7), 2 * kw + t.up_to(7), t.up_to(2), t.up_to(3) - 1, t.up_to(2)];
    let (layout, kernel) = (t.layout(&[batch, from, h, w]), Layout::contiguous(&[to, from, kh, kw]));
    let out_size = |size: usize, k: usize| (size + 2 * padding - dilation * (k - 1) - 1) / stride + 1;
    let (oh, ow) = (out_size(h, kh), out_size(w, kw));
    let count = batch * to * oh * ow;
    let [x, k] = [&layout, &kernel].map(|layout| t.numbers::<f32>(layout.span(), -2.0..2.0));
    let (info, device, device_k) = (t.copy(&infos(&[&layout, &kernel]))?, t.copy(&x)?, t.copy(&k)?);
    let (mut out, config) = (t.copy(&vec![0_f32; count])?, t.threads(count));
    t.launch(
        config,
        args![layout.count(), ow, oh, stride, padding, dilation, &info, &device, &device_k, &mut out],
    )?;
    let places = Layout::contiguous(&[from, kh, kw]);
    let expected = (0..count).map(|i| {
        let (b, channel, y, column) = (i / (to * oh * ow), i / (oh * ow) % to, i / ow % oh, i % ow);
        let inside = |out: usize, offset: usize, size: usize| {
            (stride * out + offset * dilation).checked_sub(padding).filter(|place| *place < size)
        };
        let products = (0..places.count()).filter_map(|j| {
            let (c, dy, dx) = (j / (kh * kw), j / kw % kh, j % kw);
            let (y, column) = (inside(y, dy, h)?, inside(column, dx, w)?);
            Some(x[layout.at(&[b, c, y, column])].get() * k[kernel.at(&[channel, c, dy, dx])].get())
        });
        products.sum()
    });
    t.compare(&out, expected, 1e-4)
}

fn im2col(t: &mut Try<'_>) -> Outcome {
    let [batch, channels, kh, kw] = [t.up_to(2), t.up_to(3), t.up_to(3), t.up_to(3)];
    let [h, w, stride, padding] = [kh + t.up_to(7), kw + t.up_to(7), t.up_to(2), t.up_to(3) - 1];
    let layout = t.layout(&[batch, channels, h, w]);
    let out_size = |size: usize, k: usize| (size + 2 * padding - k) / stride + 1;
    let (oh, ow) = (out_size(h, kh), out_size(w, kw));
    let count = batch * oh * ow * channels * kh * kw;
    let x = t.numbers::<f32>(layout.span(), all());
    let (info, device) = (t.copy(&info(&[&layout]))?, t.copy(&x)?);
    let (mut out, config) = (t.copy(&vec![9_f32; count])?, t.threads(count));
    t.launch(config, args![count, oh, ow, kh, kw, stride, padding, 1_usize, &info, &device, &mut out])?;
    let expected = (0..count).map(|i| {
        let (dx, dy, c) = (i % kw, i / kw % kh, i / (kw * kh) % channels);
        let i = i / (kw * kh * channels);
        let (column, y, b) = (i % ow, i / ow % oh, i / (ow * oh));
        let inside = |out: usize, offset: usize, size: usize| {
            (stride * out + offset).checked_sub(padding).filter(|place| *place < size)
        };
        match (inside(y, dy, h), inside(column, dx, w)) {
            (Some(y), Some(column)) => x[layout.at(&[b, c, y, column])].get(),
            _ => 0.0,
        }
    });
    t.compare(&out, expected, EXACT)
}

fn conv_transpose1d(t: &mut Try<'_>) -> Outcome {
    let [batch, from, to, size] = [t.up_to(3), t.up_to(3), t.up_to(3), t.up_to(4)];
    let [length, stride, dilation] = [t.up_to(20), t.up_to(3), t.up_to(2)];
    let layout = t.layout(&[batch, from, length]);
    let kernel = Layout::contiguous(&[from, to, size]);
    let out_length = (length - 1) * stride + dilation * (size - 1) + 1;
    let count = batch * to * out_length;
    let [x, k] = [&layout, &kernel].map(|layout| t.numbers::<f32>(layout.span(), -2.0..2.0));
    let (info, device, device_k) = (t.copy(&infos(&[&layout, &kernel]))?, t.copy(&x)?, t.copy(&k)?);
    let (mut out, config) = (t.copy(&vec![0_f32; count])?, t.threads(count));
    t.launch(
        config,
        args![
            layout.count(),
            out_length,
            stride,
            0_usize,
            0_usize,
            dilation,
            &info,
            &device,
            &device_k,
            &mut out
        ],
    )?;
    let mut expected = vec![0.0; count];
    let from_to = Layout::contiguous(&[batch, from, length, to, size]);
    for i in 0..from_to.count() {
        let (o, channel) = (i % size, i / size % to);
        let i = i / (size * to);
        let (place, c, b) = (i % length, i / length % from, i / (length * from));
        expected[(b * to + channel) * out_length + place * stride + o * dilation] +=
            x[layout.at(&[b, c, place])].get() * k[kernel.at(&[c, channel, o])].get();
    }
    t.compare(&out, expected, 1e-4)
}

fn pool(f: fn(&[f64]) -> f64) -> Check {
    Box::new(move |t| {
        let [batch, channels, kw, kh] = [t.up_to(2), t.up_to(3), t.up_to(3), t.up_to(3)];
        let [w, h, sw, sh] = [kw + t.up_to(8), kh + t.up_to(8), t.up_to(3), t.up_to(3)];
        let layout = t.layout(&[batch, channels, w, h]);
        let (ow, oh) = ((w - kw) / sw + 1, (h - kh) / sh + 1);
        let (count, x) = (batch * channels * ow * oh, t.numbers::<f32>(layout.span(), all()));
        let (info, device) = (t.copy(&info(&[&layout]))?, t.copy(&x)?);
        let (mut out, config) = (t.copy(&vec![0_f32; count])?, t.threads(count));
        t.launch(config, args![layout.count(), kw, kh, sw, sh, &info, &device, &mut out])?;
        let expected = (0..count).map(|i| {
            let (b, c, a, d) = (i / (ow * oh * channels), i / (ow * oh) % channels, i / oh % ow, i % oh);
            let window = (0..kw * kh).map(|j| [b, c, sw * a + j / kh, sh * d + j % kh]);
            f(&window.map(|place| x[layout.at(&place)].get()).collect::<Vec<_>>())
        });
        t.compare(&out, expected, FLOAT)
    })
}

fn upsample(t: &mut Try<'_>) -> Outcome {
    let [batch, channels, w, h] = [t.up_to(2), t.up_to(3), t.up_to(9), t.up_to(9)];
    let [ow, oh] = [t.up_to(20), t.up_to(20)];
    let layout = t.layout(&[batch, channels, w, h]);
    let (count, x) = (batch * channels * ow * oh, t.numbers::<f32>(layout.span(), all()));
    let [scale_w, scale_h] = [(w, ow), (h, oh)].map(|(from, to)| from as f64 / to as f64);
    let (info, device) = (t.copy(&info(&[&layout]))?, t.copy(&x)?);
    let (mut out, config) = (t.copy(&vec![0_f32; count])?, t.threads(count));
    t.launch(config, args![ow, oh, scale_w, scale_h, &info, &device, &mut out])?;
    let expected = (0..count).map(|i| {
        let (b, c, a, d) = (i / (ow * oh * channels), i / (ow * oh) % channels, i / oh % ow, i % oh);
        let near = |place: usize, scale: f64, size: usize| ((place as f64 * scale) as usize).min(size - 1);
        x[layout.at(&[b, c, near(a, scale_w, w), near(d, scale_h, h)])].get()
    });
    t.compare(&out, expected, EXACT)
}
