//! Tests of features of CUDA C++: recursion, function pointers, tables, structures, printf, the heap, and
//! assertions.

use kernel_registry_ptx::{FaultKind, Grid};

use super::*;

#[test]
fn recursion() {
    each("language", |code| {
        let mut out = [[0u32; 2]; 40];
        let arguments = Arguments::default().u64(code.lend(&mut out)).done();
        code.launch("recursion", LaunchParameters { stack: 4096, ..launch(1, 40, arguments.clone()) });
        let numbers = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89];
        assert!((0..40).all(|i| out[i] == [numbers[i % 12], u32::from(i % 2 == 0)]));

        let mut grid =
            Grid::new(&code.module, "recursion", LaunchParameters { stack: 100, ..launch(1, 40, arguments) })
                .unwrap();
        let fault = common::finish(&mut grid, &code.device).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::Stack { .. }), "{fault}");
    });
}

#[test]
fn functions_by_address() {
    each("language", |code| {
        let (mut which, mut out): (Vec<u32>, _) = (mixed(64).map(|bits| bits % 3).collect(), [0i32; 64]);
        code.run("pointers", 1, 64, Arguments::default().u64(code.lend(&mut which)).u64(code.lend(&mut out)));
        assert!((0..64).all(|i| out[i as usize] == [2 * i, i * i, -i][which[i as usize] as usize]));

        let mut out = [0f32; 64];
        code.run("objects", 2, 32, Arguments::default().u64(code.lend(&mut out)));
        assert!((0..32).all(|i| out[i] == (if i % 3 == 0 { i * i } else { 2 * i }) as f32));
    });
}

#[test]
fn tables_and_local_memory() {
    each("language", |code| {
        let mut program: Vec<u8> = mixed(300).map(|bits| (bits % 8) as u8).collect();
        let mut out = [0i32; 32];
        // Eight values are pushed before any is popped, so no uninitialised element of the kernel's stack is
        // read.
        program.splice(0..0, [2, 2, 2, 2, 2, 2, 2, 2]);
        let arguments = Compiled::n(program.len()).u64(code.lend(&mut program)).u64(code.lend(&mut out));
        code.run("machine", 1, 32, arguments);
        for (thread, found) in out.iter().enumerate() {
            let (mut stack, mut depth, mut value) = ([0i32; 8], 0usize, thread as i32);
            for operation in &program {
                match operation {
                    0 => value = value.wrapping_add(1),
                    1 => value = value.wrapping_mul(3),
                    2 => {
                        stack[depth & 7] = value;
                        depth = depth.wrapping_add(1);
                    }
                    3 => {
                        depth = depth.wrapping_sub(1);
                        value = value.wrapping_add(stack[depth & 7]);
                    }
                    4 => value ^= 0x55,
                    5 => value = value.wrapping_neg(),
                    6 => value >>= 1,
                    _ => value %= 17,
                }
            }
            assert_eq!(*found, value, "{thread}");
        }
    });
}

#[test]
fn structures_and_variables() {
    each("language", |code| {
        let mut settings = [0u8; 32];
        settings[0] = 5;
        settings[8..16].copy_from_slice(&1.5f64.to_le_bytes());
        for (index, value) in [-4i16, 10, 300].into_iter().enumerate() {
            settings[16 + 2 * index..][..2].copy_from_slice(&value.to_le_bytes());
        }
        settings[24..28].copy_from_slice(&0i32.to_le_bytes());
        settings[28..32].copy_from_slice(&100i32.to_le_bytes());
        let mut out = [0f64; 16];
        let arguments = Arguments::default().bytes(&settings).u64(code.lend(&mut out));
        code.run("settings", 1, 16, arguments);
        let limits = [3.0, 1.0, 4.0, 1.0];
        assert!((0..16).all(|i| out[i] == [0.0, 20.0, 100.0][i % 3] + limits[i % 4]));
        let mut total = [0i32];
        code.run("read_total", 1, 1, Arguments::default().u64(code.lend(&mut total)));
        assert_eq!(total[0], 7 + (0..16).sum::<i32>());
    });
}

#[test]
fn output_and_heap() {
    each("language", |code| {
        let mut text = *b"given\0";
        code.run("prints", 1, 2, Compiled::n(42).u64(code.lend(&mut text)));
        let first = "42    42|42   |00042 4000000000 ff FF 0xff 10\n";
        let second = "1.500000 2.25      3.125 1.234568e+04 0.0001 x text %\n";
        let third = "-5000000000 5000000000 -3 0x10|  42|abc|given 9\n";
        let expected = [first, second, third].map(|line| line.repeat(2)).concat();
        assert_eq!(*code.device.printed.lock().unwrap(), expected);

        let before = code.device.allocations();
        let mut out = [0i32; 32];
        code.run("list", 1, 32, Compiled::n(10).u64(code.lend(&mut out)));
        assert!((0..32).all(|i| out[i] == 45 * i as i32));
        assert_eq!(code.device.allocations(), before);
    });
}

#[test]
fn assertions_and_clocks() {
    each("language", |code| {
        code.run("checked", 1, 32, Compiled::n(32));
        let mut grid = Grid::new(&code.module, "checked", launch(1, 32, Compiled::n(31).done())).unwrap();
        let fault = common::finish(&mut grid, &code.device).unwrap_err();
        assert_eq!(fault.thread, [31, 0, 0]);
        assert!(fault.to_string().contains("a thread too many"), "{fault}");

        let mut out = [0i64; 3];
        code.run("clocks", 1, 1, Arguments::default().u64(code.lend(&mut out)));
        assert!(out[0] > 0 && out[1] == 1 && out[2] == 1, "{out:?}");
    });
}
