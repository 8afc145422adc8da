//! An open file of baked code. Its code stays in the file until it is wanted.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kernel_registry_cuda::Target;
use kernel_registry_format::baked::{self, HEAD_LEN};
use sha2::{Digest, Sha256};

use crate::lock::lock;
use crate::warm::not_baked::NotBaked;

pub(super) struct Baked {
    path: String,
    /// Threads read one after the other, because a file has one position.
    file: Mutex<File>,
    len: u64,
    /// Head and index.
    start: Vec<u8>,
}

impl Baked {
    pub(super) fn open(path: &Path) -> Result<Self, NotBaked> {
        let unreadable = |error: io::Error| NotBaked::unreadable(path, &error);
        let file = kernel_registry_files::open(path).map_err(unreadable)?;
        let len = file.metadata().map_err(unreadable)?.len();
        let path = path.display().to_string();
        let mut baked = Baked { path, file: Mutex::new(file), len, start: Vec::new() };
        baked.start = baked.part(0, baked.len.min(HEAD_LEN as u64)).map_err(unreadable)?;
        let needed = baked::needed(&baked.start).map_err(|damage| baked.damaged(damage))?;
        baked.start = baked.part(0, needed.min(baked.len)).map_err(unreadable)?;
        baked.index().map(drop)?;
        Ok(baked)
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns what `code` returns for each of these images. Threads make the digests.
    pub(super) fn codes(
        &self,
        images: &[&[u8]],
        arch: u32,
        threads: usize,
    ) -> Vec<Result<Option<Vec<u8>>, NotBaked>> {
        // The largest comes first. If it came last, one thread would work while all others are idle.
        let mut order: Vec<_> = images.iter().enumerate().collect();
        order.sort_by_key(|(_, image)| Reverse(image.len()));
        let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        let work = || {
            while let Some((number, image)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                let code = self.code(image, arch);
                lock(&found).insert(*number, code);
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads.min(images.len()) {
                // This thread works, too, so it is no error if the operating system does not start a thread.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
    }

    /// Returns the baked code of an image that fits this architecture best. `image` has only the bytes that count for the key.
    fn code(&self, image: &[u8], arch: u32) -> Result<Option<Vec<u8>>, NotBaked> {
        let key = sha256(&baked::key_parts(image, ""));
        let entries = self.index()?.entries().filter(|entry| entry.key == key);
        let fitting = entries.filter_map(|entry| {
            let target: Target = entry.arch.parse().ok()?;
            target.binary_runs_on((arch / 10, arch % 10)).then_some((target, entry))
        });
        let Some((_, entry)) = fitting.max_by_key(|(target, _)| *target) else { return Ok(None) };
        let code = self.part(entry.offset, entry.len).ok().filter(|code| entry.is_of(code, sha256));
        code.map(Some).ok_or_else(|| self.damaged("code in it is damaged"))
    }

    fn index(&self) -> Result<baked::Index<'_>, NotBaked> {
        baked::read(&self.start, self.len, sha256).map_err(|damage| self.damaged(damage))
    }

    /// Reads bytes. The caller has made sure that they lie within the file.
    fn part(&self, from: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        let mut file = lock(&self.file);
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn damaged(&self, reason: impl ToString) -> NotBaked {
        NotBaked::Damaged { file: self.path.clone(), reason: reason.to_string() }
    }
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}
