//! Kernels made at random, against what a GPU made of them: `cargo run --example record` writes `golden.bin`.

mod generate;

#[path = "../common/mod.rs"]
mod common;

use common::{Arguments, Device, launch, run};
use generate::{KERNELS, THREADS, WORDS, case};

fn simulated(seed: u64) -> Vec<u32> {
    let case = case(seed);
    let device = Device::default();
    let module = device.load(&case.text).unwrap_or_else(|error| panic!("kernel {seed}: {error}"));
    let (mut input, mut out) = (case.input, vec![0u32; THREADS as usize * WORDS]);
    let arguments = Arguments::default().u64(device.lend(&mut input)).u64(device.lend(&mut out)).done();
    run(&device, &module, "k", launch(1, THREADS, arguments))
        .unwrap_or_else(|fault| panic!("kernel {seed}: {fault}"));
    out
}

#[test]
fn every_kernel_loads_and_ends_the_same_way_twice() {
    for seed in 0..KERNELS {
        let first = simulated(seed);
        assert_eq!(first, simulated(seed), "kernel {seed}");
        assert!(first.iter().any(|word| *word != first[0]), "kernel {seed} computes nothing");
    }
}

#[test]
#[ignore = "needs golden.bin, which is recorded on a GPU"]
fn as_recorded() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/golden.bin");
    let golden =
        std::fs::read(path).expect("golden.bin can be read; record it on a GPU with the example `record`");
    let (words, rest) = golden.as_chunks::<4>();
    assert_eq!((words.len(), rest.len()), (KERNELS as usize * THREADS as usize * WORDS, 0));
    let mut wrong = Vec::new();
    for (seed, expected) in words.chunks(THREADS as usize * WORDS).enumerate() {
        let expected = expected.iter().map(|word| u32::from_le_bytes(*word));
        let found = simulated(seed as u64);
        let differs = found.iter().zip(expected).position(|(found, expected)| *found != expected);
        wrong.extend(
            differs.map(|place| format!("kernel {seed}, thread {}, word {}", place / WORDS, place % WORDS)),
        );
    }
    assert!(wrong.is_empty(), "{} of {KERNELS} kernels differ: {wrong:#?}", wrong.len());
}
