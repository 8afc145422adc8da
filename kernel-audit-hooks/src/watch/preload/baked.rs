//! Machine code from the baked file next to the preload. It replaces PTX, so that the driver compiles nothing.

use std::collections::HashMap;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use kernel_registry_cuda::{Target, fatbin};
use kernel_registry_files::{Baked, NotUsed};

use crate::options::Audit;
use crate::preload::{How, baked_file, baked_key, baked_key_of_entry};
use crate::watch::known::{code, contexts, devices};
use crate::watch::process::fork;
use crate::watch::process::locked::Locked;
use crate::watch::process::say::say;

/// Returns whether the driver compiles an image that is loaded in this way.
pub(crate) fn is_compiled(how: How, image: &[u8]) -> bool {
    let is_fatbin_of_ptx =
        || capabilities(how).is_some_and(|devices| fatbin::compiled_ptx(image, &devices).is_some());
    code::is_ptx(image) || fatbin::is_fatbin(image) && is_fatbin_of_ptx()
}

/// Returns the capabilities of the devices on which an image may run: that of the current context's for a module, and of all for a library,
/// because the program may use it on each.
fn capabilities(how: How) -> Option<Vec<(u32, u32)>> {
    let devices: Vec<_> = match how {
        How::Module => contexts::current_device().into_iter().collect(),
        How::Library => devices::list()?.collect(),
    };
    devices.into_iter().map(devices::capability).collect()
}

/// Finds machine code for PTX, or a fatbin of it, that is loaded with these options.
pub(crate) fn find(how: How, ptx: &[u8], options: &str) -> Option<&'static [u8]> {
    /// Code by key and hash. It's never freed, because the driver may use it as long as the process runs.
    type Read = HashMap<([u8; 32], [u8; 32]), &'static [u8]>;
    static READ: Locked<Read> = Locked::new();
    let (baked, capabilities) = (open()?, capabilities(how)?);
    let key = key(ptx, options, &capabilities)?;
    let mut same = baked.entries().filter(|entry| entry.key == key).peekable();
    same.peek()?;
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
    match baked.code(&entry) {
        Ok(code) => Some(READ.lock().entry((key, entry.hash)).or_insert_with(|| code.leak())),
        Err(damage) => {
            say_once(&damage.to_string());
            None
        }
    }
}

/// Returns the key of PTX, or of the one in a fatbin that's compiled for each of these devices.
fn key(ptx: &[u8], options: &str, capabilities: &[(u32, u32)]) -> Option<[u8; 32]> {
    if !fatbin::is_fatbin(ptx) {
        return Some(baked_key(ptx, options));
    }
    let mut keys = capabilities
        .iter()
        .map(|device| fatbin::compiled_ptx(ptx, &[*device]).map(|entry| baked_key_of_entry(&entry, options)));
    let first = keys.next()??;
    keys.all(|key| key == Some(first)).then_some(first)
}

/// Reports that the driver has refused machine code.
pub(crate) fn refused() {
    say_once("the driver refuses machine code in it, which another version of CUDA may have made");
}

/// Reports the first reason why machine code isn't used.
fn say_once(why: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed)
        && let Some(preload) = &Audit::chosen().preload
    {
        say(&format!("the driver compiles PTX although there is `{}`: {why}", baked_file(preload).display()));
    }
}

/// Returns the baked file, if there's a usable one.
fn open() -> Option<&'static Baked> {
    static OPEN: OnceLock<Option<Baked>> = OnceLock::new();
    let read = || {
        let path = baked_file(Audit::chosen().preload.as_ref()?);
        let why = match Baked::open(&path) {
            Ok(baked) => return Some(baked),
            Err(NotUsed::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(NotUsed::Unreadable(error)) => error.to_string(),
            Err(NotUsed::Damaged(damage)) => damage.to_string(),
        };
        say_once(&why);
        None
    };
    fork::once(&OPEN, read).as_ref()
}
