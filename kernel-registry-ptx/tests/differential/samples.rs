//! The cases of the sample crate: kernels that compute something, on fixed data.

use super::case::{Argument, Case};
use super::random::Random;

macro_rules! sample {
    ($path:literal) => {
        include_str!(concat!("../../../kernels/", $path, ".cu.ptx"))
    };
}

const BLAS1: &str = sample!("prebuilt/cuda__blas1");
const REDUCE: &str = sample!("prebuilt/cuda__reduce");
const TRANSPOSE: &str = sample!("prebuilt/cuda__transpose");
/// The PTX of two small kernels of `spin.cu`, as it was when they were recorded.
const SPIN: &str = include_str!("spin.ptx");

pub fn samples() -> Vec<Case> {
    let mut random = Random::new(1);
    let x32 = singles(&mut random, 900);
    let y32 = singles(&mut random, 900);
    let x64 = doubles(&mut random, 400);
    let y64 = doubles(&mut random, 400);
    let positions = singles(&mut random, 4 * 100);
    let velocities = singles(&mut random, 4 * 100);
    let halves: Vec<u8> =
        (0..400).flat_map(|_| (0x3000 + random.below(0x1800) as u16).to_le_bytes()).collect();
    let words: Vec<u8> = (0..2000).flat_map(|_| (random.below(300) as u32).to_le_bytes()).collect();
    let seeds: Vec<u8> = (0..40).flat_map(|_| (random.next() as u32).to_le_bytes()).collect();
    let input = |bytes: &[u8]| Argument::Input(bytes.to_vec());
    let output = |bytes: &[u8]| Argument::Output(bytes.to_vec());
    let zeros = |size| Argument::Output(vec![0; size]);

    // A sum over several blocks would depend on their order, so kernels that add to one word are launched
    // with one block.
    let mut cases = vec![
        case(BLAS1, "saxpy", 5, 96, vec![u32(890), f32(0.3), input(&x32), output(&y32)]),
        case(BLAS1, "daxpy", 2, 64, vec![u32(390), f64(0.3), input(&x64), output(&y64)]),
        case(BLAS1, "sscal", 3, 33, vec![u32(890), f32(-1.7), output(&x32)]),
        case(BLAS1, "dscal", 3, 64, vec![u32(390), f64(-1.7), output(&x64)]),
        case(BLAS1, "sdot", 1, 256, vec![u32(890), input(&x32), input(&y32), zeros(4)]),
        case(BLAS1, "ddot", 1, 128, vec![u32(390), input(&x64), input(&y64), zeros(8)]),
        case(BLAS1, "snrm2", 1, 1024, vec![u32(890), input(&x32), zeros(4)]),
        case(BLAS1, "dnrm2", 1, 64, vec![u32(390), input(&x64), zeros(8)]),
        case(REDUCE, "IfLj128E", 4, 128, vec![input(&x32), zeros(16), u32(890)]),
        case(REDUCE, "IfLj256E", 3, 256, vec![input(&x32), zeros(12), u32(890)]),
        case(REDUCE, "IdLj256E", 2, 256, vec![input(&x64), zeros(16), u32(390)]),
        case(
            sample!("prebuilt/cuda__particles"),
            "advance",
            2,
            96,
            vec![Argument::Value(step(0.01, 0.97, 100)), output(&positions), output(&velocities)],
        ),
        case(
            sample!("prebuilt/cuda__half"),
            "haxpy",
            2,
            128,
            vec![u32(199), Argument::Value(vec![0x34, 0x3d]), input(&halves[..400]), output(&halves[400..])],
        ),
        case(sample!("prebuilt/cuda__cluster"), "pair_sum", 4, 64, vec![u32(890), input(&x32), zeros(8)]),
        case(sample!("prebuilt/cuda__frame"), "shuffle", 1, 64, vec![u32(40), input(&seeds), zeros(160)]),
        case(
            sample!("big-frame/prebuilt/cuda__large_deck"),
            "shuffle_large",
            1,
            32,
            vec![u32(3), input(&seeds), zeros(12)],
        ),
        case(
            sample!("prebuilt/cuda__cooperative"),
            "smooth",
            4,
            64,
            vec![u32(890), u32(5), output(&x32), output(&x32), zeros(4), zeros(4), u64(10_000_000_000)],
        ),
        case(
            sample!("prebuilt/cuda__diagnose"),
            "row_medians",
            1,
            32,
            vec![u32(20), u32(45), input(&x32), zeros(80)],
        ),
        case(SPIN, "set_flag", 1, 1, vec![zeros(4), u32(77)]),
        case(SPIN, "touch", 1, 1, vec![output(&[5, 0, 0, 0])]),
    ];
    let histogram = vec![u32(2000), input(&words), u32(256), zeros(1024)];
    let histogram = case(sample!("prebuilt/cuda__shared"), "histogram", 4, 128, histogram);
    cases.push(Case { shared: 1024, ..histogram });
    let matrix = vec![input(&x32), zeros(4 * 855), u32(45), u32(19)];
    let transpose = case(TRANSPOSE, "IfLj32E", 2, 32, matrix);
    cases.push(Case { grid: [2, 2, 1], block: [32, 8, 1], ..transpose });
    let matrix = vec![input(&x64), zeros(8 * 391), u32(23), u32(17)];
    let transpose = case(TRANSPOSE, "IdLj16E", 2, 16, matrix);
    cases.push(Case { grid: [2, 2, 1], block: [16, 8, 1], ..transpose });
    cases
}

/// Returns a case of the kernel whose mangled name contains `part`.
fn case(text: &str, part: &str, grid: u32, block: u32, arguments: Vec<Argument>) -> Case {
    let mut names = text.lines().filter_map(|line| line.split_once(".entry ")?.1.strip_suffix('('));
    let kernel =
        names.find(|name| name.contains(part)).unwrap_or_else(|| panic!("no kernel has {part} in its name"));
    Case {
        name: kernel.to_owned(),
        text: text.to_owned(),
        kernel: kernel.to_owned(),
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        shared: 0,
        arguments,
    }
}

/// Returns numbers whose sums and products all need rounding.
fn singles(random: &mut Random, count: usize) -> Vec<u8> {
    (0..count).flat_map(|_| (random.below(1 << 24) as f32 / 7340033.0 - 1.0).to_le_bytes()).collect()
}

fn doubles(random: &mut Random, count: usize) -> Vec<u8> {
    (0..count).flat_map(|_| (random.below(1 << 46) as f64 / 31e12 - 1.0).to_le_bytes()).collect()
}

fn step(dt: f32, damping: f32, n: u32) -> Vec<u8> {
    [dt.to_le_bytes(), damping.to_le_bytes(), n.to_le_bytes()].concat()
}

fn u32(value: u32) -> Argument {
    Argument::Value(value.to_le_bytes().to_vec())
}

fn u64(value: u64) -> Argument {
    Argument::Value(value.to_le_bytes().to_vec())
}

fn f32(value: f32) -> Argument {
    Argument::Value(value.to_le_bytes().to_vec())
}

fn f64(value: f64) -> Argument {
    Argument::Value(value.to_le_bytes().to_vec())
}
