//! The stress test: many threads warm, launch, recheck, reset and drop contexts at once. It compares every
//! result, accepts only errors that earlier operations explain, and checks that a warm kernel stays warm
//! until its context ends. docs/testing.md has the details.

mod context;
mod operations;
mod storm;
mod tally;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use kernel_registry::cudarc::driver::CudaContext;

use context::Slot;
use operations::Worker;
use tally::Tally;

kernel_registry::link_kernels!(kernels);

/// Warms, launches, rechecks, resets and drops contexts in many threads.
#[derive(Parser)]
struct Options {
    /// Duration
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Number of threads
    #[arg(long, default_value_t = 64)]
    threads: usize,
    /// Number of contexts; the first is the device's primary context
    #[arg(long, default_value_t = 8)]
    contexts: usize,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const NOT_POSSIBLE: u8 = 2;

/// The time after which an operation counts as never ending.
const LONGEST: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    tests::simulate_if_told();
    let options = Options::parse();
    let slots = match slots(options.contexts.max(1)) {
        Ok(slots) => slots,
        Err(error) => {
            eprintln!("error: {}", tests::with_causes(&*error));
            return ExitCode::from(NOT_POSSIBLE);
        }
    };
    let tally = Tally::new(options.threads + 1);
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    let is_over = || over.load(Ordering::Relaxed) || tally.has_failed();
    thread::scope(|scope| {
        let (tally, slots, is_over) = (&tally, &slots, &is_over);
        for number in 0..options.threads {
            let mut worker = Worker::new(number, options.seed, slots, tally);
            scope.spawn(move || {
                // A panic of this thread counts as a failure.
                let _panics = tally.panics(number);
                while !is_over() {
                    worker.work();
                }
            });
        }
        scope.spawn(move || {
            let _panics = tally.panics(options.threads);
            storm::storms(options.threads, slots, tally, is_over);
        });
        while begun.elapsed() < Duration::from_secs(options.seconds) && !tally.has_failed() {
            thread::sleep(Duration::from_millis(50));
            tally.watch(LONGEST);
        }
        over.store(true, Ordering::Relaxed);
        while tally.is_at_work() {
            thread::sleep(Duration::from_millis(50));
            tally.watch(LONGEST);
        }
    });
    println!("{}", tally.summary(begun.elapsed()));
    if tally.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Returns a slot with the primary context, and slots with more contexts, on all devices in turn.
fn slots(count: usize) -> Result<Vec<Slot>, Box<dyn std::error::Error>> {
    let primary = Slot::primary()?;
    let devices = CudaContext::device_count()?.unsigned_abs() as usize;
    let others = (1..count).map(|number| Slot::other(number % devices));
    [Ok(primary)].into_iter().chain(others).collect()
}
