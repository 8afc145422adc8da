//! Tests of integers and bits: wide arithmetic, checksums, ciphers, hash tables, and atomics.

use super::*;

#[test]
fn bits() {
    each("machine", |code| {
        let mut x: Vec<u32> = mixed(32).chain([0, u32::MAX, 1, 0x8000_0000]).collect();
        let mut out = vec![[0u32; 16]; 36];
        code.run("bits", 1, 36, Arguments::default().u64(code.lend(&mut x)).u64(code.lend(&mut out)));
        for (i, found) in out.iter().enumerate() {
            let (a, b) = (x[i], x[i ^ 1]);
            let both = u64::from(a) << 32 | u64::from(b);
            let bytes = |x: u32| x.to_le_bytes();
            let dot: i32 = (0..4).map(|n| i32::from(bytes(a)[n] as i8) * i32::from(bytes(b)[n])).sum();
            let added: Vec<u8> = (0..4).map(|n| bytes(a)[n].wrapping_add(bytes(b)[n])).collect();
            let expected = [
                a.count_ones(),
                a.leading_zeros(),
                a.reverse_bits(),
                if a == 0 { 0 } else { a.trailing_zeros() + 1 },
                ((u64::from(b) << 32 | u64::from(a)) << 5 >> 32) as u32,
                ((u64::from(b) << 32 | u64::from(a)) >> (b & 31)) as u32,
                a & 0xffff | b << 16,
                ((u64::from(a) * u64::from(b)) >> 32) as u32,
                ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32,
                (dot + 7) as u32,
                a.abs_diff(b).wrapping_add(3),
                u32::from_le_bytes(added.try_into().unwrap()),
                a / (b | 1),
                (a as i32).wrapping_rem((b | 1) as i32) as u32,
                ((i64::from(a as i32) + i64::from(b as i32) + 1) >> 1) as u32,
                (u64::from(a).wrapping_mul(u64::from(b))).count_ones(),
            ];
            assert_eq!(*found, expected, "{i}: {both:x}");
        }
    });
}

#[test]
fn wide_integers() {
    each("machine", |code| {
        let mut x: Vec<u64> = mixed(64).map(|bits| u64::from(bits) << 29 ^ u64::from(bits)).collect();
        x[0] = 0;
        x[1] = u64::MAX;
        let mut out = vec![[0u64; 7]; 64];
        code.run("wide", 1, 64, Arguments::default().u64(code.lend(&mut x)).u64(code.lend(&mut out)));
        for (i, found) in out.iter().enumerate() {
            let (a, b) = (x[i], x[i ^ 1]);
            let last = if b == 0 { 0 } else { b.trailing_zeros() + 1 };
            let expected = [
                a / (b | 1),
                a % (b | 1),
                (a as i64).wrapping_div((b | 1) as i64) as u64,
                (a as i64).wrapping_rem((b | 1) as i64) as u64,
                ((u128::from(a) * u128::from(b)) >> 64) as u64,
                u64::from(a.leading_zeros() + 64 * last),
                a << (b & 63) ^ ((a as i64) >> (b & 63)) as u64,
            ];
            assert_eq!(*found, expected, "{i}: {a:x} {b:x}");
        }
    });
}

#[test]
fn checksums_and_ciphers() {
    each("machine", |code| {
        let mut text: Vec<u8> = b"123456789".repeat(2);
        let mut out = [0u32; 2];
        code.run("crc", 1, 2, Compiled::n(9).u64(code.lend(&mut text)).u64(code.lend(&mut out)));
        assert_eq!(out, [0xcbf4_3926; 2]);

        // This is the example of section 2.3.2 of RFC 8439.
        let mut key: Vec<u32> = vec![0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
        key.extend((0..8).map(|i| 0x0302_0100u32.wrapping_add(0x0404_0404 * i)));
        key.extend([1, 0x0900_0000, 0x4a00_0000, 0]);
        let mut out = vec![0u32; 64];
        code.run("chacha", 2, 2, Arguments::default().u64(code.lend(&mut key)).u64(code.lend(&mut out)));
        assert_eq!(out[..4], [0xe4e7_f110, 0x1559_3bd1, 0x1fdd_0f50, 0xc471_20a3]);
        assert_eq!(out[12..16], [0xd19c_12b5, 0xb94e_16de, 0xe883_d0cb, 0x4e3c_50a2]);
        assert!(out[16..20] != out[..4]);
    });
}

#[test]
fn hash_table() {
    each("machine", |code| {
        let mut keys: Vec<u32> = mixed(500).map(|bits| bits % 200 + 1).collect();
        let (mut table, mut counts) = (vec![0u32; 256], vec![0u32; 256]);
        let arguments = Compiled::n(500).u32(256).u64(code.lend(&mut keys));
        code.run("insert", 4, 128, arguments.u64(code.lend(&mut table)).u64(code.lend(&mut counts)));
        for key in 1..=200 {
            let expected = keys.iter().filter(|found| **found == key).count();
            let slots: Vec<usize> = (0..256).filter(|slot| table[*slot] == key).collect();
            assert_eq!(slots.len(), usize::from(expected > 0));
            assert!(slots.iter().all(|slot| counts[*slot] as usize == expected));
        }
    });
}

#[test]
fn atomics() {
    each("machine", |code| {
        let n = 96u32;
        let mut a = [0, 1000, 0, 50, u32::MAX, 0, 0, 0, 0];
        let (mut b, mut c, mut d) = ([0u64, 0, 5], [0f32, 50.0], [0f64]);
        let (mut e, mut f) = ([0u16, 0], vec![0i32; n as usize + 1]);
        f[n as usize] = -1;
        b[1] = -2000i64 as u64;
        let arguments =
            Arguments::default().u64(code.lend(&mut a)).u64(code.lend(&mut b)).u64(code.lend(&mut c));
        let arguments = arguments.u64(code.lend(&mut d)).u64(code.lend(&mut e)).u64(code.lend(&mut f));
        code.run("atomics", 2, n / 2, arguments);
        let all = n * (n - 1) / 2;
        let xor = (0..n).fold(0, |all, i| all ^ i);
        // A decrement of 0 gives 9, so the last value repeats every ten decrements. After 96 it is the same
        // as after six: 4.
        assert_eq!(a, [all, 1000 - 2 * n, n - 1, 5, 0, 0x7f, xor, 6, 4]);
        assert_eq!(b, [u64::from(all) << 30, (i64::from(n) - 1001) as u64, 6]);
        assert_eq!((c, d, e[0]), ([48.0, 100.0 - 95.0], [24.0], 192));
        // Each value was returned by one exchange, except for the value that is left.
        f.sort();
        assert_eq!(f, (-1..n as i32).collect::<Vec<_>>());
    });
}
