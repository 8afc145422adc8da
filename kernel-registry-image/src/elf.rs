//! Parses the ELF file of a cubin: sections by name, and functions by symbol.
//!
//! Names and sections may overlap in ELF files, so a small file could describe far more bytes than it has.
//! Cubins never need that, so a file is refused if its sizes add up to more than the file.

use std::collections::BTreeSet;

use kernel_registry_format::is_control;
use object::LittleEndian;
use object::elf::{
    ELFCLASS64, EM_CUDA, ET_REL, FileHeader64, Machine, SHF_ALLOC, SHN_UNDEF, SHT_NOBITS, SHT_SYMTAB,
    STT_FUNC, SectionHeader64, SectionType, Sym64, SymbolType,
};
use object::read::SymbolIndex;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym, SymbolTable};

use crate::Error;
use crate::bytes;
use crate::error::printable;

type Header = FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// The bit of a function's `st_other` that marks a kernel.
const STO_CUDA_ENTRY: u8 = 0x10;

/// The section types of variables in code that is not linked yet: global variables without a value, and
/// shared variables.
const SHT_CUDA_GLOBAL: SectionType = SectionType(0x7000_0007);
const SHT_CUDA_SHARED: SectionType = SectionType(0x7000_000a);

/// The symbol types of textures and surfaces.
const TEXTURES: [SymbolType; 2] = [SymbolType(10), SymbolType(11)];

/// The prefix of Mercury's sections. Since sm_100 a cubin describes its code a second time there. They may
/// overlap the others, and are skipped.
const MERCURY: &[u8] = b".nv.merc.";

pub(crate) fn is_elf(image: &[u8]) -> bool {
    image.starts_with(b"\x7fELF")
}

/// Returns whether the bytes begin like a cubin rather than another ELF file.
pub(crate) fn is_cubin(image: &[u8]) -> bool {
    is_elf(image) && bytes::u16_at(image, 18).map(Machine) == Some(EM_CUDA)
}

/// Returns the offset at which the last table, section or segment ends. Subtracts the size of the header
/// tables from `effort`, the work that is left to the reader.
pub(crate) fn end(image: &[u8], effort: &mut usize) -> Option<usize> {
    let header = Header::parse(image).ok()?;
    let tables = Tables::read(header, image).ok()?;
    *effort = effort.checked_sub(usize::try_from(tables.size).ok()?)?;
    usize::try_from(tables.end.max(end_of_parts(header, image).ok()?)).ok()
}

/// The end and the size of the tables of segments and sections.
struct Tables {
    end: u64,
    size: u64,
}

impl Tables {
    fn read(header: &Header, image: &[u8]) -> object::read::Result<Self> {
        let size = |header: u16, count: u64| u64::from(header) * count;
        let segments = size(header.e_phentsize(LE), header.phnum(LE, image)?.into());
        let sections = size(header.e_shentsize(LE), header.shnum(LE, image)?.into());
        let ends = [header.e_phoff(LE).saturating_add(segments), header.e_shoff(LE).saturating_add(sections)];
        Ok(Tables { end: ends[0].max(ends[1]), size: segments + sections })
    }
}

/// Returns the offset at which the last segment or section ends.
fn end_of_parts(header: &Header, image: &[u8]) -> object::read::Result<u64> {
    let segments = header.program_headers(LE, image)?.iter().map(|segment| segment.file_range(LE));
    let sections = header.section_headers(LE, image)?.iter().filter(|section| is_in_file(section));
    let parts = segments.chain(sections.filter_map(|section| section.file_range(LE)));
    let ends = parts.filter(|(_, size)| *size > 0).map(|(start, size)| start.saturating_add(size));
    Ok(ends.max().unwrap_or(0))
}

/// Checks that the file contains everything that the headers refer to, because the driver reads that without
/// a check.
fn check_end(header: &Header, image: &[u8]) -> Result<(), Error> {
    let malformed = |error: object::read::Error| Error::malformed("the ELF headers", error.to_string());
    let available = image.len() as u64;
    let is_there = |needed: u64| match needed <= available {
        true => Ok(()),
        false => Err(Error::Truncated { place: "the cubin", needed, available }),
    };
    is_there(Tables::read(header, image).map_err(malformed)?.end)?;
    is_there(end_of_parts(header, image).map_err(malformed)?)
}

fn is_in_file(section: &SectionHeader64<LittleEndian>) -> bool {
    !matches!(section.sh_type(LE), SHT_NOBITS | SHT_CUDA_GLOBAL | SHT_CUDA_SHARED)
}

/// The parts of a cubin.
pub(crate) struct Elf<'a> {
    /// `EI_ABIVERSION`: 7 up to CUDA 12, 8 since CUDA 13.
    pub(crate) abi: u8,
    /// `e_flags`.
    pub(crate) flags: u32,
    /// `e_version`: up to CUDA 12 the toolkit's version, 124 for 12.4.
    pub(crate) version: u32,
    /// Whether it is the object file of a separate compilation, which has yet to be linked.
    pub(crate) is_object: bool,
    pub(crate) sections: Vec<Section<'a>>,
    pub(crate) functions: Vec<Function<'a>>,
    /// Whether a symbol is a texture or a surface.
    pub(crate) has_textures: bool,
    symbols: SymbolTable<'a, Header>,
}

/// The address of code: the number of a section, and an address in this section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodeAddress {
    pub(crate) section: u16,
    pub(crate) address: u64,
}

/// A section of a cubin.
pub(crate) struct Section<'a> {
    pub(crate) name: &'a str,
    /// The section's bytes. Empty for sections that have no bytes in the file, and for sections of Mercury
    /// code.
    pub(crate) data: &'a [u8],
    /// The section's size in memory.
    pub(crate) size: u64,
    /// `sh_info`.
    pub(crate) info: u32,
    /// Whether the section takes device memory while the cubin is loaded.
    pub(crate) is_allocated: bool,
}

/// A symbol that is a function.
pub(crate) struct Function<'a> {
    /// The index in the symbol table, which attributes and calls use to refer to the function.
    pub(crate) index: u32,
    pub(crate) name: &'a str,
    pub(crate) is_kernel: bool,
    /// Whether its code is in this file.
    pub(crate) is_defined: bool,
    pub(crate) place: CodeAddress,
}

impl<'a> Elf<'a> {
    pub(crate) fn read(image: &'a [u8]) -> Result<Self, Error> {
        const HEADER: &str = "the ELF header";
        if image.len() < size_of::<Header>() {
            let (needed, available) = (size_of::<Header>() as u64, image.len() as u64);
            return Err(Error::Truncated { place: HEADER, needed, available });
        }
        // The machine is at the same offset in 32-bit and 64-bit ELF files.
        match bytes::u16_at(image, 18).map(Machine) {
            Some(EM_CUDA) => {}
            machine => return Err(Error::OtherElf { machine: machine.map_or(0, |machine| machine.0) }),
        }
        if image[4] != ELFCLASS64.0 {
            return Err(Error::malformed(HEADER, "32-bit cubins are of CUDA releases too old to be read"));
        }
        let malformed = |place: &'static str| {
            move |error: object::read::Error| Error::malformed(place, error.to_string())
        };
        let header = Header::parse(image).map_err(malformed(HEADER))?;
        check_end(header, image)?;
        let table = header.sections(LE, image).map_err(malformed("the section headers"))?;
        let symbols = table.symbols(LE, image, SHT_SYMTAB).map_err(malformed("the symbol table"))?;

        let mut sections = Vec::new();
        let (mut names, mut contents) = (Room::for_image(image), Room::for_image(image));
        for section in table.iter() {
            let name = table.section_name(LE, section).map_err(malformed("a section's name"))?;
            names.take(name.len(), "the names of the sections")?;
            let data = match is_in_file(section) && !name.starts_with(MERCURY) {
                true => section.data(LE, image).map_err(malformed("a section"))?,
                false => &[],
            };
            contents.take(data.len(), "the sections")?;
            // A name that isn't UTF-8 becomes empty, so the section is never found.
            let name =
                str::from_utf8(name).ok().filter(|name| !name.contains(is_control)).unwrap_or_default();
            let is_allocated = section.sh_flags(LE).0 & SHF_ALLOC.0 != 0;
            sections.push(Section {
                name,
                data,
                size: section.sh_size(LE),
                info: section.sh_info(LE),
                is_allocated,
            });
        }
        Ok(Elf {
            abi: header.e_ident().abi_version,
            flags: header.e_flags(LE).0,
            version: header.e_version(LE),
            is_object: header.e_type(LE) == ET_REL,
            functions: functions(&symbols, Room::for_image(image), sections.len())?,
            has_textures: symbols.iter().any(|symbol| TEXTURES.contains(&symbol.st_type())),
            sections,
            symbols,
        })
    }

    /// Returns the address of a symbol.
    pub(crate) fn place(&self, symbol: u32) -> Option<CodeAddress> {
        self.symbols.symbol(SymbolIndex(symbol as usize)).ok().map(place)
    }

    pub(crate) fn section(&self, name: &str) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.name == name)
    }
}

fn place(symbol: &Sym64<LittleEndian>) -> CodeAddress {
    CodeAddress { section: symbol.st_shndx(LE).0, address: symbol.st_value(LE) }
}

/// The bytes of the file that are left for parts of one kind, which must not overlap.
pub(crate) struct Room(usize);

impl Room {
    pub(crate) fn for_image(image: &[u8]) -> Self {
        Room(image.len())
    }

    pub(crate) fn take(&mut self, bytes: usize, parts: &str) -> Result<(), Error> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or_else(|| Error::malformed(parts, "they overlap"))?;
        Ok(())
    }
}

/// Reads the functions. Fails if two kernels have the same name, or if there are more kernels than sections
/// for their code.
fn functions<'a>(
    symbols: &SymbolTable<'a, Header>,
    mut room: Room,
    sections: usize,
) -> Result<Vec<Function<'a>>, Error> {
    const PLACE: &str = "the symbol table";
    let mut functions = Vec::new();
    let mut kernels = BTreeSet::new();
    for (index, symbol) in symbols.enumerate() {
        if symbol.st_type() != STT_FUNC {
            continue;
        }
        let name = symbol.name(LE, symbols.strings());
        let name = name.map_err(|error| Error::malformed(PLACE, error.to_string()))?;
        room.take(name.len(), "the names of the functions")?;
        let name = str::from_utf8(name).map_err(|_| Error::malformed(PLACE, "a name is not UTF-8"))?;
        let name = printable(PLACE, name)?;
        let is_defined = symbol.st_shndx(LE) != SHN_UNDEF;
        let is_kernel = is_defined && symbol.st_other().0 & STO_CUDA_ENTRY != 0;
        if is_kernel && !kernels.insert(name) {
            return Err(Error::duplicate(PLACE, name));
        }
        if kernels.len() > sections {
            return Err(Error::malformed(PLACE, "there are more kernels than sections for their code"));
        }
        let place = place(symbol);
        functions.push(Function { index: index.0 as u32, name, is_kernel, is_defined, place });
    }
    Ok(functions)
}
