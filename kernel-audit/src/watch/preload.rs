//! Preloading: loads what a file names in each context, as soon as there is one. When the program then loads the same image, it gets what
//! was preloaded.

mod file;
mod load;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUlimit, CUresult};

use crate::options::{Audit, PreloadAt};
use crate::preload::{How, Origin, Preload};
use crate::record::Kind;
use crate::watch::known::handles::{self, Content};
use crate::watch::known::{contexts, limits};
use crate::watch::process::fork;
use crate::watch::process::locked::Locked;
use crate::watch::process::say::say;
use crate::watch::record::recording::{self, NewEvent, now, write_event};
use crate::watch::record::watched;

/// What was preloaded in this process.
static STATE: Locked<State> = Locked::new();

/// Whether there is anything that the program could take.
static ANY: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct State {
    /// The handles that the program has not taken.
    images: HashMap<(Content, Context), Vec<u64>>,
    /// How many images were loaded.
    loads: u64,
    /// The contexts in which it was done or is being done, by their ids: the next context can have the address of one that is gone.
    contexts: HashMap<u64, Progress>,
    /// The images that are being loaded.
    loading: Vec<(Origin, Context)>,
    /// The images that are used here now, and that another thread may want to unload.
    in_use: Vec<u64>,
    /// The libraries of our own kernels, by their images.
    primes: HashMap<usize, u64>,
    /// What became of kernels and images, in events that the record has no room for.
    unrecorded: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Begun,
    /// Something ran on the device. The program can say when it is time again.
    Left,
    Done,
}

/// The address of a context, and its id.
type Context = (u64, u64);

const ALL: Context = (0, 0);

/// The context that an image loaded now belongs to.
fn context_of(how: How) -> Context {
    if how == How::Module { contexts::current_with_id() } else { ALL }
}

/// What a preload calls an image, if it names one with these bytes, which have this hash.
pub(crate) fn content(how: How, hash: u64, image: &[u8]) -> Option<Content> {
    type Key = (How, u64, u64);
    static NAMED: OnceLock<HashMap<Key, Vec<&Origin>>> = OnceLock::new();
    let plan = plan()?;
    let named = NAMED.get_or_init(|| {
        let mut named: HashMap<Key, Vec<_>> = HashMap::new();
        for origin in plan.images.keys() {
            named.entry((origin.how, origin.bytes, origin.hash)).or_default().push(origin);
        }
        named
    });
    let same = named.get(&(how, image.len() as u64, hash))?;
    let code = same.iter().filter_map(|origin| file::read(origin).ok()).find(|code| *code == image)?;
    Some(content_of(how, code))
}

/// What an image is called that was read from a file.
fn content_of(how: How, code: &'static [u8]) -> Content {
    (how, code.as_ptr().addr())
}

/// Takes the handle of an image that was preloaded. Each is taken once: the program may unload it.
pub(crate) fn take(content: Content) -> Option<u64> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let context = context_of(content.0);
    let mut state = STATE.lock();
    let handles = state.images.get_mut(&(content, context)).filter(|handles| !handles.is_empty())?;
    Some(handles.remove(0))
}

/// Forgets an image that the program unloads, once nothing here uses it, with all that is known of it.
pub(crate) fn forget(handle: u64) {
    loop {
        let state = STATE.lock();
        if !state.in_use.contains(&handle) {
            // While the lock is held: nobody begins to use it.
            return handles::forget_image(handle);
        }
        drop(state);
        thread::sleep(STEP);
    }
}

/// Forgets what was preloaded in a context that is gone.
pub(crate) fn forget_context(context: u64) {
    STATE.lock().images.retain(|(_, (its, _)), _| *its != context);
}

/// What the file names, if there is one that can be read.
fn plan() -> Option<&'static Preload> {
    static PLAN: OnceLock<Option<Preload>> = OnceLock::new();
    let read = || {
        let path = Audit::chosen().preload.as_ref()?;
        match Preload::read(path) {
            Ok(preload) => Some(preload),
            Err(why) => {
                say(&format!("nothing is preloaded: `{}`: {why}", path.display()));
                None
            }
        }
    };
    fork::once(&PLAN, read).as_ref()
}

/// Whether to preload in each context that is made or retained. Otherwise the program says when.
pub(crate) fn is_due_with_contexts() -> bool {
    let options = Audit::chosen();
    options.preload.is_some() && options.preload_at == PreloadAt::Context
}

/// Preloads in the current context now, if a file is given. Returns how many of its kernels are loaded, or -1 if there is no context, or
/// nothing to preload. Programs in any language call it.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub extern "C" fn kernel_registry_audit_preload() -> i32 {
    let context = contexts::current();
    if context == 0 {
        return -1;
    }
    let id = contexts::id(context);
    STATE.lock().contexts.retain(|its, progress| *its != id || *progress != Progress::Left);
    in_context(context).map_or(-1, |count| i32::try_from(count).unwrap_or(i32::MAX))
}

/// How often a thread looks whether another one is ready.
const STEP: Duration = Duration::from_millis(1);

/// How long a thread waits for another one that preloads the same. The other one may wait for a kernel that this thread ends.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Preloads in a context, once. A second thread in the same context waits, so that it loads nothing late meanwhile. Returns how many kernels
/// were loaded.
pub(crate) fn in_context(context: u64) -> Option<usize> {
    let plan = plan()?;
    ANY.store(true, Ordering::Relaxed);
    let (id, since) = (contexts::id(context), Instant::now());
    while let Some(progress) = begin(id) {
        if progress != Progress::Begun || since.elapsed() > TIMEOUT {
            return None;
        }
        wait_a_step();
    }
    let all = || load::all(plan);
    let (count, is_whole) = within(context, all).unwrap_or((0, false));
    record_rest();
    let progress = if is_whole { Progress::Done } else { Progress::Left };
    STATE.lock().contexts.insert(id, progress);
    Some(count)
}

/// The result of setting a limit. Once printf and the heap are primed, the driver refuses to set their sizes. After a preload has primed them, the call
/// succeeds if they are large enough.
pub(crate) fn answer_to_limit(which: CUlimit, bytes: usize, answer: CUresult) -> CUresult {
    let is_set_up = || STATE.lock().contexts.get(&contexts::current_with_id().1) == Some(&Progress::Done);
    if answer != CUresult::CUDA_ERROR_INVALID_VALUE || !ANY.load(Ordering::Relaxed) || !is_set_up() {
        return answer;
    }
    let its = limits::limit(which).unwrap_or(0);
    if its >= bytes {
        return CUresult::CUDA_SUCCESS;
    }
    if let (Some(name), Some(_)) = (limits::name_of(which), plan().filter(|plan| !plan.prime.is_nothing())) {
        let line = name.split(' ').next().unwrap_or(name);
        say(&format!(
            "the {name} has {its} bytes since it was preloaded, and cannot get {bytes}: write `{line} {bytes}` into the preload, or record again"
        ));
    }
    answer
}

/// Does something in a context, whatever this thread captures. `None` if the context is gone, or the driver refuses it, which is recorded.
fn within<T>(context: u64, act: impl FnOnce() -> T) -> Option<T> {
    let uncaptured = || {
        let mode = contexts::exchange_capture_mode(contexts::RELAXED);
        let result = act();
        contexts::exchange_capture_mode(mode);
        result
    };
    let result = contexts::within(context, uncaptured);
    if result.is_none() {
        failed("everything", "", "the driver does not make the context current");
    }
    result
}

/// Waits a moment for another thread. As long as that gets on, this is no hang.
fn wait_a_step() {
    watched::get_on(STATE.lock().loads);
    thread::sleep(STEP);
}

/// Begins with a context, or returns what became of it before.
fn begin(id: u64) -> Option<Progress> {
    match STATE.lock().contexts.entry(id) {
        Entry::Occupied(entry) => Some(*entry.get()),
        Entry::Vacant(entry) => {
            entry.insert(Progress::Begun);
            None
        }
    }
}

/// Records that a kernel, or an image, was preloaded.
fn done(subject: &str, image: &str, begun: u64) {
    record(subject, image, NewEvent { begun, took: now() - begun, ..NewEvent::default() });
}

/// Records that an image was preloaded.
fn image_done(origin: &Origin, words: &str, begun: u64) {
    let origin = &origin.to_string();
    record(load::IMAGE, words, NewEvent { begun, took: now() - begun, origin, ..NewEvent::default() });
}

/// Records that something was not preloaded, and why.
fn failed(subject: &str, image: &str, why: &str) {
    record(subject, image, NewEvent { begun: now(), result: u32::MAX, text: why, ..NewEvent::default() });
}

/// Leaves half of the record to the program.
fn record(subject: &str, image: &str, event: NewEvent<'_>) {
    if recording::is_half_full() {
        STATE.lock().unrecorded += 1;
    } else {
        write(subject, image, event);
    }
}

/// Records once how many events had no room.
fn record_rest() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    let unrecorded = STATE.lock().unrecorded;
    if unrecorded > 0 && !ONCE.swap(true, Ordering::Relaxed) {
        let text = "the record has no room to say what became of it; `--events NUMBER` makes more";
        let event = NewEvent { begun: now(), result: u32::MAX, text, ..NewEvent::default() };
        write(&format!("{unrecorded} more"), "", event);
    }
}

fn write(subject: &str, image: &str, event: NewEvent<'_>) {
    let (kind, call, context) = (Kind::Preload, "preload", contexts::current());
    write_event(NewEvent { kind, call, context, subject, image, ..event });
}
