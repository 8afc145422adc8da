//! Tests on a GPU that the sample crate's kernels are warmed and launched. Each check prints a line with `ok`
//! or `FAIL`. The exit code is 0 if no check failed, and 2 without a driver.
//!
//! The order matters, because a kernel has only one first launch per context.

mod borrowed;
mod checked;
mod checks;
mod costs;
mod counting;
mod hooks;
mod parts;
mod resident;
mod samples;
mod sections;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use kernel_registry::{Warm, warm_all};

use checked::{Checked, SIMULATED};

kernel_registry::link_kernels!(kernels);

fn main() -> ExitCode {
    tests::simulate_if_told();
    let context = match kernel_registry::context(0) {
        Ok(context) => context,
        Err(error) => {
            eprintln!("{}", tests::with_causes(&error));
            return ExitCode::from(2);
        }
    };
    let name = context.name().expect("a device has a name");
    SIMULATED.get_or_init(|| name.starts_with("simulated"));
    let begun = Instant::now();
    let warm = match warm_all(&context) {
        Ok(warm) => warm,
        Err(error) => {
            println!("FAIL warm_all: {}", tests::with_causes(&error));
            return ExitCode::FAILURE;
        }
    };
    let first = begun.elapsed();
    println!("{}\n", warm.report());

    let mut failed = 0;
    for (name, check) in CHECKS {
        match check(&warm, first) {
            Ok(words) => println!("ok   {name}: {words}"),
            Err(error) => {
                println!("FAIL {name}: {}", tests::with_causes(&*error));
                failed += 1;
            }
        }
    }
    println!("{} checks, {failed} failed", CHECKS.len());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

type Check = fn(&Warm, Duration) -> Checked;

const CHECKS: &[(&str, Check)] = &[
    ("every kernel is warm and verified", checks::everything_is_warm),
    ("warmup functions", checks::hooks),
    ("first launches beside a resident kernel", checks::first_launches),
    ("a kernel that was not warmed waits", checks::a_cold_kernel_waits),
    ("an image made at run time", checks::made_at_run_time),
    ("warming again", checks::again),
    ("typed launch", checks::typed),
    ("prepared launch", checks::prepared),
    ("launch errors", checks::launch_errors),
    ("argument errors", checks::argument_errors),
    ("a thread without context", checks::other_thread),
    ("another `CudaContext` of the same context", checks::same_context),
    ("two contexts on one device", checks::two_contexts),
    ("a context and a stream of another library", borrowed::borrowed),
    ("every device at once", checks::all_at_once),
    ("a stream that is being captured", checks::capture),
    ("warming while a stream is captured", checks::warm_while_capturing),
    ("a stack budget", checks::stack_budget),
    ("timeout", checks::timeout),
    ("a lowered stack limit", checks::lowered_stack),
    ("what a launch costs", costs::cost),
    ("contexts that come and go", costs::come_and_go),
    ("parts of the device", parts::parts),
    ("kernels that stay", sections::sections),
    ("a grid of workers", sections::workers),
    ("a device that was reset", checks::reset),
];
