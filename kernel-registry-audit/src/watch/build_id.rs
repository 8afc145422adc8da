//! The build id of a library in this process: what its linker wrote to tell it from every other one, also of the same name.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;

/// The note's type, and the name of who defines it.
const NT_GNU_BUILD_ID: u32 = 3;
const GNU: &[u8] = b"GNU\0";

/// The build id of the library at this address in hexadecimal digits, if it has one.
pub(crate) fn build_id(address: *const c_void) -> Option<String> {
    let mut asked = Asked { address: address.addr() as u64, id: None };
    // SAFETY: `look` gets what it is declared to get, and `asked` lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut asked).cast()) };
    asked.id
}

struct Asked {
    address: u64,
    id: Option<String>,
}

/// Looks at one library. Anything but 0 ends the search.
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, asked: *mut c_void) -> c_int {
    // SAFETY: the loader passes a description that lives during the call, and `build_id` its own `Asked`.
    let (info, asked) = unsafe { (&*info, &mut *asked.cast::<Asked>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: so many program headers are there while the library is loaded, which the loader's lock ensures.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let start = |header: &libc::Elf64_Phdr| info.dlpi_addr.wrapping_add(header.p_vaddr);
    let is_loaded = |address: u64| {
        let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        loaded.into_iter().any(|header| address.wrapping_sub(start(header)) < header.p_filesz)
    };
    if !is_loaded(asked.address) {
        return 0;
    }
    let is_there = |header: &&libc::Elf64_Phdr| {
        let last = start(header).wrapping_add(header.p_filesz.saturating_sub(1));
        header.p_type == libc::PT_NOTE && is_loaded(start(header)) && is_loaded(last)
    };
    for header in headers.iter().filter(is_there) {
        // SAFETY: the loader has mapped these bytes, and they stay while its lock is held.
        let notes = unsafe {
            slice::from_raw_parts(
                ptr::with_exposed_provenance(start(header) as usize),
                header.p_filesz as usize,
            )
        };
        asked.id = asked.id.take().or_else(|| id_among(notes, header.p_align as usize));
    }
    1
}

/// The build id in a segment of notes. Each has three numbers, then a name and bytes, which are padded.
fn id_among(mut notes: &[u8], align: usize) -> Option<String> {
    let align = if align == 8 { 8 } else { 4 };
    loop {
        let (head, _) = notes.split_first_chunk::<12>()?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let bytes_at = 12_usize.checked_add(number(0) as usize)?.checked_next_multiple_of(align)?;
        let end = bytes_at.checked_add(number(4) as usize)?;
        let bytes = notes.get(bytes_at..end)?;
        if number(8) == NT_GNU_BUILD_ID && notes[12..].starts_with(GNU) {
            return Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(end.checked_next_multiple_of(align)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_are_found_among_notes() {
        let mut notes = vec![4, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0];
        notes.extend(b"GNU\0\x01\x02\0\0");
        let mut with_id = notes.clone();
        with_id.extend([4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0]);
        with_id.extend(b"GNU\0\xab\x01\xff");
        assert_eq!(id_among(&with_id, 4).as_deref(), Some("ab01ff"));
        for len in 0..with_id.len() {
            assert_eq!(id_among(&with_id[..len], 4), None);
        }
        assert_eq!(id_among(&[0xff; 64], 4), None);
    }

    #[test]
    fn a_file_tells_the_same_as_the_process() {
        let id = build_id(a_file_tells_the_same_as_the_process as *const c_void);
        let Some(id) = id else { return };
        let bytes: Vec<u8> =
            (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect();
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(program.windows(bytes.len()).any(|window| window == bytes), "{id}");
        assert_eq!(build_id(ptr::null()), None);
    }
}
