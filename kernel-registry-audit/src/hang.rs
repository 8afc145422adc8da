//! Watches for calls that do not return, and explains them.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt::Write as _;
use std::process;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUresult, CUstream};

use crate::options::{Audit, OnHang};
use crate::record::{Kind, Slot};
use crate::watched::{self, Call, Happening};
use crate::{hooks, known, real, rules};

/// How often the calls in progress are looked at.
const STEP: Duration = Duration::from_millis(50);

/// How long the driver may take to say which streams are busy.
const MOMENT: Duration = Duration::from_millis(500);

/// Starts the thread that watches this process.
pub(crate) fn start() {
    let patience = Audit::chosen().hang_after;
    // Without a thread hangs are not explained; the calls in progress are in the record all the same.
    let _ = thread::Builder::new().name("kernel-registry-audit".to_owned()).spawn(move || watch(patience));
}

/// What was seen in a slot, and since when.
struct Seen {
    call: u32,
    sequence: u64,
    since: Instant,
    is_explained: bool,
}

fn watch(patience: Duration) {
    let mut seen = HashMap::<usize, Seen>::new();
    let child = process::id();
    while process::id() == child {
        for (index, slot) in watched::slots() {
            let (call, sequence) = (slot.call.load(Ordering::Relaxed), slot.sequence.load(Ordering::Relaxed));
            let fresh = Seen { call, sequence, since: Instant::now(), is_explained: false };
            let seen = seen.entry(index).or_insert(fresh);
            if call == 0 || (seen.call, seen.sequence) != (call, sequence) {
                *seen = Seen { call, sequence, since: Instant::now(), is_explained: false };
            } else if !seen.is_explained && seen.since.elapsed() >= patience {
                seen.is_explained = true;
                explain(slot, call - 1, seen.since.elapsed());
            }
        }
        thread::sleep(STEP);
    }
}

/// Says on the standard error output, and in the record, what the call waits for.
fn explain(slot: &Slot, hook: u32, waited: Duration) {
    let subject = slot.subject.load(Ordering::Relaxed);
    let (stream, thread) = (slot.stream.load(Ordering::Relaxed), slot.thread.load(Ordering::Relaxed));
    let name = hooks::name(hook);
    let of = known::named(subject);
    let about = of.as_deref().map(|of| format!(" for `{of}`")).unwrap_or_default();
    let mut text =
        format!("`{name}`{about}, in thread {thread}, has not returned for {:.1} s", waited.as_secs_f64());
    let rules: Vec<_> = rules::of(name, known::is_loaded(subject)).collect();
    // Writing to a `String` does not fail.
    let _ = match rules.as_slice() {
        [] => write!(text, ". No rule says that it waits for kernels."),
        rules => {
            write!(text, ": {}.", rules.iter().map(|rule| rule.because).collect::<Vec<_>>().join("; or "))
        }
    };
    match busy() {
        None => text.push_str(" The driver does not answer which streams are busy."),
        Some(busy) if busy.is_empty() => text.push_str(" No stream in which kernels were launched is busy."),
        Some(busy) => {
            for (stream, kernel, thread) in busy {
                let kernel = known::named(kernel).unwrap_or_else(|| format!("{kernel:#x}"));
                let _ = write!(
                    text,
                    " Stream {stream:#x} is busy: the last kernel launched there is `{kernel}`, by thread {thread}."
                );
            }
        }
    }
    if !rules.is_empty() {
        let remedies: Vec<_> = rules.iter().map(|rule| rule.remedy).collect();
        let _ = write!(text, " Remedy: {}.", remedies.join("; or "));
    }
    eprintln!("kernel-registry-audit: HANG: {text}");
    let took = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
    let call = Call { hook, subject, stream };
    let happening = Happening {
        kind: Kind::Hang,
        call,
        name,
        subject: of.as_deref().unwrap_or_default(),
        begun: watched::now().saturating_sub(took),
        took,
        result: CUresult::CUDA_ERROR_NOT_READY,
    };
    watched::record_event(happening, thread, true, "", &text);
    if Audit::chosen().on_hang == OnHang::Abort {
        process::abort();
    }
}

/// The streams that are busy, with their last kernels. `None` if the driver does not answer: it is asked in a thread that is
/// left behind then. Asking a stream never waits for the device, even while a load waits.
fn busy() -> Option<Vec<(u64, u64, u64)>> {
    type Query = unsafe extern "C" fn(CUstream) -> CUresult;
    let query = real::symbol(c"cuStreamQuery");
    if query.is_null() {
        return None;
    }
    // SAFETY: the type is that of the function of this name.
    let query: Query = unsafe { std::mem::transmute(query) };
    let (answer, answered) = mpsc::channel();
    let ask = move || {
        let busy = watched::streams().filter(|(stream, kernel, _)| {
            let stream = std::ptr::without_provenance_mut::<c_void>(*stream as usize);
            // The default stream is that of the current context, and this thread has none. Other handles were streams when
            // kernels were launched there.
            // SAFETY: the driver refuses handles of streams that are gone.
            *kernel > 0
                && !stream.is_null()
                && unsafe { query(stream.cast()) } == CUresult::CUDA_ERROR_NOT_READY
        });
        // Nobody may be waiting any longer.
        let _ = answer.send(busy.collect());
    };
    thread::Builder::new().spawn(ask).ok()?;
    answered.recv_timeout(MOMENT).ok()
}
