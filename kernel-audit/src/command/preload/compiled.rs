//! Results of NVRTC for a preload: those of this run and those that were named before, in the folder beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::command::process::Audit;
use crate::kept::{Cached, Digest, file_name, read, store};
use crate::preload::Compiled;
use crate::record::Kind;

/// The most bytes of all results. The oldest go first.
const MOST: u64 = 1 << 30;

/// Copies results to a folder: what these processes have compiled, and what `earlier` names. Returns what the preload names then; `others` gets what
/// cannot be kept, in words.
pub(super) fn copy(
    audit: &Audit,
    earlier: &BTreeMap<Digest, Compiled>,
    folder: &Path,
    others: &mut BTreeSet<String>,
) -> BTreeMap<Digest, Compiled> {
    let mut all = BTreeMap::new();
    for (key, compiled) in earlier {
        let from = &compiled.folder;
        let written = from.join(file_name(key)).metadata().and_then(|its| its.modified());
        match read(from, key, Some(&compiled.digest)) {
            Ok(kept) => drop(all.insert(*key, (kept, written.unwrap_or(SystemTime::UNIX_EPOCH)))),
            Err(why) => drop(others.insert(format!("what NVRTC made of {}: {why}", compiled.name))),
        }
    }
    let copies: Vec<_> = audit.copies.iter().collect();
    for (key, name) in compilations(audit) {
        match find(&copies, &key) {
            Some(kept) => drop(all.insert(key, (kept, SystemTime::now()))),
            // A process that was not given what another one had compiled did so again.
            None if all.contains_key(&key) => {}
            None => drop(others.insert(format!("what NVRTC made of {name}: no copy of it could be kept"))),
        }
    }
    let mut newest_first: Vec<_> = all.into_values().collect();
    newest_first.sort_by_key(|(_, written)| std::cmp::Reverse(*written));
    let (mut compiled, mut bytes) = (BTreeMap::new(), 0);
    for (kept, _) in newest_first {
        bytes += kept.size();
        if bytes > MOST {
            others.insert(format!("what NVRTC made of {}: newer results fill {MOST} bytes", kept.name));
            continue;
        }
        match store(folder, &kept) {
            Ok(()) => {
                let named = Compiled::new(Digest::new(&kept.encode()), &kept.name, folder);
                compiled.insert(kept.key, named);
            }
            Err(why) => {
                let folder = folder.display();
                others.insert(format!(
                    "what NVRTC made of {}: it can't be stored in `{folder}`: {why}",
                    kept.name
                ));
            }
        }
    }
    compiled
}

/// The keys of what NVRTC has compiled, with the names of the programs.
fn compilations(audit: &Audit) -> impl Iterator<Item = (Digest, &str)> {
    let compiled = audit.events().filter(|event| event.kind == Kind::Compile && event.result == 0);
    let programs = compiled.filter_map(|event| event.subject.program());
    programs.filter_map(|program| Some((program.key.parse().ok()?, &*program.name)))
}

/// The result with this key, in one of these folders.
fn find(folders: &[&PathBuf], key: &Digest) -> Option<Cached> {
    folders.iter().find_map(|folder| read(folder, key, None).ok())
}
