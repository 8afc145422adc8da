//! Results that are kept: in memory, in the folder of a recording, and in the one beside a preload.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::kept::{self, Digest, Kept};
use crate::options::Audit;
use crate::preload::images;
use crate::watch::preload;
use crate::watch::process::fork;
use crate::watch::process::say::say;
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
    /// The programs that are being compiled, each with the process that does it: a forked child lacks that thread.
    compiling: HashSet<(Digest, u32)>,
    /// Whether it was said that a result cannot be written, or read.
    was_said: bool,
}

/// Only used while no thread forks, so a child finds it as it was.
static STATE: Mutex<Option<State>> = Mutex::new(None);

fn with<T>(act: impl FnOnce(&mut State) -> T) -> T {
    fork::undivided(|| act(STATE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default()))
}

/// What to do for a program.
pub(super) enum Found {
    /// Give this back.
    Kept(Arc<Kept>),
    /// Compile it: others wait.
    Missing(Compiling),
}

/// A program that this thread compiles. Other threads that compile the same wait until this is dropped.
pub(super) struct Compiling(Digest, u32);

impl Drop for Compiling {
    fn drop(&mut self) {
        with(|state| state.compiling.remove(&(self.0, self.1)));
    }
}

/// Finds a result: in memory, or in the folder beside the preload. Waits for another thread that compiles the same.
pub(super) fn find(key: Digest) -> Found {
    let (begun, process) = (Instant::now(), fork::generation());
    loop {
        let found = with(|state| match state.by_key.get(&key) {
            Some(kept) => Some(Some(kept.clone())),
            None if state.compiling.insert((key, process)) || begun.elapsed() > TIMEOUT => Some(None),
            None => None,
        });
        match found {
            Some(Some(kept)) => return Found::Kept(kept),
            Some(None) => break,
            None => thread::sleep(STEP),
        }
    }
    let compiling = Compiling(key, process);
    match preloaded(&key) {
        Some(kept) => Found::Kept(remember(kept)),
        None => Found::Missing(compiling),
    }
}

/// Keeps a result, for this process and for the recording.
pub(super) fn keep(kept: Kept) {
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
    remember(kept);
}

fn remember(kept: Kept) -> Arc<Kept> {
    let kept = Arc::new(kept);
    with(|state| {
        if state.bytes + kept.size() <= MOST {
            state.bytes += kept.size();
            state.by_key.insert(kept.key, kept.clone());
        }
    });
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
    if !with(|state| std::mem::replace(&mut state.was_said, true)) {
        say(text);
    }
}
