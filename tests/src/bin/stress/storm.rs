//! Destroys all contexts, and then warms new ones all at once, so that many warm-ups add entries to empty
//! launch tables at the same time.

use std::error::Error;
use std::sync::{Barrier, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::context::{Context, Slot};
use crate::operations::warm;
use crate::tally::Tally;

/// The duration of a series of storms, and of the pause after it. Other threads only work in the pauses, so
/// that all cores are free for the warm-ups.
const TURN: Duration = Duration::from_millis(500);

/// Repeats series of storms, with pauses in which the other threads work.
pub(crate) fn storms(number: usize, slots: &[Slot], tally: &Tally, is_over: impl Fn() -> bool) {
    while !is_over() {
        tally.begin(number, "end and warm all", 0);
        // No other thread holds two of these locks, so their order doesn't matter.
        let mut contexts: Vec<_> = slots.iter().map(Slot::enter_alone).collect();
        let begun = Instant::now();
        while begun.elapsed() < TURN && !is_over() {
            match storm(slots, &mut contexts) {
                Ok(()) => tally.count("all ended and warmed"),
                Err(error) => tally.fail(number, error),
            }
        }
        drop(contexts);
        tally.begin(number, "pause", 0);
        thread::sleep(TURN);
    }
}

fn storm(slots: &[Slot], contexts: &mut [RwLockWriteGuard<'_, Context>]) -> Result<(), Box<dyn Error>> {
    for (slot, context) in slots.iter().zip(&mut *contexts) {
        slot.replace(context)?;
    }
    let barrier = Barrier::new(contexts.len());
    let warmed = |context: &Context| {
        barrier.wait();
        warm(context).map(drop).map_err(|error| error.to_string())
    };
    thread::scope(|scope| {
        let warmed = &warmed;
        let threads: Vec<_> = contexts.iter().map(|context| scope.spawn(move || warmed(context))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a warm-up panicked")?)
    })?;
    for context in contexts {
        for kernel in kernel_registry::kernels()? {
            // Late loads are denied, so this fails for a kernel without a table entry.
            kernel
                .cu_function(&context.context)
                .map_err(|error| format!("a warm kernel is lost: {error}"))?;
        }
    }
    Ok(())
}
