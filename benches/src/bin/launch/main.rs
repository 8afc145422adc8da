//! Measures how much time launching a warm kernel adds to the driver's, whether first launches are as fast as
//! later ones, and whether warming leaks memory.
//!
//! Run `cargo run --release -p benches --bin launch`. The program needs `cc`, and a GPU for all but the first
//! part.

mod context;
mod first;
mod growth;
mod overhead;

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use benches::Result;
use benches::child::{self, Child};
use benches::stub::Stub;
use benches::verdict::{self, Requirement};
use growth::{CONTEXTS, REPETITIONS};
use overhead::WAYS;

kernel_registry::link_kernels!(kernels);

/// An allocator that counts allocations.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all work is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        None => verdict::end(measure()),
        // These arguments are for child processes.
        Some("overhead") => print(overhead::measure(|| ALLOCATIONS.load(Ordering::Relaxed))),
        Some("first") => print(first::measure()),
        Some("growth") => print(growth::measure()),
        Some(_) => verdict::exit_code(Err("usage: launch".into())),
    }
}

fn print(numbers: Result<Vec<f64>>) -> ExitCode {
    verdict::exit_code(numbers.map(|numbers| {
        println!("{}", numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
        true
    }))
}

fn measure() -> Result<Vec<Requirement>> {
    let program = env::current_exe()?;
    let child = |task| Child::new(&program).arg(task);

    let stub = Stub::build()?;
    let mut requirements = verdict::of_times(|| {
        let numbers = child("overhead").env("LD_LIBRARY_PATH", stub.folder()).numbers(MINUTE)?;
        costs("A DRIVER THAT DOES NOTHING", &numbers)
    })?;

    match child::device() {
        Err(error) => println!("\nNO GPU, SO THAT IS ALL: {error}"),
        Ok(device) => {
            println!("\n{device}");
            costs("THE DRIVER", &child("overhead").numbers(MINUTE)?)?;
            requirements.extend(verdict::of_times(|| {
                Ok(vec![first_launches(&child("first").numbers(2 * MINUTE)?)?])
            })?);
            requirements.extend(memory(&child("growth").numbers(4 * MINUTE)?)?);
        }
    }
    Ok(requirements)
}

/// The most nanoseconds that a launch may add to the driver's. The added time depends on the host's processor
/// and its load: 30 to 36 ns on hosts of H200s, and 45 ns while PyTorch ran at the same time.
const BOUND: f64 = 60.0;

/// The most that `touch::launch` may take, as a multiple of cudarc's builder, which does the same for one
/// pointer. Measured: 0.84 to 0.95, and 1.15 on one host.
const BOUND_BUILDER: f64 = 1.25;

/// The most that the slowest first launches may take, as a multiple of the slowest later ones. It depends on
/// other load of the host: up to 1.24 was measured.
const BOUND_FIRST: f64 = 1.5;

const MINUTE: Duration = Duration::from_secs(60);

/// Prints the cost of each way to launch. The differences have bounds, with a driver that does nothing.
fn costs(title: &str, numbers: &[f64]) -> Result<Vec<Requirement>> {
    let [bare, raw, touch, builder, saxpy, prepared, saxpy_builder, allocations @ ..] = numbers else {
        return Err("a child printed too little".into());
    };
    println!("\n{title:48} NS A LAUNCH");
    for (way, time) in WAYS.iter().zip(numbers) {
        println!("{way:48} {time:11.1}");
    }
    let allocated = allocations.iter().sum::<f64>() as usize;
    println!("{:48} {allocated:11}", "allocations in 100 launches of each way of ours");
    Ok(vec![
        Requirement::at_most("`Prepared::launch` above bare", raw - bare, BOUND, "ns"),
        Requirement::at_most("`touch::launch` above bare", touch - bare, BOUND, "ns"),
        Requirement::at_most("`touch::launch` / cudarc's builder", touch / builder, BOUND_BUILDER, "times"),
        Requirement::at_most("`saxpy::launch` / cudarc's builder", saxpy / saxpy_builder, 1.0, "times"),
        Requirement::at_most(
            "`saxpy::launch`, prepared / cudarc's builder",
            prepared / saxpy_builder,
            1.0,
            "times",
        ),
        Requirement::exactly("allocations of our launches", allocated, 0, "allocations"),
    ])
}

fn first_launches(numbers: &[f64]) -> Result<Requirement> {
    let [first, first_99, later, later_99, count] = numbers else {
        return Err("a child printed too little".into());
    };
    println!("\n{:48} {:>11}  99 PERCENT BELOW", "US TO LAUNCH AND WAIT, AFTER WARMING", "MEDIAN");
    println!(
        "{:48} {first:11.1}  {first_99:16.1}",
        format!("the first of each sample kernel ({count} of them)")
    );
    println!("{:48} {later:11.1}  {later_99:16.1}", "later ones");
    Ok(Requirement::at_most(
        "first launch / later ones, 99 percent",
        first_99 / later_99,
        BOUND_FIRST,
        "times",
    ))
}

fn memory(numbers: &[f64]) -> Result<Vec<Requirement>> {
    let [host, device, host_again, device_again] = numbers else {
        return Err("a child printed too little".into());
    };
    println!("\n{:48} {:>11}  {:>11}", "KIB THAT ARE GONE", "HOST", "DEVICE");
    let (fresh, repeated) =
        (format!("after {CONTEXTS} fresh contexts"), format!("after {REPETITIONS} repetitions"));
    println!("{fresh:48} {host:11.0}  {device:11.0}");
    println!("{repeated:48} {host_again:11.0}  {device_again:11.0}");
    let requirement = |what: &str, kib: &f64, bound| Requirement::at_most(what, *kib, bound, "KiB");
    Ok(vec![
        // A leak would be a page or two per context; the allocator's noise is smaller.
        requirement(&format!("host memory {fresh}"), host, 2048.0),
        requirement(&format!("device memory {fresh}"), device, 0.0),
        requirement(&format!("host memory {repeated}"), host_again, 2048.0),
        requirement(&format!("device memory {repeated}"), device_again, 0.0),
    ])
}
