//! Reads preloads, and writes the one for the next run from this run's findings.

mod compiled;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::iter;
use std::mem;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry_command::{many, terminal};
use kernel_registry_cuda::rules;
use kernel_registry_files::Folder;
use kernel_registry_format::{Needs, is_control};
use kernel_registry_image::{newest_variant, read as read_image};

use crate::command::cli::PRELOAD;
use crate::command::failure::Failure;
use crate::command::process::{Audit, Process, is_finding};
use crate::command::replace::{Format, replace, replaceable, successor};
use crate::command::report::words::{image_of_kernel, short, subject};
use crate::command::trust::absolute;
use crate::kept::file_name;
use crate::preload::{Device, How, IN_CONTEXT, Origin, Preload, Ptx, Sizes, hash, images, keep_copy};
use crate::record::{self, Event, Kind, Limit, Subject, open_plain};

/// Reads a preload. Finds the copies of images even if they were moved together with the preload.
pub(crate) fn read(path: &Path) -> Result<Preload, Failure> {
    let mut preload = Preload::read(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => Failure::NoPreload { path: path.to_owned(), source: error },
        _ => Failure::of_io(path)(error),
    })?;
    let folder = images(&absolute(path)?);
    replace_copies(&mut preload, |origin| {
        let path = Path::new(&origin.path);
        let moved = folder.join(path.file_name().unwrap_or_default());
        let moved = moved.to_str().filter(|moved| !path.exists() && Path::new(moved).exists());
        Some(moved.unwrap_or(&origin.path).to_owned())
    });
    preload.compiled.values_mut().for_each(|compiled| compiled.folder.clone_from(&folder));
    Ok(preload)
}

/// The right to write a preload and what lies with it, which one command has at a time.
pub(crate) struct Turn {
    _folder: Option<File>,
}

impl Turn {
    /// Waits for the turn, but not forever: the command that has it may be stopped. A folder on another machine may have no
    /// locks, so there's no wait.
    pub(crate) fn take(file: &Path) -> Turn {
        const LONGEST: Duration = Duration::from_secs(60);
        let begun = Instant::now();
        let folder = absolute(file).ok().and_then(|file| File::open(file.parent()?).ok());
        let is_taken = |folder: &File| matches!(folder.try_lock(), Err(TryLockError::WouldBlock));
        while folder.as_ref().is_some_and(is_taken) && begun.elapsed() < LONGEST {
            thread::sleep(Duration::from_millis(10));
        }
        Turn { _folder: folder }
    }
}

/// Fails if a preload can't be written. Call this before the program runs, which can take hours.
pub(crate) fn can_be_recorded(file: &Path) -> Result<(), Failure> {
    let path = absolute(file)?;
    if path.to_string_lossy().contains(is_control) {
        return Err(Failure::NoLine { path });
    }
    if path.file_name().is_some_and(|name| name == PRELOAD) {
        let _ = path.parent().map(Folder::create);
    }
    let (folder, name) = replaceable(file, Format::Preload).map_err(Failure::not_written(file))?;
    successor(&folder, &name).map_err(Failure::not_written(file))?;
    if let Err(why) = folder.trusted() {
        terminal::say(format_args!(
            "warning: `{}` is recorded without results of NVRTC and machine code, which the next run would not trust there: {why}",
            file.display()
        ));
    }
    Ok(())
}

/// Earlier preloads, to be merged into a new one.
#[derive(Default)]
pub(crate) struct Earlier {
    /// The files from which it was read.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) preload: Preload,
}

impl Earlier {
    /// Reads a preload, too.
    pub(crate) fn add(&mut self, path: &Path) -> Result<(), Failure> {
        self.preload.merge(read(path)?);
        self.files.push(path.to_owned());
        Ok(())
    }

    /// Adds what other commands have written to `file` since it was read.
    fn with_additions(mut self, file: &Path, now: &Preload) -> Preload {
        let same = |path: &PathBuf| absolute(path).ok() == absolute(file).ok();
        if self.files.iter().any(same) {
            self.preload.merge(now.clone());
        }
        self.preload
    }
}

/// Writes a preload of the late loads in these processes and of everything in `earlier`. Copies of images are stored
/// in a folder next to it. Copies that only the overwritten preload named are deleted there. The caller has the [`Turn`].
pub(crate) fn record(file: &Path, audit: &Audit, earlier: Earlier) -> Result<(), Failure> {
    let before = read(file).unwrap_or_default();
    let mut earlier = earlier.with_additions(file, &before);
    let mut unpreloadable = BTreeSet::new();
    let mut preload = Preload::default();
    audit.processes.iter().for_each(|process| preload.merge(late(audit, process, &mut unpreloadable)));
    let folder = images(&absolute(file)?);
    for preload in [&mut preload, &mut earlier] {
        replace_copies(preload, |origin| match keep(origin, &audit.copies, &folder) {
            Ok(path) => Some(path),
            Err(why) => {
                unpreloadable.insert(format!("{origin}: {why}"));
                None
            }
        });
    }
    preload.merge(needed(&preload));
    let compiled = compiled::copy(audit, &mem::take(&mut earlier.compiled), &folder, &mut unpreloadable);
    preload.compiled = compiled;
    preload.merge(earlier);

    let text = format!("{preload}{}", comments(audit, &unpreloadable));
    replace(file, Format::Preload, &text).map_err(Failure::not_written(file))?;
    let (kernels, images) = (many(preload.kernels(), "kernel"), many(preload.images.len(), "image"));
    let compiled = match preload.compiled.len() {
        0 => String::new(),
        count => format!(" and {} of NVRTC", many(count, "result")),
    };
    let remark = if unpreloadable.is_empty() {
        String::new()
    } else {
        format!("; {} more cannot be, for reasons that stand there", unpreloadable.len())
    };
    terminal::say(format_args!(
        "`{}` has {kernels} of {images}{compiled} for `--preload`{remark}",
        file.display()
    ));
    let copies = |preload: &Preload| -> BTreeSet<PathBuf> {
        let ptx = preload.ptx.iter().map(|ptx| &ptx.origin);
        { preload.images.keys().chain(ptx) }
            .filter(|origin| origin.is_copy())
            .map(|origin| origin.path.clone().into())
            .collect()
    };
    // The file that was there before can name any path, so only copies in this folder are deleted.
    if let Ok(open) = Folder::open(&folder) {
        let is_ours = |path: &&PathBuf| path.parent() == Some(&folder);
        for path in copies(&before).difference(&copies(&preload)).filter(is_ours) {
            let _ = open.remove(path.file_name().unwrap_or_default());
        }
        for key in before.compiled.keys().filter(|key| !preload.compiled.contains_key(key)) {
            let _ = open.remove(file_name(key).as_ref());
        }
    }
    // `remove_dir` removes only an empty folder.
    let _ = fs::remove_dir(&folder);
    Ok(())
}

/// Stores an image's copy in `folder`, and returns its new path. It's taken from its path, or else from one of the
/// folders `copies`.
fn keep(origin: &Origin, copies: &BTreeSet<PathBuf>, folder: &Path) -> Result<String, String> {
    let path = Path::new(&origin.path);
    let moved = copies.iter().map(|folder| folder.join(path.file_name().unwrap_or_default()));
    let content = iter::once(path.to_owned()).chain(moved).find_map(|path| content(&path, origin));
    let content = content.ok_or("this copy is not there")?;
    let no_copy = |error| format!("no copy can be kept in `{}`: {error}", folder.display());
    let kept = keep_copy(folder, &content, origin.hash).map_err(no_copy)?;
    kept.into_os_string().into_string().map_err(|path| format!("{path:?} is not UTF-8"))
}

/// Replaces the paths of copies by those that `new_path` returns, and drops copies that it returns `None` for. Two
/// copies can become one.
fn replace_copies(preload: &mut Preload, mut new_path: impl FnMut(&Origin) -> Option<String>) {
    let mut replaced = |mut origin: Origin| {
        if origin.is_copy() {
            origin.path = new_path(&origin)?;
        }
        Some(origin)
    };
    for (origin, wanted) in mem::take(&mut preload.images) {
        let Some(origin) = replaced(origin) else { continue };
        let mut replaced = Preload::default();
        replaced.images.insert(origin, wanted);
        preload.merge(replaced);
    }
    let ptx = mem::take(&mut preload.ptx);
    preload.ptx =
        ptx.into_iter().filter_map(|ptx| Some(Ptx::new(&ptx.options, replaced(ptx.origin)?))).collect();
}

/// Returns the comments of a preload: on the processes, and on the loads that can't be preloaded.
fn comments(audit: &Audit, unpreloadable: &BTreeSet<String>) -> String {
    let processes = audit.processes.iter().map(|process| {
        let found = many(process.findings().count(), "finding");
        let ready = if is_late_throughout(audit, process) {
            ", never said to be ready, so all that it loaded"
        } else {
            ""
        };
        format!("{}, `{}`: {found}{ready}", process.name, short(process.report.known_command()))
    });
    let unpreloadable = unpreloadable.iter().map(|words| format!("not to be preloaded: {words}"));
    let comment = |words: String| format!("# {}\n", words.replace(char::is_control, "\u{fffd}"));
    processes.chain(unpreloadable).map(comment).collect()
}

/// Returns whether all loads of a process count as late, because it was never said to be ready. If a file says so for
/// all processes, nothing is late in a process that ended earlier.
fn is_late_throughout(audit: &Audit, process: &Process) -> bool {
    let by_file = audit.has_ready_file && audit.processes.iter().any(|its| its.report.ready.is_some());
    process.report.ready.is_none() && !by_file
}

/// Returns the late loads of a process as a preload. Adds a text to `unpreloadable` for each that can't be preloaded.
fn late(audit: &Audit, process: &Process, unpreloadable: &mut BTreeSet<String>) -> Preload {
    let mut preload = Preload::default();
    // How often each image was loaded, and how many copies were preloaded before. Modules are counted by context.
    let mut times: BTreeMap<(Origin, u64), (u32, u32)> = BTreeMap::new();
    let (all_is_late, copies) = (is_late_throughout(audit, process), preloaded_copies(process));
    let device = |device: &record::Device| Device::new(&device.compute_capability, &device.name);
    preload.devices.extend(process.report.devices.iter().filter_map(device));
    for event in &process.report.events {
        let is_late = all_is_late || is_finding(event);
        preload.sizes.raise(sizes(event, is_late));
        preload.ptx.extend(ptx(event));
        // A call that hung and then returned has an event of its own.
        if event.kind == Kind::Hang && event.has_returned {
            continue;
        }
        // The driver refused these images, because they have no code for this device.
        if event.result != 0 && event.kind != Kind::Refused && event.kind != Kind::Hang {
            continue;
        }
        let Some(origin) = origin_of(event) else {
            unpreloadable.extend(why_not(event).filter(|_| is_late));
            continue;
        };
        // Loads before the program was ready count as well: in the next run they take preloaded copies.
        if event.subject.image().is_some_and(|image| image.bytes > 0) {
            let context = if origin.how == How::Module { event.context } else { 0 };
            let (loaded, preloaded) = times.entry((origin.clone(), context)).or_default();
            // A refused call may have been tried again, and a call that hung may have loaded the image after all.
            *loaded = if event.kind == Kind::Image { *loaded + 1 } else { (*loaded).max(1) };
            let before = copies.get(&(content_of(&origin), event.context));
            let before = before.map_or(0, |begun| begun.iter().filter(|begun| **begun < event.begun).count());
            *preloaded = (*preloaded).max(before as u32);
        }
        if is_late {
            preload.add(origin, kernel(event));
        }
    }
    for ((origin, _), (loaded, preloaded)) in times {
        if let Some(wanted) = preload.images.get_mut(&origin) {
            wanted.times = wanted.times.max(loaded + preloaded);
        }
    }
    for wanted in preload.images.values_mut() {
        wanted.times = wanted.times.max(1);
    }
    preload
}

/// Returns the PTX that an event loaded.
fn ptx(event: &Event) -> Option<Ptx> {
    let image = event.subject.image().filter(|_| event.kind == Kind::Image && event.result == 0)?;
    let is_ptx = image.format.is_compiled() || image.format == record::Format::Baked;
    let plain = || image.origin.parse().map(|origin| Ptx::new("", origin));
    is_ptx.then(|| image.origin.parse().or_else(|_| plain()).ok())?
}

/// Returns where the image of an event is, if a preload can name it.
fn origin_of(event: &Event) -> Option<Origin> {
    event.subject.any_image()?.origin.parse().ok()
}

/// Identifies an image, whichever file it's in: how it's loaded, its size in bytes, and its hash.
type Content = (How, u64, u64);

fn content_of(origin: &Origin) -> Content {
    (origin.how, origin.bytes, origin.hash)
}

/// Returns the times at which each image's copies were preloaded in each context. A later load of the image means
/// that the program had taken all of them.
fn preloaded_copies(process: &Process) -> HashMap<(Content, u64), Vec<u64>> {
    let mut copies: HashMap<_, Vec<_>> = HashMap::new();
    for event in process.report.preloaded.iter().filter(|event| event.result == 0) {
        if let Some(origin) = event.subject.image().and_then(|_| origin_of(event)) {
            copies.entry((content_of(&origin), event.context)).or_default().push(event.begun);
        }
    }
    copies
}

/// Returns what the driver must set up for the kernels of a preload, as their images show.
fn needed(preload: &Preload) -> Preload {
    let mut needed = Preload::default();
    for (origin, wanted) in &preload.images {
        let needs = needs(origin, &wanted.kernels);
        let prime = &mut needed.prime;
        prime.printf |= needs.printf || needs.unknown;
        prime.assert |= needs.assert || needs.unknown;
        prime.heap |= needs.heap;
    }
    needed
}

/// Returns the bytes of an image in this file, if they are the bytes that were recorded.
pub(super) fn content(path: &Path, origin: &Origin) -> Option<Vec<u8>> {
    const LONGEST: u64 = 1 << 30;
    let (file, length) = open_plain(path).ok()?;
    let is_inside = origin.bytes <= LONGEST && origin.offset.checked_add(origin.bytes)? <= length;
    let mut bytes = vec![0; usize::try_from(origin.bytes).ok().filter(|_| is_inside)?];
    file.read_exact_at(&mut bytes, origin.offset).ok()?;
    (hash(&bytes) == origin.hash).then_some(bytes)
}

/// Returns the needs of these kernels of an image, or none if the image is missing.
fn needs(origin: &Origin, kernels: &BTreeSet<String>) -> Needs {
    let Some(bytes) = content(Path::new(&origin.path), origin) else { return Needs::NONE };
    let Ok(image) = newest_variant(&bytes).or_else(|_| read_image(&bytes)) else { return Needs::UNKNOWN };
    let entries = image.variants.iter().flat_map(|variant| &variant.entries);
    let named = entries.filter(|entry| kernels.is_empty() || kernels.contains(&entry.symbol));
    named.fold(Needs::NONE, |all, entry| all.and(entry.needs))
}

/// Returns the kernel that a finding is about, or `IN_CONTEXT` for a library.
fn kernel(event: &Event) -> Option<&str> {
    match &event.subject {
        Subject::Kernel { symbol, .. } if event.kind != Kind::Resize => Some(symbol),
        Subject::Image(image) if image.format == record::Format::Library => Some(IN_CONTEXT),
        _ => None,
    }
}

/// Returns the sizes that an event set. The sizes of the printf buffer and of the heap count even if they weren't
/// late, because they can't be changed once the buffers are preloaded.
fn sizes(event: &Event, is_late: bool) -> Sizes {
    let mut sizes = Sizes::default();
    match event.subject {
        Subject::Limit { limit: Limit::Stack, bytes, .. } if is_late => sizes.stack = bytes,
        Subject::Limit { limit: Limit::Printf, bytes, .. } => sizes.printf = bytes,
        Subject::Limit { limit: Limit::Heap, bytes, .. } => sizes.heap = bytes,
        _ => {}
    }
    sizes
}

/// Returns why a late load cannot be preloaded. Returns `None` for other events, including a call that hangs because
/// of another one's load.
fn why_not(event: &Event) -> Option<String> {
    let is_load = matches!(event.kind, Kind::Load | Kind::Image)
        || matches!(event.kind, Kind::Refused | Kind::Hang)
            && [rules::LOAD.name, rules::MODULE.name].contains(&&*event.rule);
    const WHY: &str =
        "its image was loaded from a file by its name, or with options, or no copy of it could be kept";
    let image = image_of_kernel(event).map_or(String::new(), |image| format!(" of {image}"));
    (is_load && !event.subject.is_nothing()).then(|| format!("{}{image}: {WHY}", subject(event)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_image_needs_nothing() {
        let mut preload = Preload::default();
        preload.add("library 1 2 0x3 /no/such/file".parse().unwrap(), Some("kernel"));
        assert!(needed(&preload).prime.is_nothing());
    }

    #[test]
    fn a_call_that_hangs_because_of_another_load_loads_nothing() {
        let hang = |subject: Subject| {
            let mut event = Event::default();
            (event.kind, event.subject) = (Kind::Hang, subject);
            event.rule = rules::LOAD.name.into();
            event
        };
        assert_eq!(why_not(&hang(Subject::Nothing)), None);
        assert!(why_not(&hang(Subject::of_kernel("late"))).is_some_and(|why| why.starts_with("late: ")));
    }
}
