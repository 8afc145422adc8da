//! Tests of reductions, scans, filters, histograms and sorting.

use super::*;

#[test]
fn sums() {
    each("collect", |code| {
        let (mut x, mut out) = (whole(3001), [0f32; 4]);
        code.run("sum_floats", 4, 160, Compiled::n(3001).u64(code.lend(&mut x)).u64(code.lend(&mut out)));
        assert_eq!(out.iter().sum::<f32>(), x.iter().sum());
        let (mut x, mut out) = (x.iter().map(|x| f64::from(*x) / 16.0).collect::<Vec<_>>(), [0f64; 4]);
        code.run("sum_doubles", 4, 160, Compiled::n(3001).u64(code.lend(&mut x)).u64(code.lend(&mut out)));
        assert_eq!(out.iter().sum::<f64>(), x.iter().sum());
        let mut x: Vec<i64> = mixed(3001).map(|bits| i64::from(bits) << 20).collect();
        let mut out = [0i64; 4];
        code.run("sum_longs", 4, 160, Compiled::n(3001).u64(code.lend(&mut x)).u64(code.lend(&mut out)));
        assert_eq!(out.iter().sum::<i64>(), x.iter().sum());
    });
}

#[test]
fn tiles_and_reductions() {
    each("collect", |code| {
        let mut x: Vec<i32> = mixed(128).map(|bits| bits as i32 >> 8).collect();
        let (px, mut out) = (code.lend(&mut x), [0i32; 32]);
        code.run("sum_of_tiles", 2, 64, Arguments::default().u64(px).u64(code.lend(&mut out)));
        let tiles = x.chunks(8).flat_map(|tile| [tile.iter().sum(), *tile.iter().max().unwrap()]);
        assert_eq!(out.to_vec(), tiles.collect::<Vec<i32>>());

        let mut out = [[0u32; 6]; 64];
        code.run("reduced", 1, 64, Arguments::default().u64(px).u64(code.lend(&mut out)));
        for (thread, found) in out.iter().enumerate() {
            let warp = &x[thread / 32 * 32..][..32];
            let part = if thread % 32 < 10 { &warp[..10] } else { &warp[10..] };
            let bits = |with: fn(u32, u32) -> u32| part.iter().map(|x| *x as u32).reduce(with).unwrap();
            let most = *part.iter().max().unwrap() as u32;
            let expected = [
                bits(u32::wrapping_add),
                bits(u32::min),
                most,
                bits(|a, b| a & b),
                bits(|a, b| a | b),
                bits(|a, b| a ^ b),
            ];
            assert_eq!(*found, expected, "{thread}");
        }
    });
}

#[test]
fn scans_and_filters() {
    each("collect", |code| {
        let (mut x, mut out): (Vec<u32>, _) = (mixed(200).collect(), vec![0u32; 200]);
        let arguments = Arguments::default().u64(code.lend(&mut x)).u64(code.lend(&mut out)).done();
        code.launch("scan", LaunchParameters { dynamic_shared: 800, ..launch(2, 100, arguments) });
        for (block, found) in x.chunks(100).zip(out.chunks(100)) {
            let sums = block.iter().scan(0u32, |sum, x| {
                *sum = sum.wrapping_add(*x);
                Some(*sum)
            });
            assert_eq!(found, sums.collect::<Vec<_>>());
        }

        let mut x: Vec<i32> = mixed(1000).map(|bits| bits as i32).collect();
        let (mut out, mut count) = (vec![0i32; 1000], [0u32]);
        let arguments =
            Compiled::n(1000).u64(code.lend(&mut x)).u64(code.lend(&mut out)).u64(code.lend(&mut count));
        code.run("filter", 4, 256, arguments);
        let mut odd: Vec<i32> = x.iter().copied().filter(|x| x % 2 != 0).collect();
        out.truncate(count[0] as usize);
        odd.sort();
        out.sort();
        assert_eq!(out, odd);
    });
}

#[test]
fn histograms_and_keys() {
    each("collect", |code| {
        let (mut x, mut out): (Vec<u8>, _) = (mixed(5000).map(|bits| bits as u8).collect(), vec![0u32; 256]);
        code.run("histogram", 3, 128, Compiled::n(5000).u64(code.lend(&mut x)).u64(code.lend(&mut out)));
        assert!(
            (0..256).all(|byte| out[byte] as usize == x.iter().filter(|x| usize::from(**x) == byte).count())
        );

        let mut keys: Vec<u32> = (0..32).collect();
        let (mut lanes, mut all) = ([0u32; 32], [0i32; 32]);
        let arguments = Arguments::default().u64(code.lend(&mut keys)).u64(code.lend(&mut lanes));
        code.run("same_keys", 1, 32, arguments.u64(code.lend(&mut all)));
        let same = |lane: u32| {
            (0..32).filter(|other| other % 5 == lane % 5).fold(0u32, |set, other| set | 1 << other)
        };
        assert!((0..32).all(|lane| lanes[lane as usize] == !same(lane)));
        assert_eq!(all, [1 + 16 + 100; 32]);
    });
}

#[test]
fn bitonic_sort() {
    each("collect", |code| {
        let mut keys: Vec<u32> = mixed(512).collect();
        let mut expected = keys.clone();
        expected.sort();
        code.run("bitonic", 1, 512, Arguments::default().u64(code.lend(&mut keys)));
        assert_eq!(keys, expected);
    });
}

#[test]
fn blocks_that_wait_for_each_other() {
    each("collect", |code| {
        let (mut x, mut parts, mut out) = (whole(1000), [0f32; 7], [0f32]);
        let (px, pp) = (code.lend(&mut x), code.lend(&mut parts));
        for _ in 0..2 {
            code.run("last_block", 7, 32, Compiled::n(1000).u64(px).u64(pp).u64(code.lend(&mut out)));
            assert_eq!(out[0], x.iter().sum::<f32>());
            out[0] = 0.0;
        }

        let (mut a, mut b): (Vec<u32>, _) = (mixed(256).collect(), vec![0u32; 256]);
        let mut expected = a.clone();
        for _ in 0..5 {
            expected = (0..256usize)
                .map(|i| expected[(i + 1) % 256].wrapping_add(expected[(i + 255) % 256]))
                .collect();
        }
        let mut barrier = [0u64; 8];
        let arguments = Compiled::n(5).u64(code.lend(&mut a)).u64(code.lend(&mut b)).done();
        let barrier = code.lend(&mut barrier);
        code.launch("rounds", LaunchParameters { barrier, resident: u32::MAX, ..launch(4, 64, arguments) });
        assert_eq!(b, expected);
    });
}
