//! Tests that files of baked code are read as written, and that damage is detected.

use kernel_registry_format::baked::{self, Code, Damage, Entry, HEAD_LEN, MOST_INDEX, read, write};
use sha2::{Digest, Sha256};

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

const CODES: [Code<'static>; 3] = [
    Code { key: [1; 32], arch: "sm_90", compiler: "ptxas 13.0.88", code: b"\x7fELF one" },
    Code { key: [1; 32], arch: "sm_90a", compiler: "ptxas 13.0.88", code: b"\x7fELF two, which is longer" },
    Code { key: [2; 32], arch: "sm_120", compiler: "nvJitLink 13.5", code: b"" },
];

/// An entry, and its code unless that is damaged.
type Found<'a> = (Entry<'a>, Option<&'a [u8]>);

/// Returns all entries, as a reader of the whole file finds them.
fn contents(file: &[u8]) -> Result<Vec<Found<'_>>, Damage> {
    let index = Box::leak(Box::new(read(file, file.len() as u64, sha256)?));
    Ok({ index.entries() }
        .map(|entry| {
            let code = &file[entry.offset as usize..][..entry.len as usize];
            (entry, entry.is_of(code, sha256).then_some(code))
        })
        .collect())
}

#[test]
fn what_was_written_is_read() {
    let file = write(&CODES, sha256);
    let read = contents(&file).unwrap();
    assert_eq!(read.len(), CODES.len());
    for ((entry, code), written) in read.iter().zip(CODES) {
        let Entry { key, arch, compiler, offset, .. } = *entry;
        assert_eq!(Code { key, arch, compiler, code: code.unwrap() }, written);
        assert_eq!(offset % 16, 0);
    }
    assert!(contents(&write(&[], sha256)).unwrap().is_empty());
}

#[test]
fn head_and_index_are_enough() {
    let file = write(&CODES, sha256);
    let needed = baked::needed(&file[..HEAD_LEN]).unwrap() as usize;
    let index = read(&file[..needed], file.len() as u64, sha256).unwrap();
    assert_eq!(index.entries().map(|entry| entry.arch).collect::<Vec<_>>(), ["sm_90", "sm_90a", "sm_120"]);
    assert_eq!(read(&file[..needed - 1], file.len() as u64, sha256).unwrap_err(), Damage::Truncated);
}

#[test]
fn every_flipped_byte_is_noticed() {
    let file = write(&CODES, sha256);
    let step = if cfg!(miri) { 29 } else { 1 };
    for at in (0..file.len()).step_by(step) {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = file.clone();
            bytes[at] ^= flip;
            match contents(&bytes) {
                Err(damage) => assert!(!damage.to_string().is_empty()),
                // The zeros between codes have no meaning.
                Ok(read) => {
                    let whole = read.iter().filter(|(_, code)| code.is_some()).count();
                    assert!(whole == CODES.len() - 1 || file[at] == 0, "byte {at}");
                }
            }
        }
    }
}

#[test]
fn every_truncation_is_an_error() {
    let file = write(&CODES, sha256);
    // The last code is empty, so nothing follows the zeros before it.
    let end = contents(&file).unwrap()[2].0.offset as usize;
    for length in 0..end {
        assert!(
            matches!(contents(&file[..length]), Err(Damage::Magic | Damage::Truncated)),
            "{length} bytes"
        );
    }
}

/// Changes the file, and updates its hash.
fn forged(change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut file = write(&CODES, sha256);
    change(&mut file);
    let end = baked::needed(&file).map_or(HEAD_LEN, |end| end as usize).min(file.len());
    let hash = sha256(&[&file[..24], &file[HEAD_LEN..end]]);
    file[24..HEAD_LEN].copy_from_slice(&hash);
    file
}

/// A correct hash doesn't keep others from writing nonsense.
#[test]
fn nonsense_with_a_right_hash_is_refused() {
    let damage = |change: &dyn Fn(&mut [u8])| contents(&forged(change)).unwrap_err();
    assert_eq!(damage(&|file| file[8] = 2), Damage::Version { version: 2 });
    assert_eq!(damage(&|file| file[12] = 2), Damage::Index, "there are three entries");
    assert_eq!(damage(&|file| file[16] -= 1), Damage::Index, "the last entry is cut off");
    let longest = MOST_INDEX.to_le_bytes();
    assert_eq!(damage(&|file| file[16..24].copy_from_slice(&longest)), Damage::Truncated);
    assert_eq!(damage(&|file| file[16..24].fill(0xff)), Damage::TooLong);
    let (offset, length) = (HEAD_LEN + 64, HEAD_LEN + 72);
    assert_eq!(damage(&|file| file[offset..offset + 8].fill(0)), Damage::Index, "code in the head");
    assert_eq!(damage(&|file| file[offset..offset + 8].fill(0xff)), Damage::Index, "it overflows");
    assert_eq!(damage(&|file| file[length + 4] = 1), Damage::Truncated);
    assert_eq!(
        damage(&|file| file[HEAD_LEN + 80..HEAD_LEN + 84].fill(0xff)),
        Damage::Index,
        "an endless text"
    );
    assert_eq!(damage(&|file| file[HEAD_LEN + 88] = 0xff), Damage::Index, "a text that is not UTF-8");
}

#[test]
fn of_a_text_counts_what_the_driver_reads() {
    let parts = |ptx| baked::key_parts(baked::text(ptx), "").concat();
    assert_eq!(parts(b"\n.version 8.0 {}\n\n\0\0"), b".version 8.0 {}\0");
    assert_eq!(parts(b".version 8.0 {}\0 what follows"), b".version 8.0 {}\0");
    assert_eq!(parts(b""), b"\0");
}
