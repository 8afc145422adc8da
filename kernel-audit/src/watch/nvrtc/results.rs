//! Results that are kept: in memory, in the folder of a recording, and in the one beside a preload.

use std::collections::{HashMap, HashSet};
use std::io;
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::key::Keys;
use super::looking::is_as_it_was;
use crate::kept::{self, Digest, Kept};
use crate::options::Audit;
use crate::preload::images;
use crate::watch::preload;
use crate::watch::process::fork;
use crate::watch::process::locked::Locked;
use crate::watch::process::say::say;
use crate::watch::process::system::thread_number;
use crate::watch::record::recording::may_be;

/// The most bytes of results in memory.
const MOST: u64 = 256 << 20;

/// How often a thread looks whether another one has compiled the same, and for how long.
const STEP: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Default)]
struct State {
    by_key: HashMap<Digest, Arc<Kept>>,
    bytes: u64,
    /// The programs that are being compiled, each with the process and the thread that does it.
    compiling: HashMap<Digest, (u32, u32)>,
    /// Programs that failed, or for whose results there was no room. Nobody waits for these again.
    without_result: HashSet<Digest>,
    /// Whether it was said that a result cannot be written, or read.
    was_said: bool,
}

/// A forked child has the results of its parent.
static STATE: Locked<State> = Locked::new();

/// What to do for a program.
pub(super) enum Found {
    /// Give this back.
    Kept(Arc<Kept>),
    /// Compile it: others wait.
    Missing(Compiling),
}

/// A program that this thread compiles. Other threads that compile the same wait until this is dropped.
pub(super) struct Compiling {
    key: Digest,
    by: (u32, u32),
    has_result: bool,
}

impl Drop for Compiling {
    fn drop(&mut self) {
        let mut state = STATE.lock_inherited();
        if state.compiling.get(&self.key) == Some(&self.by) {
            state.compiling.remove(&self.key);
        }
        if !self.has_result {
            state.without_result.insert(self.key);
        }
    }
}

/// Finds a result that holds for a program whose name has this folder: in memory, or in the folder beside the preload. Waits for another thread that
/// compiles the same.
pub(super) fn find(keys: Keys, folder: &[u8]) -> Found {
    let (begun, by) = (Instant::now(), (fork::generation(), thread_number()));
    let key = keys.anywhere.unwrap_or(keys.exact);
    let all = || [Some(keys.exact), keys.anywhere].into_iter().flatten();
    let holds = |kept: &Arc<Kept>| is_as_it_was(&kept.looked, folder);
    loop {
        let remembered: Vec<_> = {
            let state = STATE.lock_inherited();
            all().filter_map(|key| state.by_key.get(&key).cloned()).collect()
        };
        if let Some(kept) = remembered.into_iter().find(holds) {
            return Found::Kept(kept);
        }
        let mut state = STATE.lock_inherited();
        let other = state.compiling.get(&key).copied().filter(|_| !state.without_result.contains(&key));
        match other.filter(|other| *other != by && is_there(*other)) {
            Some(_) if begun.elapsed() < TIMEOUT => {}
            _ => {
                state.compiling.insert(key, by);
                break;
            }
        }
        drop(state);
        thread::sleep(STEP);
    }
    let compiling = Compiling { key, by, has_result: false };
    match all().find_map(|key| preloaded(&key).filter(|kept| is_as_it_was(&kept.looked, folder))) {
        Some(kept) => Found::Kept(remember(kept)),
        None => Found::Missing(compiling),
    }
}

/// Whether a thread is one of this process, and has not ended: a thread that is cancelled leaves its compilation without a word.
fn is_there((generation, thread): (u32, u32)) -> bool {
    // SAFETY: signal 0 is none, and only asks for the thread.
    generation == fork::generation()
        && unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) } == 0
}

impl Compiling {
    /// Keeps the result, for this process and for the recording.
    pub(super) fn keep(&mut self, kept: Kept) {
        if let Some(folder) = &Audit::chosen().images {
            let size = usize::try_from(kept.size()).unwrap_or(usize::MAX);
            let written = match may_be(size.saturating_add(1 << 16)) {
                true => kept::keep(folder, &kept),
                false => Err(io::Error::other("this process may not write files of that size")),
            };
            if let Err(error) = written {
                say_once(&format!("what NVRTC compiles is not kept in `{}`: {error}", folder.display()));
            }
        }
        let kept = remember(kept);
        self.has_result = STATE.lock_inherited().by_key.contains_key(&kept.key);
    }
}

fn remember(kept: Kept) -> Arc<Kept> {
    let kept = Arc::new(kept);
    let mut state = STATE.lock_inherited();
    if let Some(before) = state.by_key.remove(&kept.key) {
        state.bytes -= before.size();
    }
    if state.bytes + kept.size() <= MOST {
        state.bytes += kept.size();
        state.by_key.insert(kept.key, kept.clone());
    }
    kept
}

/// The result that the preload names for this key, if its file can be trusted.
fn preloaded(key: &Digest) -> Option<Kept> {
    let compiled = preload::plan()?.compiled.get(key)?;
    let folder = images(Audit::chosen().preload.as_deref()?);
    match kept::read(&folder, key, Some(&compiled.digest)) {
        Ok(kept) => Some(kept),
        Err(error) => {
            say_once(&format!(
                "`{}` is compiled again: `{}` in `{}` is not used: {error}",
                compiled.name,
                kept::file_name(key),
                folder.display()
            ));
            None
        }
    }
}

/// Says the first of such messages: there can be one for each program.
fn say_once(text: &str) {
    let was_said = mem::replace(&mut STATE.lock_inherited().was_said, true);
    if !was_said {
        say(text);
    }
}
