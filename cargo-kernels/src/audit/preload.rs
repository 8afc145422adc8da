//! Preloads: the file for the next run, made of this run's findings; and what became of the file that this run was given.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

use kernel_registry_audit::preload::{IN_CONTEXT, Origin, Preload, images};
use kernel_registry_audit::record::{Event, Kind};
use kernel_registry_format::{Needs, rules};
use kernel_registry_image::{newest_variant, read as read_image};

use super::absolute;
use super::process::{Audit, Process};
use super::text::paragraph;
use super::words::{Time, short, subject};
use crate::failure::Failure;
use crate::kernel_name::readable;
use crate::page;
use crate::plural::many;

/// Reads a preload.
pub(super) fn read(path: &Path) -> Result<Preload, Failure> {
    Preload::read(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => Failure::NoPreload { path: path.to_owned(), why: error.to_string() },
        _ => Failure::of_io(path)(error),
    })
}

/// Writes a preload: what was late in these processes, and what `earlier` names. Copies of images that it does not name are deleted.
pub(super) fn record(file: &Path, audit: &Audit, earlier: Preload) -> Result<(), Failure> {
    let (preload, text) = recorded(audit, earlier);
    page::write(file, &text)?;
    let folder = images(&absolute(file)?);
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

/// The preload, and its text with comments.
fn recorded(audit: &Audit, earlier: Preload) -> (Preload, String) {
    let (mut preload, mut others) = (earlier, BTreeSet::new());
    for process in &audit.processes {
        let late = late(process, &mut others);
        preload.merge(needed(&late));
        preload.merge(late);
    }
    let mut text = preload.to_string();
    let mut comment = |words: String| _ = writeln!(text, "# {}", words.replace(char::is_control, "\u{fffd}"));
    for process in &audit.processes {
        let found = many(process.findings().count(), "finding");
        let ready = if process.report.ready.is_some() {
            ""
        } else {
            ", never said to be ready, so nothing counts as late"
        };
        comment(format!("{}, `{}`: {found}{ready}", process.name, short(&process.report.command)));
    }
    others.into_iter().for_each(|words| comment(format!("not to be preloaded: {words}")));
    (preload, text)
}

/// What was late in a process. `others` are the findings that cannot be preloaded, in words.
fn late(process: &Process, others: &mut BTreeSet<String>) -> Preload {
    let mut preload = Preload::default();
    let mut times: BTreeMap<Origin, u32> = BTreeMap::new();
    for event in process.findings() {
        preload.stack = preload.stack.max(stack(event).unwrap_or(0));
        // Images that the driver refused, because they have nothing for this device.
        if event.result != 0 && event.kind != Kind::Refused && event.kind != Kind::Hang {
            continue;
        }
        match event.origin.parse::<Origin>() {
            Ok(origin) => {
                if event.bytes > 0 {
                    *times.entry(origin.clone()).or_default() += 1;
                }
                preload.add(origin, kernel(event));
            }
            Err(_) => others.extend(why_not(event)),
        }
    }
    for (origin, wanted) in &mut preload.images {
        wanted.times = times.get(origin).copied().unwrap_or(1);
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

/// What these kernels of an image need, if it can be read.
fn needs(origin: &Origin, kernels: &BTreeSet<String>) -> Option<Needs> {
    let file = File::open(&origin.path).ok()?;
    let is_there = origin.offset.checked_add(origin.bytes)? <= file.metadata().ok()?.len();
    let mut bytes = vec![0; usize::try_from(origin.bytes).ok().filter(|_| is_there)?];
    file.read_exact_at(&mut bytes, origin.offset).ok()?;
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
