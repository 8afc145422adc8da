//! Fatbins, the containers of PTX and cubins: their entries, unpacked and read.

use std::borrow::Cow;

use kernel_registry_format::fatbin::{self, Entry, Kind, flag};

use crate::unpack::{Packing, unpack};
use crate::{Error, Exactness, Unread, Variant, cubin, ptx};

/// Bytes to which all packed entries of an image may unpack together.
pub const MAX_PLAIN_SIZE: u64 = 256 << 20;

/// Reads all containers of a file. Entries that cannot be read are no reason to refuse the others, unless there are
/// none.
pub(crate) fn read(image: &[u8]) -> Result<(Vec<Variant>, Vec<Unread>), Error> {
    let (mut variants, mut unread, mut budget) = (Vec::new(), Vec::new(), MAX_PLAIN_SIZE);
    for entry in entries(image)? {
        match read_entry(&entry, &mut budget) {
            Ok(read) => variants.extend(read),
            Err(error) => unread.push(Unread { sm: entry.sm, error }),
        }
    }
    match unread.first() {
        Some(first) if variants.is_empty() => Err(first.error.clone()),
        _ => Ok((variants, unread)),
    }
}

/// The PTX texts in a fatbin, unpacked.
///
/// # Errors
///
/// If the bytes are no fatbin, or a broken one.
pub fn ptx_of_fatbin(image: &[u8]) -> Result<Vec<String>, Error> {
    let (mut texts, mut budget) = (Vec::new(), MAX_PLAIN_SIZE);
    for entry in entries(image)?.iter().filter(|entry| entry.kind == Kind::Ptx) {
        let plain = plain(entry, &mut budget)?;
        let text = plain.split(|byte| *byte == 0).next().unwrap_or_default();
        texts.push(String::from_utf8_lossy(text).into_owned());
    }
    Ok(texts)
}

fn entries(image: &[u8]) -> Result<Vec<Entry<'_>>, Error> {
    Ok(fatbin::entries(image).collect::<Result<_, _>>()?)
}

fn read_entry(entry: &Entry<'_>, budget: &mut u64) -> Result<Vec<Variant>, Error> {
    let read = match entry.kind {
        Kind::Ptx => ptx::read,
        Kind::Cubin => |bytes: &[u8]| Ok(vec![cubin::read(bytes)?]),
        Kind::Link => return Ok(Vec::new()),
        Kind::Other(number) => {
            return Err(Error::UnknownFormat {
                place: "a fatbin".to_owned(),
                what: "entries of kind",
                number,
            });
        }
    };
    let mut variants = read(&plain(entry, budget)?)?;
    // What the image itself says comes first. A cubin for a family may not say it.
    for variant in &mut variants {
        if variant.target.exact == Exactness::Any {
            variant.target.exact = exactness(entry);
        }
    }
    Ok(variants)
}

/// The bytes of an entry, unpacked.
fn plain<'a>(entry: &Entry<'a>, budget: &mut u64) -> Result<Cow<'a, [u8]>, Error> {
    let Some(packing) = packing(entry)? else { return Ok(entry.payload.into()) };
    let packed = entry.payload.get(..entry.packed_len as usize).ok_or(Error::Truncated {
        place: "a packed entry of a fatbin",
        needed: entry.packed_len.into(),
        available: entry.payload.len() as u64,
    })?;
    Ok(unpack(packing, packed, entry.plain_len, budget)?.into())
}

fn packing(entry: &Entry<'_>) -> Result<Option<Packing>, Error> {
    match (entry.flags & flag::LZ4 != 0, entry.flags & flag::ZSTD != 0) {
        (true, false) => Ok(Some(Packing::Lz4)),
        (false, true) => Ok(Some(Packing::Zstd)),
        (false, false) if entry.packed_len == 0 => Ok(None),
        _ => Err(Error::UnknownCompression { flags: entry.flags }),
    }
}

fn exactness(entry: &Entry<'_>) -> Exactness {
    if entry.flags & flag::ARCH != 0 {
        Exactness::Arch
    } else if entry.flags & flag::FAMILY != 0 {
        Exactness::Family
    } else {
        Exactness::Any
    }
}
