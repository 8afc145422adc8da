//! Runs one row in a separate process, because a blocked call only ends with its process, and because earlier
//! operations of a context change later ones.

use std::time::{Duration, Instant};

use crate::bench::{Bench, Word};
use crate::cuda::{self, Done, Failed};
use crate::guard::{self, Guard};
use crate::recording::{Manner, Mode, Outcome, Verdict};
use crate::resident::Resident;
use crate::row::Row;

/// The start of the error text of a call that the audit refused.
const REFUSED: &str = "CUDA_ERROR_NOT_PERMITTED";

/// Tries a row in this process. Resident work ends by itself after `limit`.
pub(crate) fn outcome(row: &Row, mode: Mode, manner: Manner, limit: Duration) -> Outcome {
    let mut outcome = attempt(row, mode, manner, limit)
        .unwrap_or_else(|Failed(error)| Outcome { error: Some(error), ..Outcome::ERROR });
    if outcome.verdict == Verdict::Error && outcome.error.as_deref().is_some_and(is_lacking) {
        outcome.verdict = Verdict::Lacking;
    }
    outcome
}

/// Returns whether the error says that the simulated driver lacks the function. The audit may say that in the
/// driver's place.
fn is_lacking(error: &str) -> bool {
    let lacks = ["CUDA_ERROR_NOT_SUPPORTED of ", "the driver has no ", "CUDA_ERROR_NOT_FOUND of "];
    ::tests::is_simulated() && lacks.iter().any(|words| error.contains(words))
}

fn attempt(row: &Row, mode: Mode, manner: Manner, limit: Duration) -> Done<Outcome> {
    if manner == Manner::Guarded {
        guard::install()?;
    }
    let bench = Bench::new(manner == Manner::Warmed, limit)?;
    if cuda::loads_lazily()? != (mode == Mode::Lazy) {
        return Err(Failed(format!("CUDA_MODULE_LOADING did not make the driver load in {mode} mode")));
    }
    Resident::prepare(&bench, row.work)?;
    let attempt = row.prepare(&bench)?;
    cuda::synchronize()?;
    for word in [Word::Flag, Word::Status, Word::Done] {
        bench.set(word, 0);
    }

    let guard = match manner {
        Manner::Guarded => Some(Guard::begin(c"stay", bench.resident_stream)?),
        Manner::Cold | Manner::Warmed => None,
    };
    let resident = Resident::start(&bench, row.work)?;
    cuda::take_calls();
    let begun = Instant::now();
    let attempted = attempt();
    let host = begun.elapsed();
    let calls = cuda::take_calls();
    let done = match row.launches && attempted.is_ok() {
        true => Some(done(&bench, begun)),
        false => None,
    };
    // An operation that ended before the resident kernel didn't wait for it.
    let mut verdict = match (resident.is_running(&bench), &attempted) {
        (false, _) => Verdict::Blocks,
        (true, Ok(())) => Verdict::Runs,
        (true, Err(Failed(error))) if guard.is_some() && error.starts_with(REFUSED) => Verdict::Refused,
        (true, Err(_)) => Verdict::Error,
    };
    if let Some(guard) = guard {
        // The audit would refuse a call that waits for the kernel, so this polls the stream.
        bench.set(Word::Flag, 1);
        while !cuda::is_idle(bench.resident_stream)? {
            std::thread::yield_now();
        }
        let is_deferred = guard.end() > 0;
        if is_deferred && verdict == Verdict::Runs {
            verdict = Verdict::Deferred;
        }
    }
    resident.release(&bench)?;
    bench.join()?;
    let error = attempted.err().map(|Failed(error)| error);
    Ok(Outcome { verdict, error, host_ms: Some(milliseconds(host)), done_ms: done.map(milliseconds), calls })
}

/// Waits until the tried kernel has run, and returns the time since `begun`. If it never runs, the parent
/// process kills this one.
fn done(bench: &Bench, begun: Instant) -> Duration {
    while bench.read(Word::Done) == 0 {
        // The simulated device runs on this processor.
        std::thread::yield_now();
    }
    begun.elapsed()
}

/// Converts a time to milliseconds, rounded to microseconds.
fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}
