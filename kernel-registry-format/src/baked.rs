//! Reads and writes files of baked code: machine code that was compiled ahead of time from a program's PTX.
//!
//! | bytes | what |
//! |---|---|
//! | [`HEAD_LEN`] | magic number, version, number of entries, length of the index, hash of all that and of the index |
//! | the index | for each entry its key, hash, place and length of its code, architecture, compiler |
//! | the rest | code, each at a multiple of 16 |
//!
//! An entry is found by its [key](key_parts), a hash of the PTX and the compiler's options; a key has an
//! entry for each architecture. All hashes are SHA-256, which the caller computes ([`Hash`](type@Hash)). A
//! reader needs the head and the index, then only the code that it wants. No bytes make it panic, or allocate
//! memory of the size that they claim.
//!
//! ```
//! use kernel_registry_format::baked::{self, Code, Hash};
//!
//! # let sha256: Hash = |parts| {
//! #     let mut sum = [7; 32];
//! #     parts.iter().flat_map(|part| *part).enumerate().for_each(|(at, byte)| sum[at % 32] ^= byte.wrapping_add(at as u8));
//! #     sum
//! # };
//! let key = sha256(&baked::key_parts(baked::text(b".version 8.0 ..\n\0"), "maxrregcount=64\n"));
//! let file = baked::write(&[Code { key, arch: "sm_90", compiler: "ptxas 13.0.88", code: b"\x7fELF" }], sha256);
//!
//! let index = baked::read(&file, file.len() as u64, sha256)?;
//! let entry = index.entries().find(|entry| entry.key == key && entry.arch == "sm_90").unwrap();
//! let code = &file[entry.offset as usize..][..entry.len as usize];
//! assert!(entry.is_of(code, sha256));
//! # Ok::<(), baked::Damage>(())
//! ```

use alloc::vec::Vec;
use core::fmt;

/// Computes the SHA-256 of the concatenated parts.
pub type Hash = fn(&[&[u8]]) -> [u8; 32];

/// The suffix that turns the path of a program into the path of its file.
pub const SUFFIX: &str = ".baked";

/// The version to write, and the only one that can be read.
pub const VERSION: u32 = 1;

/// The length of the head.
pub const HEAD_LEN: usize = 56;

/// The longest index that is accepted, with some hundred thousand entries.
pub const MOST_INDEX: u64 = 32 << 20;

const MAGIC: [u8; 8] = *b"krbaked\0";
/// The bytes of the head before its hash.
const HASHED: usize = HEAD_LEN - 32;
/// The bytes of an entry before its two texts.
const ENTRY_LEN: usize = 32 + 32 + 8 + 8 + 4 + 4;
const ALIGNMENT: usize = 16;

/// Returns the bytes of a PTX text that its key depends on: up to the first zero, where the driver stops, and
/// without white space at both ends, which can't be told from the surrounding bytes of a binary. All bytes of
/// a fatbin count.
pub fn text(ptx: &[u8]) -> &[u8] {
    let text = ptx.split(|byte| *byte == 0).next().unwrap_or_default();
    text.trim_ascii()
}

/// Returns the parts whose hash is the key of an image: its bytes, a zero, and the compiler's options, one on
/// a line, such as `maxrregcount=64`. For PTX, only [some bytes](text) count.
pub fn key_parts<'a>(image: &'a [u8], options: &'a str) -> [&'a [u8]; 3] {
    [image, &[0], options.as_bytes()]
}

/// Machine code to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code<'a> {
    /// The key of the PTX and options.
    pub key: [u8; 32],
    /// The architecture: `sm_90`, `sm_90a`.
    pub arch: &'a str,
    /// The compiler and its version.
    pub compiler: &'a str,
    /// The machine code.
    pub code: &'a [u8],
}

/// An entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key of the PTX and options.
    pub key: [u8; 32],
    /// The architecture. Not validated.
    pub arch: &'a str,
    /// The compiler and its version.
    pub compiler: &'a str,
    /// The hash of the code.
    pub hash: [u8; 32],
    /// The offset of the code in the file. The code ends before the file does.
    pub offset: u64,
    /// The length of the code.
    pub len: u64,
}

impl Entry<'_> {
    /// Returns whether this is the code that was written.
    pub fn is_of(&self, code: &[u8], sha256: Hash) -> bool {
        code.len() as u64 == self.len && sha256(&[code]) == self.hash
    }
}

/// Returns the bytes of a file.
pub fn write(codes: &[Code<'_>], sha256: Hash) -> Vec<u8> {
    let index_len: usize = codes.iter().map(|code| ENTRY_LEN + code.arch.len() + code.compiler.len()).sum();
    let mut file = Vec::new();
    file.extend(MAGIC);
    file.extend(VERSION.to_le_bytes());
    file.extend((codes.len() as u32).to_le_bytes());
    file.extend((index_len as u64).to_le_bytes());
    file.extend([0; 32]);

    let mut at = (HEAD_LEN + index_len).next_multiple_of(ALIGNMENT);
    for code in codes {
        file.extend(code.key);
        file.extend(sha256(&[code.code]));
        file.extend((at as u64).to_le_bytes());
        file.extend((code.code.len() as u64).to_le_bytes());
        let texts = [code.arch, code.compiler];
        texts.iter().for_each(|text| file.extend((text.len() as u32).to_le_bytes()));
        texts.iter().for_each(|text| file.extend(text.as_bytes()));
        at = (at + code.code.len()).next_multiple_of(ALIGNMENT);
    }
    let sum = sha256(&[&file[..HASHED], &file[HEAD_LEN..]]);
    file[HASHED..HEAD_LEN].copy_from_slice(&sum);
    for code in codes {
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        file.extend(code.code);
    }
    file
}

/// Why bytes aren't a file of baked code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The magic number is missing.
    Magic,
    /// The file has another version.
    Version {
        /// The file's version.
        version: u32,
    },
    /// The file is cut off.
    Truncated,
    /// The index exceeds [`MOST_INDEX`].
    TooLong,
    /// The index doesn't match its hash.
    Hash,
    /// The index is malformed, although its hash matches.
    Index,
    /// Code is not the code that was written.
    Code,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Magic => f.write_str("it is not a file of baked code"),
            Damage::Version { version } => {
                write!(f, "its version is {version}, and only {VERSION} can be read")
            }
            Damage::Truncated => f.write_str("it is truncated"),
            Damage::TooLong => f.write_str("its index is too long"),
            Damage::Hash => f.write_str("its index is damaged"),
            Damage::Index => f.write_str("its index is malformed"),
            Damage::Code => f.write_str("code in it is damaged"),
        }
    }
}

impl core::error::Error for Damage {}

/// Returns how many bytes from the start of a file [`read`] needs, according to its head.
pub fn needed(head: &[u8]) -> Result<u64, Damage> {
    if !head.starts_with(&MAGIC) {
        return Err(Damage::Magic);
    }
    let head = head.first_chunk::<HEAD_LEN>().ok_or(Damage::Truncated)?;
    let version = u32::from_le_bytes(array(head, 8));
    if version != VERSION {
        return Err(Damage::Version { version });
    }
    let length = u64::from_le_bytes(array(head, 16));
    if length > MOST_INDEX { Err(Damage::TooLong) } else { Ok(HEAD_LEN as u64 + length) }
}

/// Parses the index from the start of a file of length `file_len`. [`needed`] returns how many bytes that
/// takes.
pub fn read(bytes: &[u8], file_len: u64, sha256: Hash) -> Result<Index, Damage> {
    let end = needed(bytes)?;
    let bytes = bytes.get(..end as usize).filter(|_| end <= file_len).ok_or(Damage::Truncated)?;
    let (head, index) = bytes.split_at(HEAD_LEN);
    if sha256(&[&head[..HASHED], index]) != head[HASHED..] {
        return Err(Damage::Hash);
    }
    let mut count = 0_u64;
    let mut entries = Entries(index);
    for entry in &mut entries {
        match entry.offset.checked_add(entry.len) {
            Some(last) if entry.offset >= end && last <= file_len => count += 1,
            Some(last) if last > file_len => return Err(Damage::Truncated),
            _ => return Err(Damage::Index),
        }
    }
    let is_whole = entries.0.is_empty() && count == u64::from(u32::from_le_bytes(array(head, 12)));
    is_whole.then(|| Index(index.to_vec())).ok_or(Damage::Index)
}

/// The index of a file.
#[derive(Clone, Debug)]
pub struct Index(Vec<u8>);

impl Index {
    /// Returns all entries.
    pub fn entries(&self) -> Entries<'_> {
        Entries(&self.0)
    }
}

/// The iterator returned by [`Index::entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    /// Ends at bytes that aren't an entry, and leaves them unread.
    fn next(&mut self) -> Option<Entry<'a>> {
        let (fixed, rest) = self.0.split_at_checked(ENTRY_LEN)?;
        let text = |bytes: &'a [u8], at| {
            let (text, rest) = bytes.split_at_checked(u32::from_le_bytes(array(fixed, at)) as usize)?;
            Some((str::from_utf8(text).ok()?, rest))
        };
        let (arch, rest) = text(rest, 80)?;
        let (compiler, rest) = text(rest, 84)?;
        self.0 = rest;
        Some(Entry {
            key: array(fixed, 0),
            hash: array(fixed, 32),
            offset: u64::from_le_bytes(array(fixed, 64)),
            len: u64::from_le_bytes(array(fixed, 72)),
            arch,
            compiler,
        })
    }
}

/// Returns `N` bytes at an offset. The caller has checked the length.
fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}
