//! Preloading: loads what a file names in each context, as soon as there is one. When the program then loads the same image, it gets what
//! was preloaded.

mod file;
mod load;

use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::options::{Audit, PreloadAt};
use crate::preload::{How, Origin, Preload};
use crate::record::Kind;
use crate::watch::locked::Locked;
use crate::watch::recording::{NewEvent, now, write_event};
use crate::watch::say::say;
use crate::watch::{contexts, section};

/// What was preloaded in this process.
static STATE: Locked<State> = Locked::new();

/// Lets one thread preload at a time. A second thread in the same context waits here, so that it loads nothing late meanwhile.
static TURN: Locked<()> = Locked::new();

/// Locked while an image is used here, which another thread may want to unload.
static IN_USE: Locked<()> = Locked::new();

/// Whether there is anything that the program could take.
static ANY: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct State {
    images: Vec<Loaded>,
    /// The contexts in which it was done.
    contexts: HashSet<u64>,
}

/// An image that was preloaded.
struct Loaded {
    origin: Origin,
    code: &'static [u8],
    handle: u64,
    /// The context of a module; 0 for a library, which belongs to all.
    context: u64,
    /// Whether the program has taken it.
    is_taken: bool,
}

/// Whether there is anything to take.
fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Takes the handle of an image that was preloaded. Each is taken once: the program may unload it.
pub(crate) fn take(image: &[u8], how: How) -> Option<u64> {
    if !any() {
        return None;
    }
    let context = if how == How::Module { contexts::current() } else { 0 };
    let mut state = STATE.lock();
    let fits = |loaded: &&mut Loaded| {
        !loaded.is_taken && (loaded.origin.how, loaded.context) == (how, context) && loaded.code == image
    };
    let loaded = state.images.iter_mut().find(fits)?;
    loaded.is_taken = true;
    Some(loaded.handle)
}

/// Forgets an image that the program unloads, once nothing here uses it.
pub(crate) fn forget(handle: u64) {
    if any() {
        let _unused = IN_USE.lock();
        STATE.lock().images.retain(|loaded| loaded.handle != handle);
    }
}

/// Forgets what was preloaded in a context that is gone.
pub(crate) fn forget_context(context: u64) {
    if any() {
        let mut state = STATE.lock();
        state.contexts.remove(&context);
        state.images.retain(|loaded| loaded.context != context);
    }
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
    PLAN.get_or_init(read).as_ref()
}

/// Preloads in a context that was made or retained, unless the program wants to say when.
pub(crate) fn in_new_context(context: u64) {
    if Audit::chosen().preload_at == PreloadAt::Context {
        in_context(context);
    }
}

/// Preloads in the current context now, if a file is given. Returns how many of its kernels are loaded, or -1 if there is no context, or
/// nothing to preload. Programs in any language call it.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub extern "C" fn kernel_registry_audit_preload() -> i32 {
    match contexts::current() {
        0 => -1,
        context => in_context(context).map_or(-1, |count| i32::try_from(count).unwrap_or(i32::MAX)),
    }
}

/// Preloads in a context, once. Returns how many kernels were loaded.
fn in_context(context: u64) -> Option<usize> {
    let plan = plan()?;
    ANY.store(true, Ordering::Relaxed);
    let _turn = TURN.lock();
    if !STATE.lock().contexts.insert(context) {
        return None;
    }
    if section::find_in_context(context).is_some() {
        failed("everything", "", "a kernel is resident, and loading would wait for it; preload before that");
        return Some(0);
    }
    let all = || {
        let mode = contexts::exchange_capture_mode(contexts::RELAXED);
        let count = load::all(plan);
        contexts::exchange_capture_mode(mode);
        count
    };
    contexts::within(context, all)
}

/// Records that a kernel, or an image, was preloaded.
fn done(subject: &str, image: &str, begun: u64) {
    write_event(event(subject, image, NewEvent { begun, took: now() - begun, ..NewEvent::default() }));
}

/// Records that something was not preloaded, and why.
fn failed(subject: &str, image: &str, why: &str) {
    write_event(event(
        subject,
        image,
        NewEvent { begun: now(), result: u32::MAX, text: why, ..NewEvent::default() },
    ));
}

fn event<'a>(subject: &'a str, image: &'a str, event: NewEvent<'a>) -> NewEvent<'a> {
    NewEvent { kind: Kind::Preload, call: "preload", context: contexts::current(), subject, image, ..event }
}
