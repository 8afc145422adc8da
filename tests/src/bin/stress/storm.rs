//! All contexts end at once, and those that follow are warmed at once: so all of them enter the kernels' tables, which
//! are empty then, at the same time.

use std::error::Error;
use std::sync::{Barrier, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::context::{Context, Place};
use crate::operations::warm;
use crate::tally::Tally;

/// How long the others wait, and how long they then work. In a storm they keep no core busy, so that the warm-ups meet.
const TURN: Duration = Duration::from_millis(500);

/// One storm after the other, with pauses in which the other threads work.
pub(crate) fn storms(number: usize, places: &[Place], tally: &Tally, is_over: impl Fn() -> bool) {
    while !is_over() {
        tally.begin(number, "end and warm all", 0);
        // Nobody else is ever in two places, so the order of these locks does not matter.
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
            // A kernel that is in no table is refused, as late loading is.
            kernel
                .cu_function(&context.context)
                .map_err(|error| format!("a warm kernel is lost: {error}"))?;
        }
    }
    Ok(())
}
