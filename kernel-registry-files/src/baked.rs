//! Reads machine code from files of [baked code](kernel_registry_format::baked).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use kernel_registry_format::baked::{self, Damage, Entries, Entry, HEAD_LEN, Index};
use sha2::{Digest, Sha256};

use crate::paths;

/// The longest machine code that is read, in bytes.
const LONGEST: u64 = 1 << 30;

/// An open file of baked code. Its code stays in the file until it's wanted.
#[derive(Debug)]
pub struct Baked {
    file: File,
    index: Index,
}

/// Why a file of baked code isn't used.
#[derive(Debug)]
pub enum NotUsed {
    /// It's missing, can't be read, or is [`Untrusted`](crate::Untrusted).
    Unreadable(io::Error),
    /// It's damaged, or of another version.
    Damaged(Damage),
}

impl Baked {
    /// Opens a file that only this user and root can have written, and checks its index.
    ///
    /// # Errors
    ///
    /// See [`NotUsed`].
    pub fn open(path: &Path) -> Result<Self, NotUsed> {
        let file = paths::open(path)?;
        let len = file.metadata()?.len();
        let mut start = Vec::new();
        (&file).take(HEAD_LEN as u64).read_to_end(&mut start)?;
        let needed = baked::needed(&start).map_err(NotUsed::Damaged)?;
        (&file).take(needed - HEAD_LEN as u64).read_to_end(&mut start)?;
        let index = baked::read(&start, len, sha256).map_err(NotUsed::Damaged)?;
        Ok(Baked { file, index })
    }

    /// Returns the entries of the index.
    pub fn entries(&self) -> Entries<'_> {
        self.index.entries()
    }

    /// Reads the code of an entry.
    ///
    /// # Errors
    ///
    /// It can't be read, or isn't the code that was written.
    pub fn code(&self, entry: &Entry<'_>) -> Result<Vec<u8>, Damage> {
        if entry.len > LONGEST {
            return Err(Damage::Code);
        }
        let mut code = vec![0; entry.len as usize];
        read_at(&self.file, &mut code, entry.offset).map_err(|_| Damage::Code)?;
        if entry.is_of(&code, sha256) { Ok(code) } else { Err(Damage::Code) }
    }
}

impl From<io::Error> for NotUsed {
    fn from(error: io::Error) -> Self {
        NotUsed::Unreadable(error)
    }
}

/// Returns the SHA-256 hash of the concatenated parts.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

/// Reads from an offset, so that threads can read one file at the same time.
#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => (bytes, offset) = (&mut bytes[read..], offset + read as u64),
        }
    }
    Ok(())
}
