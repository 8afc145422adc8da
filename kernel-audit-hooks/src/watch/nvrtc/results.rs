//! The kept results: looked up in the folder beside the preload, and written to the folder of a recording.

use std::io;
use std::mem;

use super::key::Keys;
use super::observed::check;
use crate::kept::{self, Digest, Kept};
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

/// Returns whether there are results that programs can be given.
pub(super) fn are_preloaded() -> bool {
    preload::plan().is_some_and(|plan| !plan.compiled.is_empty())
}

/// Finds the preloaded result for one of these keys that holds for a program whose name has this folder. Or why there's
/// none.
pub(super) fn find(keys: &Keys, folder: &[u8]) -> Result<Kept, String> {
    let mut why = "its result wasn't recorded".to_owned();
    for result in keys.all().filter_map(|key| read(&key)) {
        match result.and_then(|kept| check(&kept.dependencies, folder).map(|()| kept)) {
            Ok(kept) => return Ok(kept),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Finds such a result among those that were recorded before, by this process or another.
pub(super) fn find_recorded(keys: &Keys, folder: &[u8]) -> Option<Kept> {
    let images = Audit::chosen().images.as_deref()?;
    let mut all = keys.all().filter_map(|key| kept::read(images, &key, None).ok());
    all.find(|kept| check(&kept.dependencies, folder).is_ok())
}

/// Reads the result that the preload names for this key, if its file can be trusted.
fn read(key: &Digest) -> Option<Result<Kept, String>> {
    let compiled = preload::plan()?.compiled.get(key)?;
    let folder = images(Audit::chosen().preload.as_deref()?);
    Some(kept::read(&folder, key, Some(&compiled.digest)).map_err(|error| {
        let (name, file, folder) = (&compiled.name, kept::file_name(key), folder.display());
        say_once(&format!("`{name}` is compiled again: `{file}` in `{folder}` is not used: {error}"));
        format!("`{file}` isn't used: {error}")
    }))
}

/// Keeps a result for the recording.
pub(super) fn keep(kept: &Kept) {
    let Some(folder) = &Audit::chosen().images else { return };
    let size = usize::try_from(kept.size()).unwrap_or(usize::MAX);
    let written = match may_be(size.saturating_add(1 << 16)) {
        true => kept::keep(folder, kept),
        false => Err(io::Error::other("this process may not write files of that size")),
    };
    if let Err(error) = written {
        say_once(&format!("what NVRTC compiles is not kept in `{}`: {error}", folder.display()));
    }
}

/// Says the first of such messages: there can be one for each program.
fn say_once(text: &str) {
    static WAS_SAID: Locked<bool> = Locked::new();
    if !WAS_SAID.with(|was_said| mem::replace(was_said, true)) {
        say(text);
    }
}
