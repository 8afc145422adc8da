//! Logs late loads and compilations while the program runs: a latency spike is looked for in the log of that minute. A program that loads
//! without end gets a few lines, and then one every ten seconds.

use std::time::{Duration, Instant};

use super::new_event::NewEvent;
use crate::options::Audit;
use crate::record::{Kind, Subject, Time};
use crate::watch::process::locked::Locked;
use crate::watch::process::say::say;

/// The lines before the pauses.
const FIRST: u32 = 10;
const PAUSE: Duration = Duration::from_secs(10);

static LINES: Locked<Lines> = Locked::new();

#[derive(Default)]
struct Lines {
    count: u32,
    last: Option<Instant>,
    left_out: u32,
}

impl Lines {
    /// Returns how many lines were left out before this one, or `None` if this one is left out, too.
    fn next(&mut self, now: Instant) -> Option<u32> {
        let pauses = self.count >= FIRST;
        if pauses && self.last.is_some_and(|last| now.duration_since(last) < PAUSE) {
            self.left_out += 1;
            return None;
        }
        (self.count, self.last) = (self.count + 1, Some(now));
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Logs an event that comes after the program was ready, and costs a request time.
pub(super) fn log(event: &NewEvent<'_>) {
    if !event.is_finding || Audit::chosen().quiet {
        return;
    }
    let Some(done) = describe(event) else { return };
    let Some(left_out) = LINES.with(|lines| lines.next(Instant::now())) else { return };
    let caller = if event.caller.is_empty() { event.library } else { event.caller };
    let by = if caller.is_empty() { String::new() } else { format!(" by {caller}") };
    let before =
        if left_out > 0 { format!(" ({left_out} more since the line before)") } else { String::new() };
    say(&format!("during serving, {done}{by}, in {}{before}", Time(event.took)));
}

/// Says what was loaded or compiled late. `None` for other events, which have messages of their own.
fn describe(event: &NewEvent<'_>) -> Option<String> {
    Some(match (event.kind, event.subject) {
        (Kind::Load, Subject::Kernel { symbol, .. }) => format!("kernel `{symbol}` was loaded"),
        (Kind::Image, Subject::Image(image)) => format!("a {image} was loaded"),
        (Kind::Compile, Subject::Program(program)) => {
            format!("JIT compilation of `{}` by NVRTC", program.name)
        }
        (Kind::Resize, Subject::Limit { limit, .. }) => format!("the {} was resized", limit.as_str()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_events_is_a_line_every_ten_seconds() {
        let (mut lines, begun) = (Lines::default(), Instant::now());
        let mut at = |seconds| lines.next(begun + Duration::from_secs(seconds));
        for _ in 0..FIRST {
            assert_eq!(at(0), Some(0));
        }
        assert_eq!((at(1), at(9), at(10), at(11), at(25)), (None, None, Some(2), None, Some(1)));
    }
}
