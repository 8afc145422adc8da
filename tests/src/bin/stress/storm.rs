//! Destroys all contexts, then warms new ones all at once. So many warm-ups add entries to empty launch tables at the
//! same time.

use std::error::Error;
use std::sync::{Barrier, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::context::{Context, Place};
use crate::operations::warm;
use crate::tally::Tally;

/// Duration of a series of storms, and of the pause after it. Other threads work only in the pauses, so that all cores
/// are free for the warm-ups.
const TURN: Duration = Duration::from_millis(500);

/// Repeats series of storms, with pauses in which the other threads work.
pub(crate) fn storms(number: usize, places: &[Place], tally: &Tally, is_over: impl Fn() -> bool) {
    while !is_over() {
        tally.begin(number, "end and warm all", 0);
        // No other thread holds two of these locks, so their order does not matter.
        let mut contexts: Vec<_> = places.iter().map(Place::enter_alone).collect();
        let begun = Instant::now();
        while begun.elapsed() < TURN && !is_over() {
            match storm(places, &mut contexts) {
                Ok(()) => tally.count("all ended and warmed"),
                Err(error) => tally.fail(number, error),
            }
        }
        drop(contexts);
        tally.begin(number, "pause", 0);
        thread::sleep(TURN);
    }
}

fn storm(places: &[Place], contexts: &mut [RwLockWriteGuard<'_, Context>]) -> Result<(), Box<dyn Error>> {
    for (place, context) in places.iter().zip(&mut *contexts) {
        place.replace(context)?;
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
            // Fails for a kernel without a table entry, because late loads are denied.
            kernel
                .cu_function(&context.context)
                .map_err(|error| format!("a warm kernel is lost: {error}"))?;
        }
    }
    Ok(())
}
