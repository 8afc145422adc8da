//! Watches for calls that do not return, and explains them.

pub(crate) mod busy;
mod explanation;
mod quiet;
mod stack;
pub(crate) mod unloaded;
pub(crate) mod waits;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUresult;

use crate::hang::Hanging;
use crate::options::{Audit, OnHang};
use crate::record::{Image, InProgress, Kind, RawEvent, Slot, Subject, ThreadInCall};
use crate::watch::caller::Caller;
use crate::watch::known::handles;
use crate::watch::process::end;
use crate::watch::process::locked::Locked;
use crate::watch::process::say::{say, say_hang};
use crate::watch::process::threads;
use crate::watch::record::launches::{self, Stream};
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::recording::{
    self, nanoseconds, now, samples_run_short, write_event, write_long_call, write_sample,
};
use crate::watch::record::slots;
use crate::watch::record::{call, ready};
use explanation::{Found, HangingCall};
use quiet::Quiet;

/// How often the watching thread looks at the calls in progress.
const STEP: Duration = Duration::from_millis(50);

/// The time after which the watching thread asks what a call waits for, and records how long it has been in progress.
const LONG: Duration = Duration::from_millis(200);

/// A longer sleep means that the process was halted, for example by a debugger.
const HALTED: Duration = Duration::from_secs(1);

/// The longest time for which a process can have been halted, all in all. A starved thread sleeps long, too, and must still find hangs.
const MOST_HALTED: Duration = Duration::from_secs(150);

/// The number of looks between two samples once room for samples runs short: together one second.
const SPARSE: u32 = 20;

/// Whether the watching thread was started, in this process or in the one that it was forked from.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Prepares the end of the process. In a forked child another thread's lock of the system could stand in the way.
pub(crate) fn prepare() {
    extern "C" fn at_exit() {
        if STARTED.load(Ordering::Relaxed) {
            look_again();
            sample();
        }
    }
    // SAFETY: `at_exit` is called without arguments, and stays where it is.
    unsafe { libc::atexit(at_exit) };
}

/// Starts the thread that watches this process.
pub(crate) fn start() {
    STARTED.store(true, Ordering::Relaxed);
    // Without the thread the record still has the calls in progress.
    if let Err(error) = threads::start(watch) {
        recording::mark_thread_lacking(
            &error,
            "hangs are not explained, and a file that says ready is not seen",
        );
    }
}

/// A call that the watching thread saw.
struct Watched {
    call: InProgress,
    since: Instant,
    /// Whether the driver was asked which streams are busy during the call.
    is_asked: bool,
    /// How long the call may take until it is explained. `None` if it was explained.
    patience: Option<Duration>,
}

impl Watched {
    fn new(call: InProgress) -> Self {
        Watched { call, since: Instant::now(), is_asked: false, patience: Some(Audit::chosen().hang_after) }
    }

    /// Explains the call if it takes too long. The driver may compile for many seconds, which is said once; only a call that takes longer than
    /// [`Audit::patience`] may be a hang then.
    fn explain_if_long(&mut self, slot: &'static Slot) {
        let (waited, most) = (self.since.elapsed(), Audit::chosen().patience());
        let Some(patience) = self.patience.filter(|patience| waited >= *patience) else { return };
        if patience < most && says_that_it_compiles(self.call, waited) {
            self.patience = Some(most);
        } else {
            self.patience = None;
            explain(slot, self.call, self.since);
        }
    }
}

/// A call that hangs now.
struct Hang {
    slot: &'static Slot,
    call: InProgress,
    since: Instant,
    event: &'static RawEvent,
}

/// The calls that hang now.
static HANGS: Locked<Vec<Hang>> = Locked::new();

/// Records how long calls have been hanging, and which of them have returned.
fn look_again() {
    HANGS.lock().retain(|Hang { slot, call, since, event }| {
        let goes_on = slot.in_progress() == Some(*call);
        if goes_on {
            event.took.store(nanoseconds(since.elapsed()), Ordering::Relaxed);
        } else {
            event.later.store(1, Ordering::Release);
        }
        goes_on
    });
}

fn watch() {
    let mut watched = HashMap::<usize, Watched>::new();
    let child = process::id();
    let (mut steps, mut quiet, mut forgivable) = (0_u32, Quiet::new(), MOST_HALTED);
    while process::id() == child {
        for (index, slot) in slots::slots() {
            let Some(call) = slot.in_progress() else {
                watched.remove(&index);
                continue;
            };
            let its = watched.entry(index).or_insert_with(|| Watched::new(call));
            if call != its.call {
                *its = Watched::new(call);
                continue;
            }
            if its.since.elapsed() >= LONG {
                write_long_call(index, call, nanoseconds(its.since.elapsed()));
                if !its.is_asked {
                    its.is_asked = true;
                    waits::look(call);
                }
            }
            its.explain_if_long(slot);
            if its.since.elapsed() >= Audit::chosen().patience() {
                abort_if_chosen();
            }
        }
        look_again();
        quiet.look();
        steps = steps.wrapping_add(1);
        if !samples_run_short() || steps.is_multiple_of(SPARSE) {
            sample();
        }
        unloaded::forget_ended();
        ready::look();
        recording::record().header.beats.fetch_add(1, Ordering::Relaxed);
        let asleep = Instant::now();
        thread::sleep(STEP);
        // Calls didn't hang while a debugger had halted the process.
        let halted = Some(asleep.elapsed()).filter(|its| *its > HALTED).unwrap_or_default().min(forgivable);
        forgivable -= halted;
        watched.values_mut().for_each(|its| its.since += halted);
    }
}

/// The number of launches in each entry of the table of streams at the last sample.
static COUNTED: Locked<HashMap<usize, u64>> = Locked::new();

/// Records how many kernels were launched in each stream since the last sample.
fn sample() {
    let mut counted = COUNTED.lock();
    let now = now();
    let mut samples = BTreeMap::new();
    for (entry, Stream { handle, kernel, launches, .. }) in launches::streams() {
        let since = launches.wrapping_sub(counted.insert(entry, launches).unwrap_or(0));
        if since > 0 {
            let (all, last) = samples.entry(handle).or_insert((0_u64, kernel));
            (*all, *last) = (*all + since, kernel);
        }
    }
    for (stream, (launches, kernel)) in samples {
        let launches = u32::try_from(launches).unwrap_or(u32::MAX);
        write_sample(now, stream, launches, &handles::name_of(kernel).unwrap_or_default());
    }
}

/// Says that a call compiles, if it loads PTX and no stream that was used is busy: then there is nothing that the load could wait for.
fn says_that_it_compiles(call: InProgress, waited: Duration) -> bool {
    let InProgress { thread, call, .. } = call;
    let Some(image) = handles::find_loading(thread).filter(|image| image.format.is_compiled()) else {
        return false;
    };
    let is_idle = busy::find_beside_hang().is_some_and(|busy| busy.is_empty());
    if is_idle {
        say(&format!(
            "COMPILING for {:.1} s: `{}` of a {} of {} bytes, in thread {thread}; no stream that was used is busy. `--record FILE` keeps \
             the machine code, and `--preload FILE` loads it",
            waited.as_secs_f64(),
            call::name(call - 1),
            image.format.as_str(),
            image.bytes
        ));
    }
    is_idle
}

/// Records what a call waits for, and says so on the standard error output.
fn explain(slot: &'static Slot, call: InProgress, since: Instant) {
    let (hook, waited) = (call.call - 1, since.elapsed());
    let InProgress { thread, subject: handle, stream, .. } = call;
    let (name, kernel) = (call::name(hook), handles::name_of(handle));
    let Caller { library, name: caller, stack } = stack::capture(slot, call::address(hook));
    let Found { explanation, rule, may_end, resident } = explanation::explain(HangingCall {
        name,
        is_loaded: !call.loads,
        subject: handle,
        stream,
        thread,
        others: others(thread),
    });
    let took = nanoseconds(waited);
    let begun = now().saturating_sub(took);
    let (image, loading) = (handles::image_of(handle), handles::find_loading(thread));
    let subject = match (kernel.as_deref(), &loading) {
        (Some(symbol), _) => Subject::Kernel { symbol, image: image.as_ref().map(Image::as_ref) },
        (None, Some(image)) => Subject::Image(image.as_ref()),
        (None, None) => Subject::Nothing,
    };
    let event = write_event(NewEvent {
        kind: Kind::Hang,
        call: name,
        thread,
        stream,
        subject,
        begun,
        took,
        result: CUresult::CUDA_ERROR_NOT_READY as u32,
        is_finding: true,
        rule,
        resident: &resident,
        library: &library,
        caller: &caller,
        stack: &stack,
        explanation: Some(&explanation),
        ..NewEvent::default()
    });
    let hanging = Hanging {
        call: name,
        kernel: kernel.as_deref(),
        thread,
        stream,
        caller: &caller,
        uses_kernel_registry: recording::uses_kernel_registry(),
        explanation: &explanation,
    };
    if explanation.aborts_after_ms.is_some() {
        allow_debugger();
    }
    // The message comes after the event, because the command reads the record, and because a message can take a while.
    say_hang(begun, &format!("HANG for {:.1} s:\n{}", waited.as_secs_f64(), hanging.in_words(&stack)));
    if !may_end {
        abort_if_chosen();
    }
    if let Some(event) = event {
        HANGS.lock().push(Hang { slot, call, since, event });
    }
}

/// Lets the command look at the GPUs of this process, also where only parents may debug (`kernel.yama.ptrace_scope` 1).
fn allow_debugger() {
    let Some((debugger, namespace)) = Audit::chosen().debugger.as_ref() else { return };
    // In a namespace of its own, the number is another process's.
    if fs::read_link("/proc/self/ns/pid").is_ok_and(|own| own == *namespace) {
        // SAFETY: the call takes numbers. Without Yama it fails, and isn't needed.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(*debugger), 0, 0, 0) };
    }
}

fn abort_if_chosen() {
    if Audit::chosen().on_hang == OnHang::Abort {
        end::abort();
    }
}

/// Lists the other threads that are in a call.
fn others(thread: u32) -> Vec<ThreadInCall> {
    let in_call = slots::slots().filter_map(|(_, slot)| slot.in_progress());
    let others = in_call.filter(|call| call.thread != thread);
    others.map(|call| ThreadInCall { thread: call.thread, call: call::name(call.call - 1).into() }).collect()
}
