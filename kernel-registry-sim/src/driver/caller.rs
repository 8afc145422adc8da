//! Memory of the caller, of which nobody knows whether it is there. The system is asked to copy it: other than this process it
//! may touch what is not mapped, and says so.
//!
//! What lies on the stack of the thread that calls is there, so most arguments cost no call of the system. Where that is not
//! allowed to copy memory, callers are trusted.

use std::cell::Cell;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::process;
use std::ptr;

use super::result::{Answer, Code};

/// Copies that many bytes of the caller's to a place of our own.
///
/// # Safety
///
/// There is room for them at `to`, which nobody else uses meanwhile but as memory that is shared with kernels.
pub(super) unsafe fn copy_from(from: usize, to: *mut u8, bytes: usize) -> Answer {
    // SAFETY: the caller's promise.
    unsafe { transfer(Way::FromCaller, to, from, bytes) }
}

/// Copies that many bytes of our own to a place of the caller's.
///
/// # Safety
///
/// They can be read at `from`.
pub(super) unsafe fn copy_to(to: usize, from: *const u8, bytes: usize) -> Answer {
    // SAFETY: the caller's promise; nothing is written there.
    unsafe { transfer(Way::ToCaller, from.cast_mut(), to, bytes) }
}

/// A copy of bytes of the caller's.
pub(super) fn read(from: usize, bytes: usize) -> Answer<Vec<u8>> {
    const MOST: usize = 1 << 36;
    let mut read = Vec::new();
    if bytes > MOST || read.try_reserve_exact(bytes).is_err() {
        // A size that is none is the caller's mistake.
        let is_there = allows(from, bytes, Access::Read);
        return Err(if is_there { Code::OUT_OF_MEMORY } else { Code::INVALID_VALUE });
    }
    // SAFETY: the vector has room for so many, and then they are there.
    unsafe {
        copy_from(from, read.as_mut_ptr(), bytes)?;
        read.set_len(bytes);
    }
    Ok(read)
}

pub(super) fn write(to: usize, bytes: &[u8]) -> Answer {
    // SAFETY: the slice can be read.
    unsafe { copy_to(to, bytes.as_ptr(), bytes.len()) }
}

/// Several pieces: the address of each, and the offset and the size of its place.
pub(super) fn read_pieces(to: &mut [u8], pieces: &[(usize, (usize, usize))]) -> Answer {
    // As many as the system takes.
    const AT_ONCE: usize = 1024;
    let (start, room) = (to.as_mut_ptr(), to.len());
    let place = |offset: usize, bytes: usize| {
        assert!(bytes <= room && offset <= room - bytes, "the piece has no place");
        start.wrapping_add(offset)
    };
    let mut one_by_one = pieces.iter().all(|(from, (_, bytes))| is_on_stack(*from, *bytes));
    for pieces in pieces.chunks(AT_ONCE) {
        if !one_by_one {
            let both =
                |&(from, (offset, bytes))| (vector(place(offset, bytes), bytes), vector_at(from, bytes));
            let (ours, theirs): (Vec<_>, Vec<_>) = pieces.iter().map(both).unzip();
            let all = pieces.iter().map(|(_, (_, bytes))| bytes).sum();
            // SAFETY: each of them has a place for as many bytes.
            match unsafe { ask(Way::FromCaller, &ours, &theirs) } {
                Asked::Copied(bytes) if bytes == all => continue,
                Asked::Forbidden => one_by_one = true,
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        for &(from, (offset, bytes)) in pieces {
            // SAFETY: it has a place for as many bytes.
            unsafe { copy_from(from, place(offset, bytes), bytes)? };
        }
    }
    Ok(())
}

/// Bytes up to a zero, which is not one of them.
pub(super) fn read_text(from: usize) -> Answer<Vec<u8>> {
    // No page is looked at behind that with the zero.
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

/// What can be done with memory.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Access {
    Read,
    Write,
    Execute,
}

/// Whether all of that is mapped, and allows this. Where the system does not tell, it is.
pub(super) fn allows(address: usize, bytes: usize, access: Access) -> bool {
    let Some(end) = address.checked_add(bytes) else { return false };
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return true };
    let mut reached = address;
    // Such as `7f0c2a000000-7f0c2a021000 rw-p ...`, in the order of addresses.
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

#[derive(Clone, Copy)]
enum Way {
    FromCaller,
    ToCaller,
}

/// # Safety
///
/// `ours` is valid for so many bytes: for writes from the caller, and for reads to it.
unsafe fn transfer(way: Way, ours: *mut u8, theirs: usize, bytes: usize) -> Answer {
    let mut done = if is_on_stack(theirs, bytes) {
        // SAFETY: both places are there.
        unsafe { copy(way, ours, theirs, bytes) };
        bytes
    } else {
        0
    };
    while done < bytes {
        let next = theirs.checked_add(done).ok_or(Code::INVALID_VALUE)?;
        let (left, rest) = (bytes - done, ours.wrapping_add(done));
        // SAFETY: it is the rest of what the caller promises.
        match unsafe { ask(way, &[vector(rest, left)], &[vector_at(next, left)]) } {
            Asked::Copied(bytes) => done += bytes,
            Asked::NotThere => return Err(Code::INVALID_VALUE),
            Asked::Forbidden if next == 0 => return Err(Code::INVALID_VALUE),
            Asked::Forbidden => {
                // SAFETY: whoever calls the driver promises what its documentation asks for.
                unsafe { copy(way, rest, next, left) };
                done = bytes;
            }
        }
    }
    Ok(())
}

/// # Safety
///
/// Both places are there. They may overlap.
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

fn vector(start: *mut u8, bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast(), iov_len: bytes }
}

fn vector_at(address: usize, bytes: usize) -> libc::iovec {
    vector(ptr::with_exposed_provenance_mut(address), bytes)
}

/// What the system says.
enum Asked {
    /// At least one byte.
    Copied(usize),
    NotThere,
    Forbidden,
}

/// # Safety
///
/// As for [`transfer`], for each piece of ours. What the caller has may be anywhere.
unsafe fn ask(way: Way, ours: &[libc::iovec], theirs: &[libc::iovec]) -> Asked {
    let process = process::id().cast_signed();
    let (our_count, count) = (ours.len() as libc::c_ulong, theirs.len() as libc::c_ulong);
    let (ours, theirs) = (ours.as_ptr(), theirs.as_ptr());
    // SAFETY: the caller's promise for what is ours; the rest is looked at by the system, which does not fail for that.
    let copied = unsafe {
        match way {
            Way::FromCaller => libc::process_vm_readv(process, ours, our_count, theirs, count, 0),
            Way::ToCaller => libc::process_vm_writev(process, ours, our_count, theirs, count, 0),
        }
    };
    match usize::try_from(copied) {
        Ok(copied) if copied > 0 => Asked::Copied(copied),
        Ok(_) => Asked::NotThere,
        Err(_) => match io::Error::last_os_error().raw_os_error() {
            Some(libc::ENOSYS | libc::EPERM) => Asked::Forbidden,
            _ => Asked::NotThere,
        },
    }
}

/// Bytes of memory that this machine has.
pub(super) fn memory() -> u64 {
    // SAFETY: the system answers with numbers, negative ones if it does not know.
    let (pages, bytes) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    match (u64::try_from(pages), u64::try_from(bytes)) {
        (Ok(pages), Ok(bytes)) => pages.saturating_mul(bytes),
        _ => u64::MAX,
    }
}

/// Whether that is on the stack of this thread, as far as it is in use.
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

/// Where the stack of this thread is. That of the first thread grows, so its start is a guess.
fn stack() -> (usize, usize) {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the first function fills the attributes, which the others read, and give back.
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

    /// Two pages, of which the second one may not be touched.
    fn half_mapped() -> usize {
        // SAFETY: a mapping at a new address touches nothing that exists, and its second half is nobody else's.
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
    fn what_is_not_there_is_an_error() {
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
        // A constant.
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
    fn pieces_are_from_everywhere() {
        let (pages, here) = (half_mapped(), [3_u8, 4]);
        let here = (&raw const here).expose_provenance();
        assert_eq!(write(pages, &[1, 2]), Ok(()));
        let read = |pieces: &[_]| {
            let mut to = vec![0; 3];
            read_pieces(&mut to, pieces).map(|()| to)
        };
        assert_eq!(read(&[(here, (1, 2))]), Ok(vec![0, 3, 4]));
        assert_eq!(read(&[(pages, (1, 2)), (here, (0, 1))]), Ok(vec![3, 1, 2]));
        assert_eq!(read(&[(here, (0, 2)), (pages + 4096, (2, 1))]), REFUSED);
        // More than the system takes at once.
        let many: Vec<_> = (0..3000).map(|at| (pages + at % 2, (at, 1))).collect();
        let mut to = [0; 3000];
        assert_eq!(read_pieces(&mut to, &many), Ok(()));
        assert_eq!(to[..], [1, 2].repeat(1500));
    }

    #[test]
    fn mappings_say_what_they_allow() {
        let pages = half_mapped();
        assert!(allows(pages, 4096, Access::Read) && allows(pages + 9, 4, Access::Write));
        assert!(!allows(pages, 4097, Access::Read) && !allows(pages, 1, Access::Execute));
        assert!(allows(half_mapped as fn() -> usize as usize, 1, Access::Execute));
        assert!(!allows(usize::MAX, 2, Access::Read) && !allows(0, 1, Access::Read));
    }
}
