//! Reads fatbins, which are containers of PTX and cubins: unpacks their entries and reads them.

use std::borrow::Cow;

use kernel_registry_cuda::fatbin::{self, Entry, Kind, flag};

use crate::signature::demangle_once_while;
use crate::unpack::{MAX_PLAIN_SIZE, Packing, unpack};
use crate::{Error, Image, ImageKind, ParamLayout, Portability, Unread, Variant, cubin, ptx};

/// The most bytes to which each byte of a file may unpack. Compilers reach 5 to 20.
const MAX_GROWTH: u64 = 32;

/// The number of bytes that may still be unpacked.
struct Budget {
    /// The number of the current container.
    container: usize,
    of_container: u64,
    of_file: u64,
}

impl Budget {
    fn for_file(file: &[u8]) -> Self {
        let of_file = MAX_PLAIN_SIZE.saturating_add((file.len() as u64).saturating_mul(MAX_GROWTH));
        Budget { container: 0, of_container: MAX_PLAIN_SIZE, of_file }
    }

    /// Starts a container, which has a new allowance.
    fn enter(&mut self, container: usize) {
        if self.container != container {
            (self.container, self.of_container) = (container, MAX_PLAIN_SIZE);
        }
    }

    fn left(&self) -> u64 {
        self.of_container.min(self.of_file)
    }

    fn take(&mut self, bytes: u64) {
        self.of_container = self.of_container.saturating_sub(bytes);
        self.of_file = self.of_file.saturating_sub(bytes);
    }
}

/// Reads all containers of a file. Skips unreadable entries, but fails if no entry can be read, or if one is
/// cut off, because the driver may choose that one and read beyond its end.
pub(crate) fn read(image: &[u8]) -> Result<(Vec<Variant>, Vec<Unread>), Error> {
    let (mut variants, mut unread, mut budget) = (Vec::new(), Vec::new(), Budget::for_file(image));
    let entries = entries(image)?;
    let mut truncated = None;
    demangle_once_while(|| {
        for entry in entries {
            budget.enter(entry.container);
            match read_entry(&entry, &mut budget) {
                Ok(read) => variants.extend(read),
                Err(error @ Error::Truncated { .. }) => truncated = Some(error),
                Err(error) => unread.push(Unread { sm: entry.sm, error }),
            }
        }
    });
    if let Some(error) = truncated {
        return Err(error);
    }
    match unread.first() {
        Some(first) if variants.is_empty() => Err(first.error.clone()),
        _ => Ok((variants, unread)),
    }
}

/// Reads only one variant of a fatbin: the machine code for the newest architecture, or else the newest PTX.
/// That takes a fraction of the time, and is enough for the facts that all variants have in common:
/// parameters, recursion, needs.
///
/// # Errors
///
/// Fails if the bytes are no fatbin, or a broken one, or if there is neither machine code nor PTX.
pub fn newest_variant(image: &[u8]) -> Result<Image, Error> {
    let entries = entries(image)?;
    let rank = |entry: &&Entry<'_>| match entry.kind {
        Kind::Cubin => Some((1, entry.sm)),
        Kind::Ptx => Some((0, entry.sm)),
        Kind::Link | Kind::Other(_) => None,
    };
    let known = entries.iter().filter(|entry| rank(entry).is_some());
    let newest = known.max_by_key(rank).ok_or(Error::NotAnImage)?;
    Ok(Image::new(ImageKind::Fatbin, read_entry(newest, &mut Budget::for_file(image))?))
}

/// Returns the PTX texts in a fatbin, unpacked.
///
/// # Errors
///
/// Fails if the bytes are no fatbin, or a broken one.
pub fn ptx_of_fatbin(image: &[u8]) -> Result<Vec<String>, Error> {
    let (mut texts, mut budget) = (Vec::new(), Budget::for_file(image));
    for entry in entries(image)?.iter().filter(|entry| entry.kind == Kind::Ptx) {
        budget.enter(entry.container);
        let plain = plain(entry, &mut budget)?;
        let text = plain.split(|byte| *byte == 0).next().unwrap_or_default();
        texts.push(String::from_utf8_lossy(text).into_owned());
    }
    Ok(texts)
}

/// Returns the PTX text of an entry, unpacked.
///
/// # Errors
///
/// Fails if the text can't be unpacked.
pub fn ptx_of_entry(entry: &Entry<'_>) -> Result<Vec<u8>, Error> {
    let mut text = plain(entry, &mut Budget::for_file(entry.payload))?.into_owned();
    // It's padded by zeros.
    text.truncate(text.iter().position(|byte| *byte == 0).unwrap_or(text.len()));
    Ok(text)
}

fn entries(image: &[u8]) -> Result<Vec<Entry<'_>>, Error> {
    Ok(fatbin::entries(image).collect::<Result<_, _>>()?)
}

fn read_entry(entry: &Entry<'_>, budget: &mut Budget) -> Result<Vec<Variant>, Error> {
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
    let plain = plain(entry, budget)?;
    let mut variants = read(&plain)?;
    if matches!(plain, Cow::Owned(_)) {
        budget.take(size(&variants));
    }
    // The image's target takes precedence over the entry's, because a cubin for a family may not name the
    // family.
    for variant in &mut variants {
        if variant.target.portability == Portability::Forward {
            variant.target.portability = entry.target().portability;
        }
    }
    Ok(variants)
}

/// Returns the bytes of an entry, unpacked.
fn plain<'a>(entry: &Entry<'a>, budget: &mut Budget) -> Result<Cow<'a, [u8]>, Error> {
    let Some(packing) = packing(entry)? else { return Ok(entry.payload.into()) };
    let packed = entry.payload.get(..entry.packed_len as usize).ok_or(Error::Truncated {
        place: "a packed entry of a fatbin",
        needed: entry.packed_len.into(),
        available: entry.payload.len() as u64,
    })?;
    let plain = unpack(packing, packed, entry.plain_len, budget.left());
    if !matches!(plain, Err(Error::TooLarge { .. })) {
        budget.take(entry.plain_len);
    }
    Ok(plain?.into())
}

/// Estimates the memory that variants take, in bytes.
fn size(variants: &[Variant]) -> u64 {
    let of_entry = |entry: &crate::Entry| {
        size_of_val(entry) + entry.symbol.len() + entry.params.len() * size_of::<ParamLayout>()
    };
    let of_variant =
        |variant: &Variant| size_of_val(variant) + variant.entries.iter().map(of_entry).sum::<usize>();
    variants.iter().map(of_variant).sum::<usize>() as u64
}

fn packing(entry: &Entry<'_>) -> Result<Option<Packing>, Error> {
    match (entry.flags & flag::LZ4 != 0, entry.flags & flag::ZSTD != 0) {
        (true, false) => Ok(Some(Packing::Lz4)),
        (false, true) => Ok(Some(Packing::Zstd)),
        (false, false) if entry.packed_len == 0 => Ok(None),
        _ => Err(Error::UnknownCompression { flags: entry.flags }),
    }
}
