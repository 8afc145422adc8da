//! Tests of ordinary kernels that two compilers have compiled, whose results are compared with what Rust
//! computes. `cargo xtask prebuilt` compiles `cuda/*.cu`.

#[path = "../common/mod.rs"]
mod common;

mod collect;
mod copies;
mod language;
mod learning;
mod linear;
mod machine;
mod nature;
mod races;

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{Arguments, Device, launch};
use kernel_registry_ptx::{Grid, Knowledge, LaunchParameters, Module, Races, Status};

/// A source file that one of the compilers has compiled.
struct Compiled {
    device: Device,
    module: Arc<Module>,
    /// The races of all launches, and what is known after them.
    races: RefCell<(Races, Knowledge)>,
}

/// Checks the output of NVRTC of CUDA 12.0 and of nvcc of CUDA 13.0 for a source file.
fn each(source: &str, check: impl Fn(&Compiled)) {
    for image in [format!("prebuilt/cuda__{source}.cu.ptx"), format!("nvcc/{source}.ptx")] {
        println!("{image}");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(image);
        let device = Device::default();
        let module =
            device.load(&fs::read_to_string(path).unwrap()).unwrap_or_else(|error| panic!("{error}"));
        check(&Compiled { device, module, races: RefCell::default() });
    }
}

impl Compiled {
    fn run(&self, kernel: &str, grid: u32, block: u32, arguments: Arguments) {
        self.launch(kernel, launch(grid, block, arguments.done()));
    }

    /// Runs a kernel that is right: there are no races in it.
    fn launch(&self, kernel: &str, launch: LaunchParameters) {
        let (races, known) = &mut *self.races.borrow_mut();
        let mut grid = Grid::new(&self.module, kernel, launch).unwrap();
        let work = grid.watch(races, (0, 0), known.clone());
        self.finish(&mut grid, races);
        known.add_ended(work.unwrap());
        let found = races.take();
        assert!(found.is_empty(), "{}", found[0]);
    }

    fn finish(&self, grid: &mut Grid, races: &mut Races) {
        for _ in 0..10_000 {
            match grid.step_watched(100_000, &self.device, races) {
                Status::Done => return,
                Status::Fault(fault) => panic!("{fault}"),
                Status::Running { .. } => {}
            }
        }
        panic!("the grid does not end");
    }

    /// Returns arguments that begin with a 32-bit number.
    fn n(n: usize) -> Arguments {
        Arguments::default().u32(n as u32)
    }

    fn lend<T>(&self, data: &mut [T]) -> u64 {
        self.device.lend(data)
    }
}

/// Returns pseudo-random numbers, which are the same each time.
fn mixed(n: usize) -> impl Iterator<Item = u32> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..n).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32
    })
}

/// Returns small whole numbers. Their sums are exact in any order.
fn whole(n: usize) -> Vec<f32> {
    mixed(n).map(|bits| (bits % 15) as f32 - 7.0).collect()
}

/// Returns numbers between -4 and 4 that aren't whole.
fn fractional(n: usize) -> Vec<f32> {
    mixed(n).map(|bits| (bits as i32) as f32 / (1 << 29) as f32).collect()
}

/// Fails if a number differs from the expected one by more than the tolerance, which is relative for large
/// numbers.
#[track_caller]
fn close(found: &[f32], expected: impl IntoIterator<Item = f64>, tolerance: f64) {
    let mut count = 0;
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= tolerance * expected.abs().max(1.0), "{index}: {found}, not {expected}");
        count += 1;
    }
    assert_eq!(count, found.len());
}
