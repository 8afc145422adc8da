//! Reads and writes memory of the program that calls the driver. Addresses from that program may be wrong.
//!
//! `process_vm_readv` and `process_vm_writev` copy the memory, because they return an error for an address that is not
//! mapped. Addresses on the stack of the calling thread are copied directly, so most arguments cost no system call. Where
//! the operating system does not have these two system calls, or forbids them, the memory goes through a pipe, because
//! `read` and `write` refuse such addresses, too.

pub(crate) mod arguments;
#[cfg(test)]
mod refused;

use std::cell::Cell;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::process;
use std::ptr;

use super::result::{Answer, Code};

/// Copies bytes from the caller's memory to this library's memory.
///
/// # Safety
///
/// `to` is valid for writes of `bytes` bytes. During the copy, only simulated kernels may access it.
pub(crate) unsafe fn copy_from(from: usize, to: *mut u8, bytes: usize) -> Answer {
    // SAFETY: the caller's promise.
    unsafe { transfer(Way::FromCaller, to, from, bytes) }
}

/// Copies bytes from this library's memory to the caller's memory.
///
/// # Safety
///
/// `from` is valid for reads of that many bytes.
pub(crate) unsafe fn copy_to(to: usize, from: *const u8, bytes: usize) -> Answer {
    // SAFETY: the caller's promise; nothing is written there.
    unsafe { transfer(Way::ToCaller, from.cast_mut(), to, bytes) }
}

/// Copies bytes from the caller's memory into a vector.
pub(crate) fn read(from: usize, bytes: usize) -> Answer<Vec<u8>> {
    const MOST: usize = 1 << 36;
    let mut read = Vec::new();
    if bytes > MOST || read.try_reserve_exact(bytes).is_err() {
        // A large size is a mistake of the caller only if the memory is not mapped.
        let is_there = allows(from, bytes, Access::Read);
        return Err(if is_there { Code::OUT_OF_MEMORY } else { Code::INVALID_VALUE });
    }
    // SAFETY: the vector has room for that many bytes, and they are written before its length is set.
    unsafe {
        copy_from(from, read.as_mut_ptr(), bytes)?;
        read.set_len(bytes);
    }
    Ok(read)
}

pub(crate) fn write(to: usize, bytes: &[u8]) -> Answer {
    // SAFETY: the slice can be read.
    unsafe { copy_to(to, bytes.as_ptr(), bytes.len()) }
}

/// Reads a zero-terminated text, and returns it without the zero.
pub(crate) fn read_text(from: usize) -> Answer<Vec<u8>> {
    // Reads page by page, because the page after the zero may not be mapped.
    const PAGE: usize = 4096;
    const MOST: usize = 1 << 30;
    let mut text = Vec::new();
    while text.len() < MOST {
        let next = from.checked_add(text.len()).ok_or(Code::INVALID_VALUE)?;
        let read = read(next, PAGE - next % PAGE)?;
        if let Some(end) = read.iter().position(|byte| *byte == 0) {
            text.extend(&read[..end]);
            return Ok(text);
        }
        text.extend(read);
    }
    Err(Code::INVALID_VALUE)
}

/// A permission of mapped memory, as an index into the flags of `/proc/self/maps`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Access {
    Read,
    Write,
    Execute,
}

/// Returns whether all of these bytes are mapped with that permission. If `/proc/self/maps` cannot be read, they count
/// as mapped.
pub(crate) fn allows(address: usize, bytes: usize, access: Access) -> bool {
    let Some(end) = address.checked_add(bytes) else { return false };
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return true };
    let mut reached = address;
    // A line is like `7f0c2a000000-7f0c2a021000 rw-p ...`. Lines are sorted by address.
    for line in maps.lines() {
        let mapping = line.split_once(' ').and_then(|(range, rest)| {
            let (start, end) = range.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some((number(start)?, number(end)?, rest.as_bytes()))
        });
        let Some((start, behind, flags)) = mapping else { continue };
        let allowed = flags.get(access as usize).is_some_and(|flag| *flag != b'-');
        if allowed && (start..behind).contains(&reached) {
            reached = behind;
        }
    }
    reached >= end && reached > address
}

/// The direction of a copy.
#[derive(Clone, Copy)]
enum Way {
    FromCaller,
    ToCaller,
}

/// Copies bytes between the caller's memory at `theirs` and this library's memory at `ours`.
///
/// # Safety
///
/// `ours` is valid for that many bytes: for writes if the bytes come from the caller, otherwise for reads.
unsafe fn transfer(way: Way, ours: *mut u8, theirs: usize, bytes: usize) -> Answer {
    let mut done = if is_on_stack(theirs, bytes) {
        // SAFETY: both ranges are mapped.
        unsafe { copy(way, ours, theirs, bytes) };
        bytes
    } else {
        0
    };
    while done < bytes {
        let next = theirs.checked_add(done).ok_or(Code::INVALID_VALUE)?;
        let (left, rest) = (bytes - done, ours.wrapping_add(done));
        // SAFETY: this is a part of the range that the caller promises to be valid.
        let copied = match unsafe { ask(way, rest, next, left) } {
            // SAFETY: as above.
            Err(error) if error.raw_os_error() != Some(libc::EFAULT) => unsafe {
                through_pipe(way, rest, next, left)
            },
            copied => copied,
        };
        match copied {
            Ok(bytes) if bytes > 0 => done += bytes,
            Err(error) if error.raw_os_error() != Some(libc::EFAULT) => return Err(Code::OPERATING_SYSTEM),
            _ => return Err(Code::INVALID_VALUE),
        }
    }
    Ok(())
}

/// Copies the bytes without a check of the addresses.
///
/// # Safety
///
/// Both ranges are mapped. The ranges may overlap.
unsafe fn copy(way: Way, ours: *mut u8, theirs: usize, bytes: usize) {
    let theirs = ptr::with_exposed_provenance_mut::<u8>(theirs);
    // SAFETY: the caller's promise.
    unsafe {
        match way {
            Way::FromCaller => ptr::copy(theirs, ours, bytes),
            Way::ToCaller => ptr::copy(ours, theirs, bytes),
        }
    }
}

/// Asks the operating system to copy bytes. Returns how many bytes were copied.
///
/// # Safety
///
/// The same as for [`transfer`].
unsafe fn ask(way: Way, ours: *mut u8, theirs: usize, bytes: usize) -> io::Result<usize> {
    let process = process::id().cast_signed();
    let piece = |start: *mut u8| libc::iovec { iov_base: start.cast(), iov_len: bytes };
    let (ours, theirs) = (piece(ours), piece(ptr::with_exposed_provenance_mut(theirs)));
    // SAFETY: the caller promises that our range is valid. The kernel checks the other range, and returns an error if
    // it is not mapped.
    let copied = unsafe {
        match way {
            Way::FromCaller => libc::process_vm_readv(process, &ours, 1, &theirs, 1, 0),
            Way::ToCaller => libc::process_vm_writev(process, &ours, 1, &theirs, 1, 0),
        }
    };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

/// Copies a part of the bytes through a pipe. Returns how many bytes were copied.
///
/// # Safety
///
/// The same as for [`transfer`].
unsafe fn through_pipe(way: Way, ours: *mut u8, theirs: usize, bytes: usize) -> io::Result<usize> {
    // A pipe of any size holds so many.
    const PART: usize = 4096;
    let theirs = ptr::with_exposed_provenance_mut::<u8>(theirs);
    let (from, to) = match way {
        Way::FromCaller => (theirs, ours),
        Way::ToCaller => (ours, theirs),
    };
    let (reader, writer) = io::pipe()?;
    let bytes = bytes.min(PART - from.addr() % PART);
    // SAFETY: as for the system calls above; the pipe is empty, so that neither call waits.
    unsafe {
        let written = libc::write(writer.as_raw_fd(), from.cast(), bytes);
        let written = usize::try_from(written).map_err(|_| io::Error::last_os_error())?;
        let read = libc::read(reader.as_raw_fd(), to.cast(), written);
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }
}

/// Returns the physical memory of this machine, in bytes.
pub(crate) fn memory() -> u64 {
    // SAFETY: the function takes any number, and returns -1 for an unknown value.
    let (pages, bytes) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    match (u64::try_from(pages), u64::try_from(bytes)) {
        (Ok(pages), Ok(bytes)) => pages.saturating_mul(bytes),
        _ => u64::MAX,
    }
}

/// Returns whether these bytes are on the used part of this thread's stack.
fn is_on_stack(address: usize, bytes: usize) -> bool {
    thread_local! {
        static STACK: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
    }
    let (start, end) = STACK.get().unwrap_or_else(|| {
        let found = stack();
        STACK.set(Some(found));
        found
    });
    let here = (&raw const start).addr();
    address >= start.max(here) && address.checked_add(bytes).is_some_and(|behind| behind <= end)
}

/// Returns the bounds of this thread's stack. The main thread's stack grows, so its lower bound is a guess.
fn stack() -> (usize, usize) {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the first function fills the attributes. The others read and destroy them.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return (0, 0);
        }
        libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut bytes);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
    (start.addr(), start.addr() + bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the address of two pages. The second page cannot be accessed.
    fn half_mapped() -> usize {
        // SAFETY: a mapping at a new address changes no other memory, and its second half belongs to this test.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(ptr::null_mut(), 8192, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(pages.cast::<u8>().add(4096).cast(), 4096, libc::PROT_NONE), 0);
            pages.expose_provenance()
        }
    }

    const REFUSED: Answer<Vec<u8>> = Err(Code::INVALID_VALUE);

    #[test]
    fn unmapped_memory_is_an_error() {
        unmapped_memory_is_refused();
    }

    #[test]
    fn unmapped_memory_is_an_error_without_the_system_calls() {
        for call in [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev] {
            for error in [libc::ENOSYS, libc::EPERM] {
                refused::in_thread(call, error, unmapped_memory_is_refused);
            }
        }
    }

    fn unmapped_memory_is_refused() {
        let pages = half_mapped();
        assert_eq!(write(pages + 4090, &[7; 6]), Ok(()));
        assert_eq!(read(pages + 4090, 6), Ok(vec![7; 6]));
        assert_eq!(write(pages + 4090, &[7; 7]), Err(Code::INVALID_VALUE));
        for (address, bytes) in
            [(pages + 4090, 7), (pages, usize::MAX), (0, 1), (usize::MAX, 1), (1 << 63, 8)]
        {
            assert_eq!(read(address, bytes), REFUSED, "{address:#x}");
        }
        assert_eq!(read(0, 0), Ok(vec![]));
        // The text of a constant is mapped read-only.
        assert_eq!(write("text".as_ptr().expose_provenance(), b"more"), Err(Code::INVALID_VALUE));
    }

    #[test]
    fn a_text_without_an_end_is_an_error() {
        let pages = half_mapped();
        assert_eq!(write(pages, &[b'a'; 4096]), Ok(()));
        assert_eq!(read_text(pages), REFUSED);
        assert_eq!(write(pages + 4095, &[0]), Ok(()));
        assert_eq!(read_text(pages + 4090), Ok(b"aaaaa".to_vec()));
    }

    #[test]
    fn permissions_of_mappings_are_found() {
        let pages = half_mapped();
        assert!(allows(pages, 4096, Access::Read) && allows(pages + 9, 4, Access::Write));
        assert!(!allows(pages, 4097, Access::Read) && !allows(pages, 1, Access::Execute));
        assert!(allows(half_mapped as fn() -> usize as usize, 1, Access::Execute));
        assert!(!allows(usize::MAX, 2, Access::Read) && !allows(0, 1, Access::Read));
    }
}
