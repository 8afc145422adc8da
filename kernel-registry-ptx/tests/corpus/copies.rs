//! Tests of asynchronous copies, of accesses of several widths, and of conversions.

use super::*;

#[test]
fn staged_copies() {
    each("copies", |code| {
        let (mut x, mut out) = (whole(4 * 256), vec![0f32; 4 * 256]);
        code.run("staged", 1, 64, Arguments::default().u64(code.lend(&mut x)).u64(code.lend(&mut out)));
        for (i, found) in out.chunks(4).enumerate() {
            let from = &x[4 * (i / 64 * 64 + 63 - i % 64)..][..4];
            assert_eq!(found, [from[0] + 1.0, from[1], from[2], from[3] * 2.0], "{i}");
        }
    });
}

#[test]
fn widths() {
    each("copies", |code| {
        let mut bits: Vec<u32> = mixed(128).collect();
        let (a, b, c, d) =
            (bits[..32].to_vec(), bits[32..64].to_vec(), bits[64..96].to_vec(), bits[96..].to_vec());
        let mut bytes: Vec<i8> = a.iter().map(|bits| *bits as i8).collect();
        let mut shorts: Vec<u16> = b.iter().map(|bits| *bits as u16).collect();
        let bits_at = code.lend(&mut bits);
        let mut out = [0i64; 32];
        let arguments = Arguments::default().u64(code.lend(&mut bytes)).u64(code.lend(&mut shorts));
        let arguments = arguments.u64(bits_at + 256).u64(bits_at + 384).u64(code.lend(&mut out));
        code.run("widths", 1, 32, arguments);
        for i in 0..32 {
            let parts = i64::from(c[i] as i16) - i64::from((c[i] >> 16) as i16);
            let [x, y, z, w] = d[i].to_le_bytes().map(i64::from);
            let value = (i64::from(a[i] as i8) * 1000 + i64::from(b[i] as u16)) * 1000 + parts;
            assert_eq!(out[i], value * 1000 + x + 2 * y + 3 * z + 4 * w, "{i}");
        }
    });
}

#[test]
fn conversions() {
    each("copies", |code| {
        let mut x = [0.5f64, 1.5, -1.5, -0.25, 100.75, -100.75, 127.0, 1e6, 12345.5, -99999.125];
        let mut out = [[0i32; 10]; 10];
        code.run("conversions", 1, 10, Arguments::default().u64(code.lend(&mut x)).u64(code.lend(&mut out)));
        for (x, found) in x.iter().zip(out) {
            let near = x.round_ties_even() as i32;
            let (down, up, cut) = (x.floor() as i32, x.ceil() as i32, *x as i32);
            let float = (((cut as i64) << 20) as f32).to_bits() as i32;
            let expected = [
                near,
                down,
                up,
                cut,
                i32::from(cut as u8),
                i32::from(cut as i8),
                near,
                cut,
                near + down + up + cut,
                float,
            ];
            assert_eq!(found, expected, "{x}");
        }
    });
}
