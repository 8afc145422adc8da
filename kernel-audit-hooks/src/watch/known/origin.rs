//! Finds an image's origin: a mapped file and an offset in it, or a copy.

use std::ffi::c_void;
use std::path::PathBuf;

use crate::options::Audit;
use crate::preload::{How, Origin, keep_copy};
use crate::watch::loader::mapped;
use crate::watch::record::recording::may_be;

/// Returns the origin of an image: a part of a file that the loader has mapped, or else a copy made now.
pub(crate) fn find(image: &[u8], hash: u64, how: How) -> Option<Origin> {
    let bytes = image.len() as u64;
    let (path, offset) = file_at(image.as_ptr().cast(), bytes).or_else(|| Some((copy(image, hash)?, 0)))?;
    Some(Origin::new(path.to_str()?, offset, bytes, hash, how))
}

/// Writes an image to the folder for copies, if there is one. A zero is appended, which ends PTX.
fn copy(content: &[u8], hash: u64) -> Option<PathBuf> {
    let folder = Audit::chosen().images.as_ref().filter(|_| may_be(content.len() + 1))?;
    keep_copy(folder, content, hash).ok()
}

/// Returns the file that these bytes are mapped from, and their offset in it.
fn file_at(address: *const c_void, bytes: u64) -> Option<(PathBuf, u64)> {
    let (address, mut found) = (address.addr() as u64, None);
    mapped::each(&mut |file| {
        let segment = file.segment_at(address, bytes);
        found = segment.and_then(|(header, inside)| Some((file.path()?, header.p_offset + inside)));
        segment.is_some()
    });
    found
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::{env, fs};

    use super::*;

    static CONSTANT: [u8; 4096] = [0x5a; 4096];

    #[test]
    fn a_constant_is_found_in_the_program() {
        let origin = find(&CONSTANT, 7, How::Module).unwrap();
        let program = fs::read(&origin.path).unwrap();
        assert_eq!(program[origin.offset as usize..][..4096], CONSTANT);
        assert_eq!((origin.hash, origin.bytes), (7, 4096));
        let name = env::current_exe().unwrap();
        assert_eq!(mapped::find_by_name(name.file_name().unwrap()), [name]);
    }

    #[test]
    fn other_memory_has_no_origin() {
        let heap = vec![0_u8; 64];
        assert_eq!(find(&heap, 7, How::Module), None);
        let image = CONSTANT.as_ptr().cast();
        assert_eq!(file_at(image, u64::MAX), None);
        assert!(mapped::find_by_name(OsStr::new("no-such-library.so")).is_empty());
    }
}
