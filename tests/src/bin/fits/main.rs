//! Compares the arithmetic of what fits next to a resident kernel with the device. Each trial launches a
//! random resident kernel and a random probe kernel, which runs or waits. docs/testing.md has the details.

mod carveouts;
mod gpu;
mod pair;
mod ptx;
mod report;
mod trial;
mod two;

use std::process::{ExitCode, abort};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use clap::Parser;

use gpu::{Gpu, Outcome};
use pair::Pair;
use report::Report;

/// Tries random pairs of a resident kernel and a probe kernel, and compares what runs with what was computed.
#[derive(Parser)]
struct Options {
    /// Number of pairs
    #[arg(long, default_value_t = 500)]
    pairs: u64,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Try only the pair of this number
    #[arg(long)]
    only: Option<u64>,
    /// Write JSON, with every pair
    #[arg(long)]
    json: bool,
    /// Only measure which carve-out multiprocessors have while blocks stay on them
    #[arg(long, conflicts_with_all = ["pairs", "only", "json"])]
    carveouts: bool,
    /// Try two resident kernels and a probe kernel, instead of pairs
    #[arg(long, conflicts_with_all = ["only", "json", "carveouts"])]
    two: bool,
}

const NOT_POSSIBLE: u8 = 2;

/// The time after which a pair counts as never ending.
const LONGEST: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let options = Options::parse();
    if tests::is_simulated() {
        // With this few multiprocessors, the simulator can execute all blocks at once.
        let config = kernel_registry_sim::Config::from_environment().processors(4);
        config.install().expect("nothing has used CUDA yet");
    }
    match Gpu::open().and_then(|gpu| answer(&gpu, &options)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(NOT_POSSIBLE)
        }
    }
}

fn answer(gpu: &Gpu, options: &Options) -> Outcome<ExitCode> {
    if options.carveouts {
        return carveouts::measure(gpu).map(|()| ExitCode::SUCCESS);
    }
    if options.two {
        let number = watched();
        return two::compare(gpu, options.seed, options.pairs, &number);
    }
    let report = compare(gpu, options);
    if options.json {
        println!("{}", report.json());
    } else {
        print!("{report}");
    }
    Ok(ExitCode::from(u8::from(!report.is_right())))
}

/// Tries all pairs, unless too many cannot be tried.
fn compare(gpu: &Gpu, options: &Options) -> Report {
    let number = watched();
    let mut report = Report::new(gpu, options.seed);
    let pairs = options.only.map_or(0..options.pairs, |only| only..only + 1);
    for index in pairs {
        number.store(index + 1, Ordering::Relaxed);
        let pair = Pair::random(&gpu.device, options.seed, index);
        match trial::run(gpu, index, &pair) {
            Ok(trial) => report.add(trial),
            Err(error) => report.add_untried(index, error.to_string()),
        }
        if report.has_too_many_untried() {
            break;
        }
    }
    report
}

/// Returns a number, and aborts the process if the number doesn't change for [`LONGEST`]. Every wait in this
/// code has a limit, but waits in the driver don't.
fn watched() -> Arc<AtomicU64> {
    let number = Arc::new(AtomicU64::new(0));
    let seen = number.clone();
    thread::spawn(move || {
        let mut last = None;
        loop {
            let now = seen.load(Ordering::Relaxed);
            if last == Some(now) {
                eprintln!("error: pair {now} has not ended for {} seconds", LONGEST.as_secs());
                abort();
            }
            last = Some(now);
            thread::sleep(LONGEST);
        }
    });
    number
}
