//! Bakes PTX: compiles it for some architectures ahead of time, and keeps the machine code in a file of
//! [baked code](kernel_registry_format::baked).

use std::cmp::Reverse;
use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use kernel_registry_cuda::Target;
use kernel_registry_files::{Untrusted, sha256};
use kernel_registry_format::baked::{self, Code};

use crate::compiler::{Compiler, NotCompiled, Options};
use crate::failure::{Failure, with_causes};
use crate::mapped::Mapped;
use crate::terminal;

/// What is to be compiled.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The image's name in messages.
    pub name: &'a str,
    /// The key of the entry.
    pub key: [u8; 32],
    /// PTX.
    pub text: &'a [u8],
    /// The architecture to compile for.
    pub arch: Target,
    /// Whether a failure is only a warning.
    pub may_fail: bool,
}

/// The length of a job's code, or `None` if it was not compiled, and how long that took.
pub type Made = (Option<usize>, Duration);

/// The entries of a file of baked code, as a command brings them up to date.
#[derive(Debug)]
pub struct Update<'p> {
    path: &'p Path,
    entries: Vec<Entry>,
    /// How many jobs have failed that may not fail.
    failed: usize,
}

impl<'p> Update<'p> {
    /// Reads the file. Drops the entries of images that are gone.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or others could exchange a new one: compiling can take minutes, so this is checked before.
    pub fn begin(path: &'p Path, is_wanted: impl Fn(&[u8; 32]) -> bool) -> Result<Self, Failure> {
        kernel_registry_files::check(path).map_err(Failure::not_written(path))?;
        let mut entries = read_earlier(path)?;
        entries.retain(|entry| is_wanted(&entry.key));
        Ok(Update { path, entries, failed: 0 })
    }

    /// Returns the entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the code that this compiler has made of an image.
    pub fn find(&self, key: &[u8; 32], arch: Target, compiler: &str) -> Option<&Entry> {
        let is_same =
            |entry: &&Entry| entry.key == *key && entry.target() == Some(arch) && entry.compiler == compiler;
        self.entries.iter().find(is_same)
    }

    /// Compiles on all cores, adds the code, and says what failed. The results are in the order of the jobs.
    pub fn compile(&mut self, compiler: &Compiler, options: Options, jobs: &[Job<'_>]) -> Vec<Made> {
        let add = |(job, (result, took)): (&Job<'_>, _)| match result {
            Ok(code) => (Some(self.add(job.key, job.arch, compiler.name(), code)), took),
            Err(error) => {
                let word = if job.may_fail { "warning" } else { "error" };
                terminal::say(format_args!("{word}: {}: {error}", job.name));
                self.failed += usize::from(!job.may_fail);
                (None, took)
            }
        };
        jobs.iter().zip(compile(compiler, options, jobs)).map(add).collect()
    }

    /// Adds code in place of that with the same key and architecture. Returns its length.
    pub fn add(&mut self, key: [u8; 32], arch: Target, compiler: &str, code: Vec<u8>) -> usize {
        let entry = Entry { key, arch: arch.to_string(), compiler: compiler.to_owned(), code };
        let len = entry.code.len();
        self.entries.retain(|other| (other.key, &other.arch) != (entry.key, &entry.arch));
        self.entries.push(entry);
        len
    }

    /// Replaces the file as a whole.
    ///
    /// # Errors
    ///
    /// It cannot be written, or others could exchange it.
    pub fn write(&mut self) -> Result<(), Failure> {
        self.entries.sort_by(|a, b| (a.key, &a.arch).cmp(&(b.key, &b.arch)));
        write(self.path, &self.entries)
    }

    /// Fails if a job has failed that may not fail.
    ///
    /// # Errors
    ///
    /// [`Failure::NotBaked`].
    pub fn end(self) -> Result<(), Failure> {
        if self.failed > 0 { Err(Failure::NotBaked { count: self.failed }) } else { Ok(()) }
    }
}

/// Compiles on all cores. The results are in the order of the jobs. On a terminal a bar shows the progress.
fn compile(
    compiler: &Compiler,
    options: Options,
    jobs: &[Job<'_>],
) -> Vec<(Result<Vec<u8>, NotCompiled>, Duration)> {
    // The longest first, so that none is left when the others are done.
    let mut order: Vec<_> = (0..jobs.len()).collect();
    order.sort_by_key(|number| Reverse(jobs[*number].text.len()));
    let style = ProgressStyle::with_template("compiling {bar:32} {pos} of {len}");
    let bar = ProgressBar::new(jobs.len() as u64).with_finish(ProgressFinish::AndClear);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let (next, made) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(number) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (Job { text, arch, .. }, begun) = (jobs[*number], Instant::now());
            let result = compiler.compile(text, arch, options);
            bar.inc(1);
            made.lock().expect("no thread panics").push((*number, (result, begun.elapsed())));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
    thread::scope(|scope| {
        // This thread compiles too, so a thread that the system does not start is no error.
        (1..threads).for_each(|_| _ = thread::Builder::new().spawn_scoped(scope, work));
        work();
    });
    let mut made = made.into_inner().expect("no thread panics");
    made.sort_unstable_by_key(|(number, _)| *number);
    made.into_iter().map(|(_, made)| made).collect()
}

/// Machine code in a file of baked code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it was compiled from: [`key`].
    pub key: [u8; 32],
    /// For what.
    pub arch: String,
    /// The compiler, with its version.
    pub compiler: String,
    /// The machine code.
    pub code: Vec<u8>,
}

impl Entry {
    /// The architecture, if its name is one.
    pub fn target(&self) -> Option<Target> {
        self.arch.parse().ok()
    }
}

/// Reads a file, and checks all that is in it.
///
/// # Errors
///
/// It is missing, cannot be read, or is damaged.
pub fn read(path: &Path) -> Result<Vec<Entry>, Failure> {
    let file = Mapped::open(path)?;
    let damaged = |source| Failure::Baked { path: path.to_owned(), source };
    let index = baked::read(&file, file.len() as u64, sha256).map_err(damaged)?;
    let entry = |entry: baked::Entry<'_>| {
        let code = file.get(entry.offset as usize..)?.get(..entry.len as usize)?;
        entry.is_of(code, sha256).then(|| Entry {
            key: entry.key,
            arch: entry.arch.to_owned(),
            compiler: entry.compiler.to_owned(),
            code: code.to_vec(),
        })
    };
    index
        .entries()
        .map(|found| entry(found).ok_or(baked::Damage::Code))
        .collect::<Result<_, _>>()
        .map_err(damaged)
}

/// Reads a file that is about to be replaced: no entries if it is missing, or, with a warning, if it is damaged or others may have written it.
fn read_earlier(path: &Path) -> Result<Vec<Entry>, Failure> {
    if let Err(error) = kernel_registry_files::open(path)
        && let Some(why) = Untrusted::in_error(&error)
    {
        terminal::say(format_args!("warning: what was baked before is left out: {why}"));
        return Ok(Vec::new());
    }
    match read(path) {
        Err(Failure::Missing { .. }) => Ok(Vec::new()),
        Err(failure @ Failure::Baked { .. }) => {
            terminal::say(format_args!("warning: {}", with_causes(&failure)));
            Ok(Vec::new())
        }
        read => read,
    }
}

/// Writes a file, and replaces the one that is there as a whole.
///
/// # Errors
///
/// It cannot be written, or others could exchange it.
pub fn write(path: &Path, entries: &[Entry]) -> Result<(), Failure> {
    let codes =
        entries.iter().map(|Entry { key, arch, compiler, code }| Code { key: *key, arch, compiler, code });
    let bytes = baked::write(&codes.collect::<Vec<_>>(), sha256);
    kernel_registry_files::write_trusted(path, &bytes).map_err(Failure::not_written(path))
}

/// The key of PTX, or of a fatbin, compiled with these options. Of PTX, `image` has only the bytes that [count](baked::text).
pub fn key(image: &[u8], options: Options) -> [u8; 32] {
    sha256(&baked::key_parts(image, &options.lines()))
}
