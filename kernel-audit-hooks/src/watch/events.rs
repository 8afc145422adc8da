//! Records events of calls: the caller, how long the call took, and why.

use cudarc::driver::sys::CUresult;

use crate::options::Audit;
use crate::record::Kind;
use crate::watch::budget::Budget;
use crate::watch::caller::{self, Caller};
use crate::watch::fault;
use crate::watch::hang::waits;
use crate::watch::known::contexts;
use crate::watch::record::call::{self, Call};
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::recording::{self, nanoseconds, now, write_event};
use crate::watch::record::slots::{during, sequence, thread};

/// Makes a call, and records it as slow if it took long.
pub(crate) fn timed(call: Call, real: impl FnOnce() -> CUresult) -> CUresult {
    let (sequence, begun) = (sequence(), now());
    let result = fault::noted(call, during(call, real));
    let took = now() - begun;
    if took >= slow() {
        let wait = waits::take(thread(), sequence);
        let (rule, resident) = wait.as_ref().map_or((None, ""), |wait| (Some(wait.rule), &*wait.kernel));
        let event = NewEvent { kind: Kind::Slow, begun, took, result: result as u32, ..NewEvent::default() };
        record_event(call, NewEvent { rule, resident, ..event });
    }
    result
}

/// Returns the time in nanoseconds from which calls are events.
pub(crate) fn slow() -> u64 {
    nanoseconds(Audit::chosen().slow)
}

/// Limits the time that stacks of slow calls take. A service that waits for the GPU in each request makes hundreds of them a second, and
/// reading a stack with its Python frames takes a quarter of a millisecond.
static SLOW_CALLS: Budget = Budget::new();

/// Records an event of this thread, with its stack. Returns the caller.
pub(crate) fn record_event(call: Call, event: NewEvent<'_>) -> Caller {
    if event.kind != Kind::Slow || event.is_finding {
        return record_with_stack(call, event);
    }
    let begun = now();
    if !SLOW_CALLS.affords(begun) {
        recording::count_unlisted();
        return Caller::default();
    }
    let caller = record_with_stack(call, event);
    SLOW_CALLS.spend(now() - begun);
    caller
}

fn record_with_stack(call: Call, event: NewEvent<'_>) -> Caller {
    let caller = caller::find(call::address(call.hook));
    let is_late = event.kind != Kind::Slow && recording::is_ready();
    write_event(NewEvent {
        call: call.name(),
        thread: thread(),
        stream: call.stream,
        context: contexts::current(),
        is_finding: event.is_finding || is_late,
        library: &caller.library,
        caller: &caller.name,
        stack: &caller.stack,
        ..event
    });
    caller
}
