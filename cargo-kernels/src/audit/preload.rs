//! Preloads: the file for the next run, made of this run's findings; and what became of the file that this run was given.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::mem;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use kernel_registry_audit::preload::{How, IN_CONTEXT, Origin, Preload, hash, images, keep_copy};
use kernel_registry_audit::record::{Event, Kind};
use kernel_registry_format::{Needs, rules};
use kernel_registry_image::{newest_variant, read as read_image};

use super::absolute;
use super::process::{Audit, Process, is_finding};
use super::text::paragraph;
use super::words::{Time, short, subject};
use crate::failure::Failure;
use crate::kernel_name::readable;
use crate::page;
use crate::plural::many;
use crate::terminal;

/// Reads a preload. Its copies of images can have been moved with it.
pub(super) fn read(path: &Path) -> Result<Preload, Failure> {
    let mut preload = Preload::read(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => Failure::NoPreload { path: path.to_owned(), why: error.to_string() },
        _ => Failure::of_io(path)(error),
    })?;
    let folder = images(&absolute(path)?);
    replace_copies(&mut preload, |origin| {
        let moved = folder.join(Path::new(&origin.path).file_name()?);
        (!Path::new(&origin.path).exists() && moved.exists()).then_some(moved)
    });
    Ok(preload)
}

/// Writes a preload: what was late in these processes, and what `earlier` names. Copies of images go to the folder beside it; those that it
/// does not name are deleted there.
pub(super) fn record(file: &Path, audit: &Audit, earlier: Preload) -> Result<(), Failure> {
    let (mut preload, comments, unrecorded) = recorded(audit, earlier);
    let folder = images(&absolute(file)?);
    replace_copies(&mut preload, |origin| keep_copy(&folder, &content(origin)?, origin.hash).ok());
    page::write(file, &format!("{preload}{comments}"))?;
    let (kernels, images) = (many(preload.kernels(), "kernel"), many(preload.images.len(), "image"));
    let not = if unrecorded > 0 {
        format!("; {unrecorded} more cannot be, for reasons that stand there")
    } else {
        String::new()
    };
    terminal::say(format_args!("`{}` has {kernels} of {images} for `--preload`{not}", file.display()));
    let named: BTreeSet<&Path> = preload.images.keys().map(|origin| Path::new(&origin.path)).collect();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_copy = path.extension().is_some_and(|extension| extension == "image");
        if is_copy && !named.contains(&*path) {
            fs::remove_file(&path).map_err(Failure::of_io(&path))?;
        }
    }
    // It goes only if it is empty.
    let _ = fs::remove_dir(&folder);
    Ok(())
}

/// Names other files for the copies of a preload, where there are any. Two copies can become one.
fn replace_copies(preload: &mut Preload, other: impl Fn(&Origin) -> Option<PathBuf>) {
    for (mut origin, wanted) in mem::take(&mut preload.images) {
        if origin.is_copy()
            && let Some(path) = other(&origin).and_then(|path| Some(path.to_str()?.to_owned()))
        {
            origin.path = path;
        }
        let mut replaced = Preload::default();
        replaced.images.insert(origin, wanted);
        preload.merge(replaced);
    }
}

/// The preload, comments on it, and how many late loads cannot be preloaded.
fn recorded(audit: &Audit, earlier: Preload) -> (Preload, String, usize) {
    let (mut preload, mut others) = (earlier, BTreeSet::new());
    for process in &audit.processes {
        let late = late(process, &mut others);
        preload.merge(needed(&late));
        preload.merge(late);
    }
    let mut comments = String::new();
    let mut comment =
        |words: String| _ = writeln!(comments, "# {}", words.replace(char::is_control, "\u{fffd}"));
    for process in &audit.processes {
        let found = many(process.findings().count(), "finding");
        let ready =
            if was_never_ready(process) { ", never said to be ready, so all that it loaded" } else { "" };
        comment(format!("{}, `{}`: {found}{ready}", process.name, short(&process.report.command)));
    }
    let unrecorded = others.len();
    others.into_iter().for_each(|words| comment(format!("not to be preloaded: {words}")));
    (preload, comments, unrecorded)
}

/// Whether a process never said that it was ready. Then all that it loaded counts.
fn was_never_ready(process: &Process) -> bool {
    process.report.ready.is_none()
}

/// What was late in a process. `others` are the findings that cannot be preloaded, in words.
fn late(process: &Process, others: &mut BTreeSet<String>) -> Preload {
    let mut preload = Preload::default();
    // A module is loaded for each context.
    let mut times: BTreeMap<(Origin, u64), u32> = BTreeMap::new();
    let is_late = |event: &&Event| was_never_ready(process) || is_finding(event);
    for event in process.report.events.iter().filter(is_late) {
        preload.stack = preload.stack.max(stack(event).unwrap_or(0));
        // Images that the driver refused, because they have nothing for this device.
        if event.result != 0 && event.kind != Kind::Refused && event.kind != Kind::Hang {
            continue;
        }
        match event.origin.parse::<Origin>() {
            Ok(origin) => {
                if event.bytes > 0 {
                    let context = if origin.how == How::Module { event.context } else { 0 };
                    let times = times.entry((origin.clone(), context)).or_default();
                    // What was refused may have been tried again.
                    *times = if event.kind == Kind::Refused { (*times).max(1) } else { *times + 1 };
                }
                preload.add(origin, kernel(event));
            }
            Err(_) => others.extend(why_not(event)),
        }
    }
    for ((origin, _), times) in times {
        if let Some(wanted) = preload.images.get_mut(&origin) {
            wanted.times = wanted.times.max(times);
        }
    }
    for wanted in preload.images.values_mut() {
        wanted.times = wanted.times.max(1);
    }
    preload
}

/// What the driver has to set up for the kernels of a preload, as their images show.
fn needed(preload: &Preload) -> Preload {
    let mut needed = Preload::default();
    for (origin, wanted) in &preload.images {
        let needs = needs(origin, &wanted.kernels).unwrap_or(Needs::UNKNOWN);
        let prime = &mut needed.prime;
        prime.printf |= needs.printf || needs.unknown;
        prime.assert |= needs.assert || needs.unknown;
        prime.heap |= needs.heap;
    }
    needed
}

/// The bytes of an image, if they are those that were recorded.
fn content(origin: &Origin) -> Option<Vec<u8>> {
    const LONGEST: u64 = 1 << 30;
    // A record can name a pipe, which would make it wait.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&origin.path).ok()?;
    let its = file.metadata().ok().filter(Metadata::is_file)?;
    let is_there = origin.bytes <= LONGEST && origin.offset.checked_add(origin.bytes)? <= its.len();
    let mut bytes = vec![0; usize::try_from(origin.bytes).ok().filter(|_| is_there)?];
    file.read_exact_at(&mut bytes, origin.offset).ok()?;
    (hash(&bytes) == origin.hash).then_some(bytes)
}

/// What these kernels of an image need, if it can be read.
fn needs(origin: &Origin, kernels: &BTreeSet<String>) -> Option<Needs> {
    let bytes = content(origin)?;
    let image = newest_variant(&bytes).or_else(|_| read_image(&bytes)).ok()?;
    let entries = image.variants.iter().flat_map(|variant| &variant.entries);
    let named = entries.filter(|entry| kernels.is_empty() || kernels.contains(&entry.symbol));
    Some(named.fold(Needs::NONE, |all, entry| all.and(entry.needs)))
}

/// The kernel that a finding is about, if it is about one.
fn kernel(event: &Event) -> Option<&str> {
    match event.kind {
        Kind::Load | Kind::Hang => Some(&event.subject),
        // A library that is not in the context yet.
        Kind::Image | Kind::Refused if *event.subject == *"library" => Some(IN_CONTEXT),
        // One that was refused is about a kernel, or about an image and its size.
        Kind::Refused if event.bytes == 0 => Some(&event.subject),
        _ => None,
    }
}

/// The stack limit that was set late, in bytes.
fn stack(event: &Event) -> Option<u64> {
    event.subject.strip_prefix("stack of ")?.strip_suffix(" bytes")?.parse().ok()
}

/// Why a late load cannot be preloaded.
fn why_not(event: &Event) -> Option<String> {
    let is_load = matches!(event.kind, Kind::Load | Kind::Image)
        || event.kind == Kind::Refused && [rules::LOAD.name, rules::MODULE.name].contains(&&*event.rule);
    let image = if event.image.is_empty() { String::new() } else { format!(" of {}", event.image) };
    const WHY: &str =
        "its image was loaded from a file by its name, or with options for the driver's compiler";
    is_load.then(|| format!("{}{image}: {WHY}", readable(&subject(event))))
}

/// What was preloaded in a process, and what was not.
pub(super) fn write(f: &mut fmt::Formatter<'_>, process: &Process) -> fmt::Result {
    const LISTED: usize = 5;
    let all = &process.report.preloaded;
    let (done, failed): (Vec<_>, Vec<_>) = all.iter().partition(|event| event.result == 0);
    if !done.is_empty() {
        let took: u64 = done.iter().map(|event| event.took).sum();
        writeln!(f, "  {} x preloaded, {} in all", done.len(), Time(took))?;
    }
    for event in failed.iter().take(LISTED) {
        let image = if event.image.is_empty() { String::new() } else { format!(", {}", event.image) };
        paragraph(f, &format!("! not preloaded: {}{image}: {}.", readable(&event.subject), event.text))?;
    }
    match failed.len().checked_sub(LISTED) {
        None | Some(0) => Ok(()),
        Some(rest) => writeln!(f, "! and {rest} more; `--json` has all"),
    }
}
