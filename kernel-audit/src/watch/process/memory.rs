//! Reads memory of this process that may not be there. Linux copies it and refuses addresses that are not mapped, so
//! reading never faults. May be called in the handler of a signal.

use std::ffi::c_void;
use std::ptr;

/// Pages are at least this large.
pub(crate) const PAGE: u64 = 4096;

/// The most parts of a copy. Linux reads a part as a whole or not at all, so each page is a part.
const PARTS: usize = 9;

/// Copies words from an address on, as far as they are mapped, and at most 32 KiB. Returns the number of words.
pub(crate) fn read(at: u64, words: &mut [u64]) -> usize {
    let bytes = (size_of_val(words) as u64).min((PARTS as u64 - 1) * PAGE);
    let Some(end) = at.checked_add(bytes) else { return 0 };
    let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; PARTS];
    let (mut from, mut count) = (at, 0);
    while from < end {
        let next = ((from / PAGE + 1) * PAGE).min(end);
        let iov_base = ptr::without_provenance_mut::<c_void>(from as usize);
        parts[count] = libc::iovec { iov_base, iov_len: (next - from) as usize };
        (from, count) = (next, count + 1);
    }
    let to = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: bytes as usize };
    // SAFETY: Linux writes into `words` only, and reads only what is mapped.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, parts.as_ptr(), count as u64, 0) };
    usize::try_from(read).unwrap_or(0) / size_of::<u64>()
}

/// Copies so many words, or none.
pub(crate) fn words<const N: usize>(at: u64) -> Option<[u64; N]> {
    let mut words = [0; N];
    (read(at, &mut words) == N).then_some(words)
}

/// Copies bytes, or none.
pub(crate) fn bytes(at: u64, count: usize) -> Option<Vec<u8>> {
    let mut copy = vec![0_u64; count.div_ceil(size_of::<u64>()) + 1];
    let begin = at & !7;
    let inside = (at - begin) as usize;
    // The last word can be in a page that is not mapped, and then holds none of the bytes.
    let read: usize = (0..copy.len())
        .step_by(512)
        .map(|index| {
            let end = copy.len().min(index + 512);
            read(begin + index as u64 * 8, &mut copy[index..end])
        })
        .sum();
    let bytes: Vec<u8> = copy.into_iter().flat_map(u64::to_ne_bytes).collect();
    (read * size_of::<u64>() >= inside + count).then(|| bytes[inside..inside + count].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mapped_is_not_read() {
        let text = b"bytes at any offset, more than a word";
        for from in 0..8 {
            let at = text[from..].as_ptr().addr() as u64;
            assert_eq!(bytes(at, 20).as_deref(), Some(&text[from..from + 20]));
        }
        for at in [0, 8, u64::MAX, u64::MAX - 7] {
            assert_eq!((words::<2>(at), bytes(at, 3)), (None, None));
        }
    }
}
