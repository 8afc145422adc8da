//! Loads the images and kernels listed in a file into each context as soon as it exists. When the program
//! loads the same image later, it gets the preloaded one.

pub(crate) mod baked;
mod file;
mod load;
mod outcome;
mod state;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use cudarc::driver::sys::{CUlimit, CUresult};

use crate::options::{Audit, PreloadAt};
use crate::preload::{How, Origin, Preload};
use crate::record::Subject;
use crate::watch::known::handles::{self, Content};
use crate::watch::known::{contexts, limits};
use crate::watch::process::fork;
use crate::watch::process::say::say;
use crate::watch::record::recording;
use outcome::{failed, record_rest};
use state::{Progress, STATE, STEP, TIMEOUT, content_of, context_of, wait_a_step};

/// Whether anything was preloaded.
static ANY: AtomicBool = AtomicBool::new(false);

/// Finds the image with these bytes in the preload.
pub(crate) fn content(how: How, hash: u64, image: &[u8]) -> Option<Content> {
    type Key = (How, u64, u64);
    static NAMED: OnceLock<HashMap<Key, Vec<&Origin>>> = OnceLock::new();
    let plan = plan()?;
    let named = fork::once(&NAMED, || {
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

/// Takes the handle of a preloaded image. Each is handed out once, because the program may unload it.
pub(crate) fn take(content: Content) -> Option<u64> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let context = context_of(content.0);
    let mut state = STATE.lock();
    let handles = state.images.get_mut(&(content, context)).filter(|handles| !handles.is_empty())?;
    let handle = handles.remove(0);
    state.mark_used(handle);
    Some(handle)
}

/// Forgets an image that the program is about to unload. Waits while it's being preloaded from.
pub(crate) fn forget(handle: u64) {
    loop {
        let state = STATE.lock();
        if !state.in_use.contains(&handle) {
            // We hold the lock, so no thread starts to use the image.
            return handles::forget_image(handle);
        }
        drop(state);
        thread::sleep(STEP);
    }
}

/// Forgets the images that were preloaded in a destroyed context.
pub(crate) fn forget_context(context: u64) {
    STATE.lock().forget_context(context);
}

/// Returns the preload, if a file was given and can be read.
pub(crate) fn plan() -> Option<&'static Preload> {
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

/// Returns whether to preload in each context that's created or retained. Otherwise the program asks for it.
pub(crate) fn is_due_with_contexts() -> bool {
    let options = Audit::chosen();
    options.preload.is_some() && options.preload_at == PreloadAt::Context
}

/// Preloads in the current context. Returns the number of loaded kernels, or -1 without a context or a
/// preload. Programs in any language can call this.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub extern "C" fn kernel_registry_audit_preload() -> i32 {
    let context = contexts::current();
    if context == 0 || !recording::is_possible() {
        return -1;
    }
    let id = contexts::id(context);
    STATE.lock().contexts.retain(|its, progress| *its != id || *progress != Progress::Left);
    in_context(context).map_or(-1, |count| i32::try_from(count).unwrap_or(i32::MAX))
}

/// Preloads in a context, once, and returns the number of loaded kernels. Other threads in the context wait
/// for it, so that they load nothing late.
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
    let load = || load::load_all(plan);
    let (count, is_whole) = within(context, load).unwrap_or((0, false));
    record_rest();
    let progress = if is_whole { Progress::Done } else { Progress::Left };
    STATE.lock().contexts.insert(id, progress);
    Some(count)
}

/// Returns the result for a program that sets a limit. The driver refuses to set the sizes of printf buffer
/// and heap once they're primed. If that was our doing, the call succeeds if the sizes suffice.
pub(crate) fn answer_to_limit(which: CUlimit, bytes: usize, answer: CUresult) -> CUresult {
    let is_set_up = || STATE.lock().contexts.get(&contexts::current_with_id().1) == Some(&Progress::Done);
    if answer != CUresult::CUDA_ERROR_INVALID_VALUE || !ANY.load(Ordering::Relaxed) || !is_set_up() {
        return answer;
    }
    let its = limits::limit(which).unwrap_or(0);
    if its >= bytes {
        return CUresult::CUDA_SUCCESS;
    }
    if let (Some(limit), Some(_)) = (limits::limit_of(which), plan().filter(|plan| !plan.prime.is_nothing()))
    {
        let (name, line) = (limit.as_str(), crate::preload::word_of(limit));
        say(&format!(
            "the {name} has {its} bytes since it was preloaded, and can't get {bytes}: write `{line} {bytes}` into the preload, or record again"
        ));
    }
    answer
}

/// Calls `act` in a context, even if this thread is capturing. If the context can't be made current, records
/// that, and returns `None`.
fn within<T>(context: u64, act: impl FnOnce() -> T) -> Option<T> {
    let uncaptured = || {
        let mode = contexts::exchange_capture_mode(contexts::RELAXED);
        let result = act();
        contexts::exchange_capture_mode(mode);
        result
    };
    let result = contexts::within(context, uncaptured);
    if result.is_none() {
        failed(Subject::Rest, "the driver does not make the context current");
    }
    result
}

/// Starts to preload in a context. If that was started before, returns its progress.
fn begin(id: u64) -> Option<Progress> {
    match STATE.lock().contexts.entry(id) {
        Entry::Occupied(entry) => Some(*entry.get()),
        Entry::Vacant(entry) => {
            entry.insert(Progress::Begun);
            None
        }
    }
}
