//! Reads the build id of a library in this process. By the build id, a linker tells each library from every other, also
//! from one of the same name.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::watch::loader::mapped::Mapped;

/// The type of the note, and the name of the note's owner.
const NT_GNU_BUILD_ID: u32 = 3;
const GNU: &[u8] = b"GNU\0";

/// Reads the build id of a file, in hexadecimal digits, if it has one.
pub(crate) fn read(file: &Mapped<'_>) -> Option<String> {
    let notes = file.headers.iter().filter(|header| header.p_type == libc::PT_NOTE);
    let mut mapped = notes.filter_map(|header| {
        Some((file.rest(file.start(header))?.get(..header.p_filesz as usize)?, header.p_align))
    });
    mapped.find_map(|(notes, align)| id_among(notes, align as usize))
}

/// Reads the build id of a file that is not mapped, if it stands near the file's beginning.
pub(crate) fn read_file(path: &Path) -> Option<String> {
    const NEAR: u64 = 1 << 16;
    const HEADER: usize = size_of::<libc::Elf64_Phdr>();
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(NEAR).read_to_end(&mut bytes).ok()?;
    let number = |at: usize, length: usize| {
        let mut number = [0; 8];
        number[..length].copy_from_slice(bytes.get(at..at.checked_add(length)?)?);
        usize::try_from(u64::from_le_bytes(number)).ok()
    };
    bytes.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let (headers_at, count) = (number(32, 8)?, number(56, 2)?);
    (0..count).find_map(|index| {
        let at = headers_at.checked_add(index * HEADER)?;
        if number(at, 4)? != libc::PT_NOTE as usize {
            return None;
        }
        let (offset, length, align) = (number(at + 8, 8)?, number(at + 32, 8)?, number(at + 48, 8)?);
        id_among(bytes.get(offset..offset.checked_add(length)?)?, align)
    })
}

/// Finds the build id in a segment of notes. Each note has three numbers, then a name and bytes, both padded.
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
    use crate::watch::loader::mapped;

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
    fn the_build_id_in_memory_is_in_the_file() {
        let (this, mut id) = (the_build_id_in_memory_is_in_the_file as *const () as u64, None);
        mapped::each(&mut |file| {
            let is_here = file.segment_at(this, 1).is_some();
            id = is_here.then(|| read(file)).flatten();
            is_here
        });
        let Some(id) = id else { return };
        let bytes: Vec<u8> =
            (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect();
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(program.windows(bytes.len()).any(|window| window == bytes), "{id}");
        assert_eq!(read_file(&std::env::current_exe().unwrap()), Some(id));
    }
}
