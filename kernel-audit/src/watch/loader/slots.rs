//! The slots of a library, from which it takes the addresses of the functions of other libraries that it calls. A slot that is changed
//! changes the calls of this library alone.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::mapped::{self, Mapped};
use super::symbols::Symbols;

/// The program header of what the loader protects once the slots are filled.
const RELRO: u32 = libc::PT_GNU_RELRO;

/// A slot, and the number of its function in the list that was searched for.
pub(crate) struct Slot {
    pub(crate) function: usize,
    address: usize,
    is_protected: bool,
}

/// The slots that the library at this base has for these functions.
pub(crate) fn find(base: u64, functions: &[&[u8]]) -> Vec<Slot> {
    let mut slots = Vec::new();
    mapped::each(&mut |file| {
        if file.base != base {
            return false;
        }
        let Some(symbols) = Symbols::read(file) else { return true };
        for (offset, name) in symbols.slots(file) {
            let address = base.wrapping_add(offset);
            let function = functions.iter().position(|function| *function == name);
            if let (Some(function), Some(_)) = (function, file.segment_at(address, 8)) {
                let is_protected = is_protected(file, address);
                slots.push(Slot { function, address: address as usize, is_protected });
            }
        }
        true
    });
    slots
}

fn is_protected(file: &Mapped<'_>, address: u64) -> bool {
    let mut headers = file.headers.iter().filter(|header| header.p_type == RELRO);
    headers.any(|header| (file.start(header)..file.start(header) + header.p_memsz).contains(&address))
}

impl Slot {
    /// The address in the slot.
    ///
    /// # Safety
    ///
    /// The library is mapped.
    pub(crate) unsafe fn get(&self) -> usize {
        // SAFETY: as the caller promises.
        unsafe { self.pointer() }.load(Ordering::Relaxed).addr()
    }

    /// Puts a function into the slot.
    ///
    /// # Safety
    ///
    /// The library is mapped, and the function does what the library expects.
    ///
    /// # Errors
    ///
    /// The page cannot be made writable.
    pub(crate) unsafe fn set(&self, function: *const ()) -> io::Result<()> {
        let protect = |rights| {
            // SAFETY: the call only returns a number.
            let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            let begin = ptr::with_exposed_provenance_mut(self.address - self.address % page);
            // SAFETY: the loader has mapped the page, which holds slots; another thread that reads it may go on.
            match unsafe { libc::mprotect(begin, page, rights) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        if self.is_protected {
            protect(libc::PROT_READ | libc::PROT_WRITE)?;
        }
        // SAFETY: as the caller promises. The page can be written to.
        unsafe { self.pointer() }.store(function.cast_mut(), Ordering::Release);
        if self.is_protected {
            protect(libc::PROT_READ)?;
        }
        Ok(())
    }

    /// # Safety
    ///
    /// The library is mapped.
    unsafe fn pointer(&self) -> &AtomicPtr<()> {
        // SAFETY: a slot is an aligned pointer.
        unsafe { AtomicPtr::from_ptr(ptr::with_exposed_provenance_mut(self.address)) }
    }
}
