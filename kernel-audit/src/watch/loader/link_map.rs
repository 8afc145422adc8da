//! The loader's list of libraries, read as debuggers do: without any call. Sanitizers and other libraries that stand in front of functions ask for the real ones
//! before they can be called themselves.

use std::ffi::{c_char, c_int};
use std::ptr;

const NAMES: usize = 5;
const TABLE: usize = 6;
const GNU_HASH: usize = 0x6fff_fef5;

/// The beginning of glibc's `struct r_debug`.
#[repr(C)]
struct Debug {
    version: c_int,
    first: *const Library,
}

/// The beginning of glibc's `struct link_map`.
#[repr(C)]
struct Library {
    base: usize,
    name: *const c_char,
    dynamic: *const [usize; 2],
    next: *const Library,
}

unsafe extern "C" {
    #[link_name = "_r_debug"]
    static DEBUG: Debug;
}

/// Finds a symbol in the first library after the one whose path ends with `before`. Makes no call, so nothing that stands in front of a function sees it.
///
/// # Safety
///
/// No other thread closes a library meanwhile.
pub(crate) unsafe fn find_after(before: &[u8], symbol: &[u8]) -> Option<usize> {
    // SAFETY: the loader keeps this list for debuggers. Its libraries are mapped, as the caller promises.
    unsafe {
        let mut library = ptr::read_volatile(&raw const DEBUG.first);
        let mut is_after = false;
        while let Some(this) = library.as_ref() {
            if is_after && let Some(address) = this.find(symbol) {
                return Some(address);
            }
            is_after |= ends_with(this.name, before);
            library = this.next;
        }
    }
    None
}

impl Library {
    /// The address of a symbol that the library defines.
    ///
    /// # Safety
    ///
    /// The library is mapped.
    unsafe fn find(&self, symbol: &[u8]) -> Option<usize> {
        // SAFETY: the tables have the form that the loader itself relies on, and end where their numbers say.
        unsafe {
            let (mut names, mut table, mut hash) = (0, 0, 0);
            let mut entry = self.dynamic;
            while !entry.is_null() && (*entry)[0] != 0 {
                let [tag, value] = *entry;
                // The loader has made addresses of them, except in what the kernel maps.
                let address = if value < self.base { value + self.base } else { value };
                match tag {
                    NAMES => names = address,
                    TABLE => table = address,
                    GNU_HASH => hash = address,
                    _ => {}
                }
                entry = entry.add(1);
            }
            if names == 0 || table == 0 || hash == 0 {
                return None;
            }
            let word = |index: usize| ptr::with_exposed_provenance::<u32>(hash).add(index).read_volatile();
            let (buckets, first, filters) = (word(0), word(1), word(2) as usize);
            let wanted = {
                let (mut sum, mut index) = (5381_u32, 0);
                while index < symbol.len() {
                    sum = sum.wrapping_mul(33).wrapping_add(symbol[index].into());
                    index += 1;
                }
                sum
            };
            let buckets_at = 4 + 2 * filters;
            let mut index = word(buckets_at + wanted.checked_rem(buckets)? as usize);
            if index < first {
                return None;
            }
            loop {
                let hash = word(buckets_at + buckets as usize + (index - first) as usize);
                let entry = ptr::with_exposed_provenance::<u8>(table).add(24 * index as usize);
                let name = names + entry.cast::<u32>().read_volatile() as usize;
                let section = entry.add(6).cast::<u16>().read_volatile();
                if hash | 1 == wanted | 1 && section != 0 && is(ptr::with_exposed_provenance(name), symbol) {
                    return Some(self.base + entry.add(8).cast::<usize>().read_volatile());
                }
                if hash & 1 == 1 {
                    return None;
                }
                index += 1;
            }
        }
    }
}

/// Whether a text that ends with a zero is this one.
///
/// # Safety
///
/// There is such a text.
unsafe fn is(text: *const u8, wanted: &[u8]) -> bool {
    let mut index = 0;
    // SAFETY: it is read up to its zero at most. Volatile, so that the compiler makes no call of it.
    unsafe {
        while index < wanted.len() {
            if text.add(index).read_volatile() != wanted[index] {
                return false;
            }
            index += 1;
        }
        text.add(index).read_volatile() == 0
    }
}

/// Whether a text that ends with a zero ends with this one.
///
/// # Safety
///
/// There is such a text, or the pointer is null.
unsafe fn ends_with(text: *const c_char, wanted: &[u8]) -> bool {
    if text.is_null() {
        return false;
    }
    let mut length = 0;
    // SAFETY: as above.
    unsafe {
        while text.add(length).read_volatile() != 0 {
            length += 1;
        }
        length >= wanted.len() && is(text.add(length - wanted.len()).cast(), wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_libc_is_found_without_a_call() {
        // SAFETY: no test closes a library.
        let found = unsafe { find_after(b"", b"dlsym") };
        assert_eq!(found, Some(libc::dlsym as *const () as usize));
        // SAFETY: as above.
        unsafe {
            assert_eq!(find_after(b"", b"no_such_function"), None);
            assert_eq!(find_after(b"no-such-library.so", b"dlsym"), None);
        }
    }
}
