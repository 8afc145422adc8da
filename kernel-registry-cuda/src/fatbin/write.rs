//! Writes an uncompressed fatbin, byte for byte as `fatbinary` of CUDA 13 does for the same cubins.

use alloc::vec::Vec;

use super::{ENTRY_HEADER_LEN, HEADER_LEN, Kind, MAGIC};
use crate::ptx;

/// Versions of the container's format and of the entry's.
const CONTAINER_VERSION: u16 = 1;
const ENTRY_VERSION: u16 = 0x101;

/// Flags that compilers for 64-bit Linux set in every entry: 64-bit addresses, and Linux as the host.
const ADDRESS_64: u64 = 0x1;
const HOST_LINUX: u64 = 0x10;
/// Flag: the entry has a copy of the cubin's compatibility section.
const HAS_COMPAT: u64 = 0x0100_0000;

/// The first architecture whose entries have that copy. Cubins for sm_90a also have a compatibility section,
/// but their entries don't copy it.
const FIRST_WITH_COMPAT: u32 = 100;

/// The ELF type of the compatibility section.
const SHT_CUDA_COMPAT: u32 = 0x7000_0086;

/// The length of an entry is padded to a multiple of this.
const ALIGNMENT: usize = 8;

/// An entry of a fatbin to write.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// [`Kind::Ptx`] or [`Kind::Cubin`]. Other kinds cannot be written.
    pub kind: Kind,
    /// The architecture: 90 for `sm_90` and `compute_90`.
    pub sm: u32,
    /// [`ARCH`](super::flag::ARCH), [`FAMILY`](super::flag::FAMILY), or 0.
    pub flags: u64,
    /// The PTX text, or the ELF file.
    pub bytes: &'a [u8],
}

/// Returns a fatbin of these parts, in this order.
pub fn write(parts: &[Part<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(MAGIC);
    out.extend(CONTAINER_VERSION.to_le_bytes());
    out.extend((HEADER_LEN as u16).to_le_bytes());
    out.extend([0; 8]);
    for part in parts {
        entry(part, &mut out);
    }
    let length = (out.len() - HEADER_LEN) as u64;
    out[8..HEADER_LEN].copy_from_slice(&length.to_le_bytes());
    out
}

fn entry(part: &Part<'_>, out: &mut Vec<u8>) {
    let (number, (major, minor), compat) = match part.kind {
        Kind::Ptx => (1_u16, ptx::version(part.bytes).unwrap_or((0, 0)), None),
        _ => (2, (1, abi(part.bytes)), compat(part.bytes).filter(|_| part.sm >= FIRST_WITH_COMPAT)),
    };
    let options = options(part.kind, compat);
    // PTX text is followed by a zero byte.
    let length = padded(part.bytes.len() + usize::from(part.kind == Kind::Ptx));
    let compat_flag = if compat.is_some() { HAS_COMPAT } else { 0 };
    let options_at = if options.is_empty() { 0 } else { ENTRY_HEADER_LEN as u32 };

    out.extend(number.to_le_bytes());
    out.extend(ENTRY_VERSION.to_le_bytes());
    out.extend(((ENTRY_HEADER_LEN + options.len()) as u32).to_le_bytes());
    out.extend((length as u64).to_le_bytes());
    // The length of the compressed payload, 0 because it isn't compressed.
    out.extend(0_u32.to_le_bytes());
    out.extend(options_at.to_le_bytes());
    out.extend(minor.to_le_bytes());
    out.extend(major.to_le_bytes());
    out.extend(part.sm.to_le_bytes());
    // The entry has no name of an object file.
    out.extend([0; 8]);
    out.extend((ADDRESS_64 | HOST_LINUX | compat_flag | part.flags).to_le_bytes());
    out.extend([0; 16]);
    out.extend(options);
    let end = out.len() + length;
    out.extend(part.bytes);
    out.resize(end, 0);
}

/// Returns the bytes between an entry's header and its payload: the offset of the compiler's options, the
/// length of the compatibility section, the options (an empty text), and the compatibility section.
fn options(kind: Kind, compat: Option<&[u8]>) -> Vec<u8> {
    if kind != Kind::Ptx && compat.is_none() {
        return Vec::new();
    }
    let compat = compat.unwrap_or_default();
    let mut options = Vec::new();
    options.extend((ENTRY_HEADER_LEN as u32 + 8).to_le_bytes());
    options.extend((compat.len() as u32).to_le_bytes());
    options.push(0);
    options.extend(compat);
    options.resize(padded(options.len()), 0);
    options
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}

/// Returns the version of the cubin format, from byte 8 of the ELF identification.
fn abi(cubin: &[u8]) -> u16 {
    cubin.get(8).copied().unwrap_or_default().into()
}

/// Returns the contents of a cubin's compatibility section.
fn compat(cubin: &[u8]) -> Option<&[u8]> {
    let table = usize::try_from(u64::from_le_bytes(number(cubin, 40)?)).ok()?;
    let size = usize::from(u16::from_le_bytes(number(cubin, 58)?));
    let count = usize::from(u16::from_le_bytes(number(cubin, 60)?));
    (0..count).find_map(|i| {
        let header = cubin.get(table.checked_add(i * size)?..)?;
        if u32::from_le_bytes(number(header, 4)?) != SHT_CUDA_COMPAT {
            return None;
        }
        let offset = usize::try_from(u64::from_le_bytes(number(header, 24)?)).ok()?;
        let length = usize::try_from(u64::from_le_bytes(number(header, 32)?)).ok()?;
        cubin.get(offset..offset.checked_add(length)?)
    })
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::super::{entries, flag};
    use super::*;

    const PTX: &[u8] = b"//\n.version 8.4\n.target sm_75\n";

    #[test]
    fn a_written_fatbin_can_be_read() {
        let mut cubin = [0; 40];
        cubin[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x41\x08");
        let parts = [
            Part { kind: Kind::Cubin, sm: 90, flags: flag::ARCH, bytes: &cubin },
            Part { kind: Kind::Ptx, sm: 75, flags: 0, bytes: PTX },
        ];
        let file = write(&parts);
        let read: Vec<_> = entries(&file).map(Result::unwrap).collect();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].kind, read[0].sm, read[0].version), (Kind::Cubin, 90, (1, 8)));
        assert_eq!((read[0].flags, read[0].packed_len, read[0].payload), (0x10_0011, 0, &cubin[..]));
        assert_eq!((read[1].kind, read[1].sm, read[1].version, read[1].flags), (Kind::Ptx, 75, (8, 4), 0x11));
        // The payload is the text, a zero, and padding.
        assert_eq!((&read[1].payload[..PTX.len()], read[1].payload.len()), (PTX, 32));
        assert_eq!(read[1].payload[PTX.len()], 0);
        assert!(entries(&write(&[])).next().is_none());
    }

    #[test]
    fn the_compatibility_section_of_a_cubin_is_copied_into_its_entry() {
        let said = *b"\x02\x09\0\0";
        let mut cubin = [0; 192];
        cubin[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x41\x08");
        // The offset of the section headers, their size and count, then type, offset and length of the second
        // section.
        cubin[40] = 64;
        (cubin[58], cubin[60]) = (60, 2);
        cubin[128..132].copy_from_slice(&SHT_CUDA_COMPAT.to_le_bytes());
        (cubin[148], cubin[156]) = (188, 4);
        cubin[188..].copy_from_slice(&said);
        assert_eq!(compat(&cubin), Some(&said[..]));
        let file = write(&[Part { kind: Kind::Cubin, sm: 100, flags: 0, bytes: &cubin }]);
        assert_eq!(file[16 + 4], 80);
        assert_eq!(file[16 + 64..16 + 80], *b"\x48\0\0\0\x04\0\0\0\0\x02\x09\0\0\0\0\0");
        assert_eq!(entries(&file).next().unwrap().unwrap().payload, cubin);
        for length in 0..cubin.len() {
            let _ = compat(&cubin[..length]);
        }
    }
}
