//! Reads memory of this process that may not be mapped. The kernel copies it and reports unmapped addresses,
//! so reading never faults. Async-signal-safe.
//!
//! Where `process_vm_readv` is missing (qemu's user mode, some sandboxes), the memory is written to a pipe,
//! which reports unmapped addresses, too.

use std::ffi::{c_int, c_void};
use std::{io, ptr};

/// Pages are at least this large.
pub(crate) const PAGE: u64 = 4096;

/// The most parts of a copy. Linux reads each part completely or not at all, so each page is one.
const PARTS: usize = 9;

/// Copies words from an address on until one isn't mapped, 32 KiB at most. Returns the number of words.
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
    // SAFETY: Linux writes to `words` only, and reads only mapped memory.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, parts.as_ptr(), count as u64, 0) };
    let read = match usize::try_from(read) {
        Ok(read) => read,
        Err(_) if io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) => 0,
        Err(_) => Pipe::new().map_or(0, |pipe| pipe.copy(&parts[..count], to)),
    };
    read / size_of::<u64>()
}

/// Returns whether all of these bytes can be read, by trying a byte of each page.
pub(crate) fn is_readable(at: u64, bytes: u64) -> bool {
    let Some(last) = bytes.checked_sub(1).map_or(Some(at), |more| at.checked_add(more)) else { return false };
    let Some(pipe) = Pipe::new() else { return false };
    let mut byte = 0_u8;
    let to = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let first_of_pages = ((at / PAGE + 1)..=last / PAGE).map(|page| page * PAGE);
    [at].into_iter().chain(first_of_pages).all(|at| {
        let iov_base = ptr::without_provenance_mut::<c_void>(at as usize);
        pipe.copy(&[libc::iovec { iov_base, iov_len: 1 }], to) == 1
    })
}

/// A pipe through which memory is copied.
struct Pipe([c_int; 2]);

impl Pipe {
    fn new() -> Option<Self> {
        let mut ends = [0; 2];
        // SAFETY: there is room for two numbers.
        let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) };
        (made == 0).then_some(Pipe(ends))
    }

    /// Copies the parts in order until one can't be read. Returns the number of bytes.
    fn copy(&self, parts: &[libc::iovec], to: libc::iovec) -> usize {
        let mut done = 0;
        for part in parts {
            // SAFETY: Linux refuses unmapped memory, and the pipe is ours.
            let written = unsafe { libc::write(self.0[1], part.iov_base, part.iov_len) };
            let Ok(written) = usize::try_from(written) else { break };
            let room = written.min(to.iov_len - done);
            // SAFETY: the caller's buffer has room for this many more bytes.
            let read = unsafe { libc::read(self.0[0], to.iov_base.wrapping_byte_add(done), room) };
            let Ok(read) = usize::try_from(read) else { break };
            done += read;
            if read < part.iov_len {
                break;
            }
        }
        done
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        for end in self.0 {
            // SAFETY: the pipe is ours.
            unsafe { libc::close(end) };
        }
    }
}

/// Copies `N` words, if all are mapped.
pub(crate) fn words<const N: usize>(at: u64) -> Option<[u64; N]> {
    let mut words = [0; N];
    (read(at, &mut words) == N).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::process::refused;

    fn only_what_is_mapped_is_read() {
        let text = b"bytes at any offset, more than a word";
        for from in 0..8 {
            let at = text[from..].as_ptr().addr() as u64;
            let copied = words::<2>(at).map(|words| words.map(u64::to_ne_bytes));
            assert_eq!(copied.as_ref().map(|words| words.as_flattened()), Some(&text[from..from + 16]));
        }
        for at in [0, 8, u64::MAX, u64::MAX - 7] {
            assert_eq!(words::<2>(at), None);
        }
        let (size, kind) = (4 * PAGE as usize, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the mapping is new and ours.
        let at = unsafe {
            let pages = libc::mmap(ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0);
            pages.cast::<u8>().add(PAGE as usize - 8).write_bytes(7, 16);
            assert_eq!(libc::mprotect(pages.byte_add(size / 2), size / 2, libc::PROT_NONE), 0);
            pages.addr() as u64
        };
        assert_eq!(words(at + PAGE - 8), Some([0x0707_0707_0707_0707; 2]), "words of two pages");
        let mut words = [0; 2 * PAGE as usize];
        assert_eq!(read(at + 8, &mut words), PAGE as usize / 4 - 1, "as far as it can be read");
        assert!(is_readable(at, 2 * PAGE));
        assert!(is_readable(at + 5, 2 * PAGE - 5));
        for (at, bytes) in [(at, 2 * PAGE + 1), (at + 2 * PAGE, 1), (at + 2 * PAGE - 1, 2), (0, 1)] {
            assert!(!is_readable(at, bytes), "{at:#x}");
        }
        assert!(!is_readable(at, u64::MAX));
    }

    #[test]
    fn what_is_not_mapped_is_not_read() {
        only_what_is_mapped_is_read();
    }

    #[test]
    fn without_the_system_call_the_same_is_read() {
        refused::in_thread(libc::SYS_process_vm_readv, libc::ENOSYS, only_what_is_mapped_is_read);
        refused::in_thread(libc::SYS_process_vm_readv, libc::EPERM, only_what_is_mapped_is_read);
    }
}
