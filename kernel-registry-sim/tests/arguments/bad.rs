//! Collects wrong arguments for driver functions: unmapped addresses, stale handles, absurd numbers.

use super::signatures::Kind;
use super::world::World;

/// Addresses where nothing is mapped, too little is mapped, or nothing may be written.
pub struct Addresses {
    freed: usize,
    forbidden: usize,
    read_only: usize,
    /// The last bytes before a page without access.
    end: usize,
}

impl Addresses {
    pub fn new() -> Self {
        const PAGES: usize = 4 * 4096;
        let map = |access| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a mapping at a new address touches nothing that exists.
            let pages = unsafe { libc::mmap(std::ptr::null_mut(), PAGES, access, flags, -1, 0) };
            assert_ne!(pages, libc::MAP_FAILED);
            pages
        };
        let (freed, forbidden) = (map(libc::PROT_READ | libc::PROT_WRITE), map(libc::PROT_NONE));
        let (read_only, ends) = (map(libc::PROT_READ), map(libc::PROT_READ | libc::PROT_WRITE));
        // Maps a forbidden page at the freed address, because the next mapping would often get the same address.
        // SAFETY: only this function has these pages.
        unsafe {
            libc::memset(ends, b'x'.into(), PAGES);
            libc::mprotect(ends.cast::<u8>().add(PAGES / 2).cast(), PAGES / 2, libc::PROT_NONE);
            libc::munmap(freed, PAGES);
            let flags =
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
            libc::mmap(freed, 4096, libc::PROT_NONE, flags, -1, 0);
        }
        Addresses {
            freed: freed.expose_provenance(),
            forbidden: forbidden.expose_provenance(),
            read_only: read_only.expose_provenance(),
            end: ends.expose_provenance() + PAGES / 2 - 3,
        }
    }

    /// Returns addresses that are invalid for reading and writing any argument. `read_only` is not among them, because
    /// it can be read.
    pub fn all(&self) -> Vec<usize> {
        const KERNEL: usize = 0xffff_8000_0000_1000;
        const BETWEEN: usize = 0x8000_0000_0000_0000;
        vec![1, 8, 4095, self.freed, self.forbidden, self.end, KERNEL, BETWEEN, usize::MAX - 7, usize::MAX]
    }
}

/// Returns wrong values for an argument of this kind.
pub fn values(kind: &Kind, nowhere: &Addresses, world: &World) -> Vec<usize> {
    let numbers = [0, 1, 2, 3, 7, 31, 1 << 16, i32::MAX as usize, 1 << 31, u32::MAX as usize];
    let sizes = [1 << 32, 1 << 40, 1 << 47, isize::MAX as usize, usize::MAX - 4096, usize::MAX];
    let mut values = match kind {
        Kind::Number => return [&numbers[..], &sizes].concat(),
        Kind::Handle => {
            [&numbers[..4], &world.stale, &world.handles(), &[usize::MAX, 1 << 40, 2 << 40 | 64]].concat()
        }
        Kind::Size => [&numbers[..], &sizes, &world.stale].concat(),
        Kind::Out => vec![0, nowhere.read_only],
        _ => vec![0],
    };
    values.extend(nowhere.all());
    values
}
