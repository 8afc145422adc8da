//! Fatbins: containers of PTX and cubins.
//!
//! A file is a sequence of containers. Each has a header of 16 bytes and then entries, each with a
//! header that says what it is, for which architecture, and how it is packed.

use std::borrow::Cow;

use crate::unpack::{Packing, unpack};
use crate::{Error, Exactness, Unread, Variant, bytes, cubin, ptx};

/// Bytes to which all packed entries of an image may unpack together.
pub const MAX_PLAIN_SIZE: u64 = 256 << 20;

const MAGIC: [u8; 4] = 0xBA55_ED50_u32.to_le_bytes();
const HEADER: usize = 16;
const ENTRY_HEADER: usize = 64;

/// Kinds of entries.
const KIND_PTX: u16 = 1;
const KIND_CUBIN: u16 = 2;
/// Code for link-time optimisation, of two ages. It is no image.
const KINDS_LINK: [u16; 2] = [4, 8];

const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
/// For this very architecture: `sm_90a`.
const FLAG_ARCH: u64 = 0x10_0000;
/// For a family of architectures: `sm_100f`.
const FLAG_FAMILY: u64 = 0x20_0000;

pub(crate) fn is_fatbin(image: &[u8]) -> bool {
    image.starts_with(&MAGIC)
}

/// Reads all containers of a file. Entries that cannot be read are no reason to refuse the others, unless there are
/// none.
pub(crate) fn read(image: &[u8]) -> Result<(Vec<Variant>, Vec<Unread>), Error> {
    let (mut variants, mut unread, mut budget) = (Vec::new(), Vec::new(), MAX_PLAIN_SIZE);
    for entry in entries(image)? {
        match entry.variants(&mut budget) {
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
    for entry in entries(image)?.iter().filter(|entry| entry.kind == KIND_PTX) {
        let plain = entry.plain(&mut budget)?;
        let text = plain.split(|byte| *byte == 0).next().unwrap_or_default();
        texts.push(String::from_utf8_lossy(text).into_owned());
    }
    Ok(texts)
}

/// The length of the container at the start, if there is one and it is whole.
pub(crate) fn container_length(bytes: &[u8]) -> Option<usize> {
    let header = is_fatbin(bytes).then_some(bytes)?;
    let header_size = usize::from(bytes::u16_at(header, 6)?);
    let payload = usize::try_from(bytes::u64_at(header, 8)?).ok()?;
    let length = header_size.checked_add(payload)?;
    (header_size >= HEADER && length <= bytes.len()).then_some(length)
}

/// The entries of all containers, between which there may be zeros.
fn entries(image: &[u8]) -> Result<Vec<Entry<'_>>, Error> {
    let (mut entries, mut rest) = (Vec::new(), image);
    while let Some(padding) = rest.iter().position(|byte| *byte != 0) {
        rest = container(&rest[padding..], &mut entries)?;
    }
    Ok(entries)
}

/// Takes the container at the start apart, and returns what is behind it.
fn container<'a>(bytes: &'a [u8], found: &mut Vec<Entry<'a>>) -> Result<&'a [u8], Error> {
    const PLACE: &str = "a fatbin";
    if !is_fatbin(bytes) {
        return Err(Error::malformed(PLACE, "there is something else behind it"));
    }
    let (header, rest) = split(PLACE, bytes, HEADER as u64)?;
    let header_size = u64::from(bytes::u16_at(header, 6).unwrap_or(0));
    if header_size < HEADER as u64 {
        return Err(Error::malformed(PLACE, "its header is too short"));
    }
    let (_, rest) = split(PLACE, rest, header_size - HEADER as u64)?;
    let payload = bytes::u64_at(header, 8).unwrap_or(0);
    let (mut entries, rest) = split(PLACE, rest, payload)?;
    while !entries.is_empty() {
        let (entry, behind) = Entry::split(entries)?;
        found.push(entry);
        entries = behind;
    }
    Ok(rest)
}

/// The first bytes and the others.
fn split<'a>(place: &'static str, bytes: &'a [u8], size: u64) -> Result<(&'a [u8], &'a [u8]), Error> {
    let split = usize::try_from(size).ok().and_then(|size| bytes.split_at_checked(size));
    split.ok_or(Error::Truncated { place, needed: size, available: bytes.len() as u64 })
}

/// What a container holds.
struct Entry<'a> {
    kind: u16,
    sm: u32,
    flags: u64,
    /// Size of the packed bytes, or 0 if they are not packed.
    packed_size: u64,
    plain_size: u64,
    payload: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Takes the first entry off.
    fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Error> {
        const PLACE: &str = "an entry of a fatbin";
        let (header, _) = split(PLACE, bytes, ENTRY_HEADER as u64)?;
        let u64_at = |offset| bytes::u64_at(header, offset).unwrap_or(0);
        let u32_at = |offset| bytes::u32_at(header, offset).unwrap_or(0);

        let header_size = u64::from(u32_at(4));
        if header_size < ENTRY_HEADER as u64 {
            return Err(Error::malformed(PLACE, "its header is too short"));
        }
        let (_, rest) = split(PLACE, bytes, header_size)?;
        let (payload, rest) = split(PLACE, rest, u64_at(8))?;
        let entry = Entry {
            kind: bytes::u16_at(header, 0).unwrap_or(0),
            sm: u32_at(28),
            flags: u64_at(40),
            packed_size: u32_at(16).into(),
            plain_size: u64_at(56),
            payload,
        };
        Ok((entry, rest))
    }

    fn variants(&self, budget: &mut u64) -> Result<Vec<Variant>, Error> {
        let read = match self.kind {
            KIND_PTX => ptx::read,
            KIND_CUBIN => |bytes: &[u8]| Ok(vec![cubin::read(bytes)?]),
            kind if KINDS_LINK.contains(&kind) => return Ok(Vec::new()),
            kind => {
                return Err(Error::UnknownFormat {
                    place: "a fatbin".to_owned(),
                    what: "entries of kind",
                    number: kind,
                });
            }
        };
        let mut variants = read(&self.plain(budget)?)?;
        // What the image itself says comes first. A cubin for a family may not say it.
        for variant in &mut variants {
            if variant.target.exact == Exactness::Any {
                variant.target.exact = self.exactness();
            }
        }
        Ok(variants)
    }

    /// Its bytes, unpacked.
    fn plain(&self, budget: &mut u64) -> Result<Cow<'a, [u8]>, Error> {
        let Some(packing) = self.packing()? else { return Ok(self.payload.into()) };
        let (packed, _) = split("a packed entry of a fatbin", self.payload, self.packed_size)?;
        Ok(unpack(packing, packed, self.plain_size, budget)?.into())
    }

    fn packing(&self) -> Result<Option<Packing>, Error> {
        match (self.flags & FLAG_LZ4 != 0, self.flags & FLAG_ZSTD != 0) {
            (true, false) => Ok(Some(Packing::Lz4)),
            (false, true) => Ok(Some(Packing::Zstd)),
            (false, false) if self.packed_size == 0 => Ok(None),
            _ => Err(Error::UnknownCompression { flags: self.flags }),
        }
    }

    fn exactness(&self) -> Exactness {
        if self.flags & FLAG_ARCH != 0 {
            Exactness::Arch
        } else if self.flags & FLAG_FAMILY != 0 {
            Exactness::Family
        } else {
            Exactness::Any
        }
    }
}
