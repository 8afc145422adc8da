//! Machine code for PTX, from the file beside the preload: the driver loads it in place of the PTX, and compiles nothing.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use kernel_registry_cuda::Target;
use kernel_registry_format::baked;

use crate::options::Audit;
use crate::preload::{How, baked_file, baked_key, sha256};
use crate::watch::known::{contexts, devices};
use crate::watch::process::fork;
use crate::watch::process::locked::Locked;
use crate::watch::process::say::say;

/// The longest code that is read, in bytes.
const LONGEST: u64 = 1 << 30;

/// The file, and its index.
struct Baked {
    file: File,
    len: u64,
    start: Vec<u8>,
}

/// Finds machine code for PTX that is loaded with these options: of a module for the device of the current context, of a library for all devices,
/// because the program may use it on each.
pub(crate) fn find(how: How, ptx: &[u8], options: &str) -> Option<&'static [u8]> {
    /// The code that was read, by its key and its hash. The driver may use the memory as long as the process runs.
    type Read = HashMap<([u8; 32], [u8; 32]), &'static [u8]>;
    static READ: Locked<Read> = Locked::new();
    let baked = open()?;
    let key = baked_key(ptx, options);
    let index = baked.index().ok()?;
    let mut same = index.entries().filter(|entry| entry.key == key).peekable();
    same.peek()?;
    let devices: Vec<_> = match how {
        How::Module => contexts::current_device().into_iter().collect(),
        How::Library => devices::list()?.collect(),
    };
    let capabilities: Vec<_> = devices.into_iter().map(devices::capability).collect::<Option<_>>()?;
    let fitting = same.filter_map(|entry| {
        let target: Target = entry.arch.parse().ok()?;
        let runs = |capability: &(u32, u32)| target.binary_runs_on(*capability);
        (!capabilities.is_empty() && capabilities.iter().all(runs)).then_some((target, entry))
    });
    let Some((_, entry)) = fitting.max_by_key(|(target, _)| *target) else {
        say_once("it has no machine code for this GPU; `kernel-audit bake` adds it");
        return None;
    };
    if let Some(code) = READ.lock().get(&(key, entry.hash)) {
        return Some(code);
    }
    let Some(code) = baked.part(entry.offset, entry.len).ok().filter(|code| entry.is_of(code, sha256)) else {
        say_once("machine code in it is damaged");
        return None;
    };
    Some(READ.lock().entry((key, entry.hash)).or_insert_with(|| code.leak()))
}

/// Says that the driver has refused machine code.
pub(crate) fn refused() {
    say_once("the driver refuses machine code in it, which another version of CUDA may have made");
}

/// Says the first of the reasons why machine code is not used.
fn say_once(why: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed)
        && let Some(preload) = &Audit::chosen().preload
    {
        say(&format!("the driver compiles PTX although there is `{}`: {why}", baked_file(preload).display()));
    }
}

/// The file, if there is one that can be used.
fn open() -> Option<&'static Baked> {
    static OPEN: OnceLock<Option<Baked>> = OnceLock::new();
    let read = || {
        let path = baked_file(Audit::chosen().preload.as_ref()?);
        match Baked::read(&path) {
            Ok(baked) => Some(baked),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                say_once(&error.to_string());
                None
            }
        }
    };
    fork::once(&OPEN, read).as_ref()
}

impl Baked {
    fn read(path: &Path) -> io::Result<Self> {
        let file = kernel_registry_files::open(path)?;
        let len = file.metadata()?.len();
        let mut baked = Baked { file, len, start: Vec::new() };
        let damaged = |damage: baked::Damage| io::Error::new(io::ErrorKind::InvalidData, damage.to_string());
        baked.start = baked.part(0, baked.len.min(baked::HEAD_LEN as u64))?;
        let needed = baked::needed(&baked.start).map_err(damaged)?;
        baked.start = baked.part(0, needed.min(baked.len))?;
        baked.index().map(drop).map_err(damaged)?;
        Ok(baked)
    }

    fn index(&self) -> Result<baked::Index<'_>, baked::Damage> {
        baked::read(&self.start, self.len, sha256)
    }

    fn part(&self, from: u64, len: u64) -> io::Result<Vec<u8>> {
        if len > LONGEST {
            return Err(io::Error::other("no code is so long"));
        }
        // The driver reads machine code by the lengths in it, and PTX up to a zero.
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, from)?;
        Ok(bytes)
    }
}
