//! Lookup of cached results in the preload's folder, and storing of new ones in the recording's.

use std::io;
use std::mem;

use super::key::Keys;
use super::observed::check;
use crate::kept::{self, Cached, Digest};
use crate::options::Audit;
use crate::preload::images;
use crate::watch::preload;
use crate::watch::process::locked::Locked;
use crate::watch::process::say::say;
use crate::watch::record::recording::may_be;

/// Returns whether results are recorded.
pub(super) fn are_recorded() -> bool {
    Audit::chosen().images.is_some()
}

/// Returns whether the preload has results to serve.
pub(super) fn are_preloaded() -> bool {
    preload::plan().is_some_and(|plan| !plan.compiled.is_empty())
}

/// Finds a preloaded result for a key that is valid with this folder in the program's name, or why not.
pub(super) fn find(keys: &Keys, folder: &[u8]) -> Result<Cached, String> {
    let mut why = "its result wasn't recorded".to_owned();
    for result in keys.all().filter_map(|key| read(&key)) {
        match result.and_then(|cached| check(&cached.dependencies, folder).map(|()| cached)) {
            Ok(cached) => return Ok(cached),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Finds such a result that this recording has already, from this process or another.
pub(super) fn find_recorded(keys: &Keys, folder: &[u8]) -> Option<Cached> {
    let images = Audit::chosen().images.as_deref()?;
    let mut all = keys.all().filter_map(|key| kept::read(images, &key, None).ok());
    all.find(|cached| check(&cached.dependencies, folder).is_ok())
}

/// Reads the result that the preload lists for this key, if its file can be trusted.
fn read(key: &Digest) -> Option<Result<Cached, String>> {
    let compiled = preload::plan()?.compiled.get(key)?;
    let folder = images(Audit::chosen().preload.as_deref()?);
    Some(kept::read(&folder, key, Some(&compiled.digest)).map_err(|error| {
        let (name, file, folder) = (&compiled.name, kept::file_name(key), folder.display());
        say_once(&format!("`{name}` is compiled again: `{file}` in `{folder}` isn't used: {error}"));
        format!("`{file}` isn't used: {error}")
    }))
}

/// Stores a result in the recording's folder.
pub(super) fn store(cached: &Cached) {
    let Some(folder) = &Audit::chosen().images else { return };
    let size = usize::try_from(cached.size()).unwrap_or(usize::MAX);
    let written = match may_be(size.saturating_add(1 << 16)) {
        true => kept::store(folder, cached),
        false => Err(io::Error::other("this process may not write files of this size")),
    };
    if let Err(error) = written {
        say_once(&format!("results of NVRTC can't be cached in `{}`: {error}", folder.display()));
    }
}

/// Prints the first such message only: there could be one for each program.
fn say_once(text: &str) {
    static WAS_SAID: Locked<bool> = Locked::new();
    if !WAS_SAID.with(|was_said| mem::replace(was_said, true)) {
        say(text);
    }
}
