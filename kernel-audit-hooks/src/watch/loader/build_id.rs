//! Reads the build ids of mapped libraries, which distinguish builds of a library with the same name.

use crate::watch::loader::mapped::Mapped;

const NT_GNU_BUILD_ID: u32 = 3;
const GNU: &[u8] = b"GNU\0";

/// Returns the build id of a file in hexadecimal digits, if it has one.
///
/// In NVIDIA's wheels for CUDA 12, the program header for notes points to zeros, because a tool has moved the
/// note to a small segment of its own. So small segments are searched, too.
pub(crate) fn read(file: &Mapped<'_>) -> Option<String> {
    const SMALL: u64 = 1 << 16;
    let bytes = |header: &libc::Elf64_Phdr| file.rest(file.start(header))?.get(..header.p_filesz as usize);
    let of_kind = |kind| file.headers.iter().filter(move |header| header.p_type == kind);
    let in_notes = of_kind(libc::PT_NOTE).find_map(|notes| id_among(bytes(notes)?, notes.p_align as usize));
    in_notes.or_else(|| {
        let mut small = of_kind(libc::PT_LOAD).filter(|header| header.p_filesz < SMALL);
        small.find_map(|segment| moved_id(bytes(segment)?))
    })
}

/// Finds a build id of the usual 20 bytes anywhere in a segment.
fn moved_id(bytes: &[u8]) -> Option<String> {
    const HEAD: &[u8; 16] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let words = bytes.chunks(4).enumerate().map(|(index, _)| &bytes[4 * index..]);
    words.into_iter().find(|rest| rest.starts_with(HEAD)).and_then(|note| id_among(note, 4))
}

/// Finds the build id in a segment of notes. A note has three numbers, a padded name and padded bytes.
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
        let moved = [&[0; 8][..], b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", &[0xab; 20]].concat();
        assert_eq!(moved_id(&moved), Some("ab".repeat(20)));
        assert_eq!(moved_id(&moved[..30]), None);
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
    }
}
