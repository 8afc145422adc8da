//! Reads the tables of a dump. Each is a section of an ELF file with rows of equal size. A section belongs to
//! one row of another: `sh_link` is that section, and `sh_info` the row. NVIDIA's cuda-gdb has the layouts in
//! `cudacoredump.h`.

use std::collections::HashMap;

use object::LittleEndian as LE;
use object::elf::{ELFCLASS64, EM_CUDA, ET_CORE, FileHeader64, SHT_STRTAB, SectionHeader64};
use object::read::elf::{FileHeader, SectionHeader};

use super::model::{Device, text_at};
use crate::elf::{Room, is_elf};
use crate::{Error, bytes};

/// The type of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Devices = 9,
    Multiprocessors = 11,
    Grids = 12,
    Blocks = 13,
    Warps = 14,
    Lanes = 15,
    /// The addresses to which a lane's calls return.
    Returns = 8,
    /// An image as it is in memory.
    Image = 7,
}

/// The sections that are read, with the smallest size of a row in bytes: up to the last field that is read here. Newer
/// drivers write longer rows.
const KINDS: [(Kind, usize); 8] = [
    (Kind::Devices, 64),
    (Kind::Multiprocessors, 0),
    (Kind::Grids, 104),
    (Kind::Blocks, 20),
    (Kind::Warps, 28),
    (Kind::Lanes, 36),
    (Kind::Returns, 16),
    (Kind::Image, 0),
];

/// The first type of a dump's own sections.
const FIRST: u32 = 0x8000_0000;

/// The number of a section, and of a row in it.
type Place = (usize, usize);

struct Section<'a> {
    kind: Kind,
    number: usize,
    parent: Place,
    data: &'a [u8],
    /// The size of a row.
    row: usize,
}

/// A row of a table.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) section: usize,
    pub(super) index: usize,
    pub(super) parent: Place,
    bytes: &'a [u8],
}

impl Row<'_> {
    /// Returns the number at an offset, or 0 beyond the row.
    pub(super) fn u32(&self, offset: usize) -> u32 {
        bytes::u32_at(self.bytes, offset).unwrap_or(0)
    }

    pub(super) fn u64(&self, offset: usize) -> u64 {
        bytes::u64_at(self.bytes, offset).unwrap_or(0)
    }
}

pub(super) struct Tables<'a> {
    sections: Vec<Section<'a>>,
    /// The index in `sections` of each section's number.
    numbers: HashMap<usize, usize>,
    /// The return addresses of each lane.
    returns: HashMap<Place, usize>,
    names: &'a [u8],
}

type Header = FileHeader64<LE>;

pub(super) fn is_dump(file: &[u8]) -> bool {
    let number = |offset| bytes::u16_at(file, offset);
    is_elf(file)
        && file.get(4) == Some(&ELFCLASS64.0)
        && number(16) == Some(ET_CORE.0)
        && number(18) == Some(EM_CUDA.0)
}

impl<'a> Tables<'a> {
    pub(super) fn read(file: &'a [u8]) -> Result<Self, Error> {
        const HEADERS: &str = "the dump's section headers";
        if !is_dump(file) {
            let machine = bytes::u16_at(file, 18).filter(|_| is_elf(file));
            return Err(match machine {
                Some(machine) if machine != EM_CUDA.0 => Error::OtherElf { machine },
                _ => Error::NotADump,
            });
        }
        let malformed = |place: &'static str| {
            move |error: object::read::Error| Error::malformed(place, error.to_string())
        };
        let header = Header::parse(file).map_err(malformed(HEADERS))?;
        let (offset, count) = (header.e_shoff(LE), u64::from(header.e_shnum(LE)).max(1));
        let needed = offset.saturating_add(count * size_of::<SectionHeader64<LE>>() as u64);
        let available = file.len() as u64;
        if needed > available {
            return Err(Error::Truncated { place: "the core dump", needed, available });
        }
        let headers = header.section_headers(LE, file).map_err(malformed(HEADERS))?;
        if headers.is_empty() {
            return Err(Error::malformed(HEADERS, "there are none: the dump was not written to its end"));
        }
        // Sections that overlap could have far more rows than the file has bytes.
        let mut room = Room::for_image(file);
        let mut tables =
            Tables { sections: Vec::new(), numbers: HashMap::new(), returns: HashMap::new(), names: &[] };
        for (number, header) in headers.iter().enumerate() {
            if header.sh_type(LE) == SHT_STRTAB && tables.names.is_empty() {
                tables.names = header.data(LE, file).map_err(malformed("the dump's strings"))?;
            }
            let Some(section) = section(number, header, file)? else { continue };
            room.take(section.data.len(), "the dump's sections")?;
            let index = tables.sections.len();
            tables.numbers.insert(number, index);
            if section.kind == Kind::Returns {
                tables.returns.insert(section.parent, index);
            }
            tables.sections.push(section);
        }
        Ok(tables)
    }

    /// Visits the rows of all tables of a kind.
    pub(super) fn rows(&self, kind: Kind) -> impl Iterator<Item = Row<'a>> + '_ {
        self.sections.iter().filter(move |section| section.kind == kind).flat_map(rows)
    }

    /// Returns the addresses to which the calls of a lane return, the innermost first.
    pub(super) fn returns(&self, lane: &Row<'_>) -> impl Iterator<Item = u64> + use<'a> {
        const ADDRESS: usize = 8;
        let section = self.returns.get(&(lane.section, lane.index)).map(|index| &self.sections[*index]);
        let addresses: Vec<_> = section.into_iter().flat_map(rows).map(|row| row.u64(ADDRESS)).collect();
        addresses.into_iter()
    }

    /// Returns the index of the device on which a block runs.
    pub(super) fn device_of_block(&self, block: &Row<'_>) -> usize {
        let multiprocessors = self.numbers.get(&block.parent.0);
        multiprocessors.map_or(0, |index| self.sections[*index].parent.1)
    }

    pub(super) fn images(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.sections.iter().filter(|section| section.kind == Kind::Image).map(|section| section.data)
    }

    pub(super) fn devices(&self) -> Vec<Device> {
        /// The most bytes of a device's name.
        const LONGEST: usize = 256;
        let device = |row: Row<'_>| Device {
            name: text_at(self.names, row.u64(0), LONGEST),
            pci: (row.u32(28), row.u32(32)),
            capability: (row.u32(56), row.u32(60)),
            multiprocessors: row.u32(36),
        };
        self.rows(Kind::Devices).map(device).collect()
    }
}

fn rows<'s, 'a>(section: &'s Section<'a>) -> impl Iterator<Item = Row<'a>> + use<'s, 'a> {
    let row = |(index, bytes)| Row { section: section.number, index, parent: section.parent, bytes };
    section.data.chunks_exact(section.row.max(1)).enumerate().map(row)
}

/// Returns a section of the dump's own, unless nothing in it is of use here.
fn section<'a>(
    number: usize,
    header: &SectionHeader64<LE>,
    file: &'a [u8],
) -> Result<Option<Section<'a>>, Error> {
    let kind = header.sh_type(LE).0.checked_sub(FIRST);
    let known = KINDS.into_iter().find(|(its, _)| Some(*its as u32) == kind);
    let Some((kind, smallest)) = known else { return Ok(None) };
    let size = header.sh_size(LE);
    if size == 0 && kind != Kind::Multiprocessors {
        return Ok(None);
    }
    let data = header.data(LE, file).map_err(|_| Error::Truncated {
        place: "the core dump",
        needed: header.sh_offset(LE).saturating_add(size),
        available: file.len() as u64,
    })?;
    let row = usize::try_from(header.sh_entsize(LE)).unwrap_or(usize::MAX);
    if row < smallest {
        let problem = format!("rows of {row} bytes, while this version reads {smallest} or more");
        return Err(Error::malformed(format!("table {number} of the dump"), problem));
    }
    let parent = (header.sh_link(LE) as usize, header.sh_info(LE) as usize);
    Ok(Some(Section { kind, number, parent, data, row }))
}
