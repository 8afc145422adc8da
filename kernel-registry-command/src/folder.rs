//! Fills the folder where the loader finds the simulated driver: puts the library there under both file names
//! of `libcuda`, and hides functions that are newer than the simulated version.

use std::ffi::CStr;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;

use object::elf::{FileHeader64, SHN_UNDEF, SHT_DYNSYM, STB_WEAK, STT_NOTYPE, Sym64};
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, U16, U64};

use crate::failure::Failure;
use crate::mapped::Mapped;
use crate::write::write;

/// Writes a copy of the library to a folder, and hides functions that `offered` returns false for.
pub fn fill(folder: &Path, library: &Path, offered: impl Fn(&CStr) -> bool) -> Result<(), Failure> {
    let mut bytes = Mapped::open(library)?.to_vec();
    let unreadable = |error| Failure::Truncated { path: library.to_owned(), source: error };
    hide(&mut bytes, |name| !offered(name)).map_err(unreadable)?;
    put(folder, &bytes)
}

/// Writes a library to a folder under both file names that programs open.
pub fn put(folder: &Path, library: &[u8]) -> Result<(), Failure> {
    write(&folder.join("libcuda.so.1"), library)?;
    let link = folder.join("libcuda.so");
    match symlink("libcuda.so.1", &link) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(Failure::of_io(&link)(error)),
        _ => Ok(()),
    }
}

/// Makes functions undefined, so that neither `dlsym` nor the linker finds them. Programs infer a
/// driver's version from the functions that it lacks.
fn hide(library: &mut [u8], hidden: impl Fn(&CStr) -> bool) -> object::Result<()> {
    let header = FileHeader64::<Endianness>::parse(&*library)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, &*library)?;
    let symbols = sections.symbols(endian, &*library, SHT_DYNSYM)?;
    let section = sections.section(symbols.section())?;
    let start = section.sh_offset.get(endian) as usize;
    let mut undefined = Vec::new();
    for (index, symbol) in symbols.enumerate() {
        let mut name = symbol.name(endian, symbols.strings())?.to_vec();
        name.push(0);
        let is_function = name.starts_with(b"cu") && !symbol.is_undefined(endian);
        if is_function && CStr::from_bytes_with_nul(&name).is_ok_and(&hidden) {
            // Weak, so that the loader doesn't have to resolve it.
            let symbol = Sym64 {
                st_info: STB_WEAK | STT_NOTYPE,
                st_shndx: U16::new(endian, SHN_UNDEF),
                st_value: U64::new(endian, 0),
                ..*symbol
            };
            undefined.push((start + index.0 * size_of_val(&symbol), symbol));
        }
    }
    for (at, symbol) in undefined {
        let bytes = object::pod::bytes_of(&symbol);
        library[at..][..bytes.len()].copy_from_slice(bytes);
    }
    Ok(())
}
