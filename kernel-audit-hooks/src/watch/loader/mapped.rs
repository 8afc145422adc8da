//! Lists the files that the loader has mapped: the program and its libraries.

use std::env;
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, ptr, slice};

use crate::watch::process::fork;

/// A file that the loader has mapped.
pub(crate) struct Mapped<'a> {
    /// The loader's name of the file, which is empty for the program itself.
    pub(crate) name: &'a [u8],
    pub(crate) headers: &'a [libc::Elf64_Phdr],
    /// The load bias, which the loader adds to the addresses in the file.
    pub(crate) base: u64,
}

impl Mapped<'_> {
    fn is_named(&self, path: &Path) -> bool {
        self.name == path.as_os_str().as_bytes()
    }

    /// Returns whether a dependency of this name, as in `DT_NEEDED`, resolves to this file.
    pub(crate) fn satisfies(&self, name: &[u8], soname: Option<&[u8]>) -> bool {
        self.name == name
            || soname == Some(name)
            || self.name.rsplit(|byte| *byte == b'/').next() == Some(name)
    }

    /// Returns the bytes of the first segment of this type, if it's mapped.
    pub(crate) fn segment(&self, kind: u32) -> Option<&[u8]> {
        let header = self.headers.iter().find(|header| header.p_type == kind)?;
        self.rest(self.start(header))?.get(..header.p_filesz as usize)
    }

    /// Returns the bytes from an address to the end of its segment, without zeros that aren't in the file.
    pub(crate) fn rest(&self, address: u64) -> Option<&[u8]> {
        let (header, inside) = self.segment_at(address, 1)?;
        let bytes = usize::try_from(header.p_filesz - inside).ok()?;
        let begin = ptr::with_exposed_provenance::<u8>(address as usize);
        // SAFETY: the loader has mapped these bytes readable. They stay mapped while its lock is held.
        (header.p_flags & libc::PF_R != 0).then(|| unsafe { slice::from_raw_parts(begin, bytes) })
    }

    pub(crate) fn path(&self) -> Option<PathBuf> {
        if self.name.is_empty() {
            // Linux mapped no interpreter if the loader itself was run: `ld-linux-x86-64.so.2 PROGRAM`.
            // SAFETY: the call returns a number.
            let is_by_loader = unsafe { libc::getauxval(libc::AT_BASE) } == 0;
            let mapped = if is_by_loader { path_at(self.start(self.headers.first()?)) } else { None };
            return mapped.or_else(|| env::current_exe().ok());
        }
        // The program passed a relative name to `dlopen`. Its working directory may have changed since.
        let name = Path::new(OsStr::from_bytes(self.name));
        if name.is_absolute() { Some(name.to_owned()) } else { path_at(self.start(self.headers.first()?)) }
    }

    /// Returns the first address of the file in memory.
    pub(crate) fn begin(&self) -> u64 {
        const PAGE: u64 = 4096;
        let loaded = self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        loaded.map(|header| self.start(header)).min().map_or(self.base, |begin| begin - begin % PAGE)
    }

    /// Returns the first address of a segment in memory.
    pub(crate) fn start(&self, header: &libc::Elf64_Phdr) -> u64 {
        self.base.wrapping_add(header.p_vaddr)
    }

    /// Returns the segment that contains these bytes, and the address's offset in it.
    pub(crate) fn segment_at(&self, address: u64, bytes: u64) -> Option<(&libc::Elf64_Phdr, u64)> {
        let loaded = self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        loaded.into_iter().find_map(|header| {
            let inside = address.checked_sub(self.start(header))?;
            (inside.checked_add(bytes)? <= header.p_filesz).then_some((header, inside))
        })
    }
}

/// Returns the path of the file that is mapped at an address, from `/proc/self/maps`.
fn path_at(address: u64) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let is_at = |line: &&str| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let ends = range.map(|(from, to)| (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16)));
        matches!(ends, Some((Ok(from), Ok(to))) if (from..to).contains(&address))
    };
    let line = maps.lines().find(is_at)?;
    Some(PathBuf::from(&line[line.find('/')?..]))
}

/// Visits a file, and returns true to end the iteration.
type Visitor<'a> = &'a mut dyn FnMut(&Mapped<'_>) -> bool;

/// Calls `visit` for each file until it returns true.
pub(crate) fn each(mut visit: Visitor<'_>) {
    unsafe extern "C" fn step(info: *mut libc::dl_phdr_info, _size: usize, visit: *mut c_void) -> c_int {
        // SAFETY: `dl_iterate_phdr` passes a description that's valid during the call, and `visit`.
        let (info, visit) = unsafe { (&*info, &mut *visit.cast::<Visitor<'_>>()) };
        if info.dlpi_phdr.is_null() || info.dlpi_name.is_null() {
            return 0;
        }
        // SAFETY: the loader's lock keeps headers and name mapped. The name ends with a zero.
        let (headers, name) = unsafe {
            let headers = slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            (headers, CStr::from_ptr(info.dlpi_name).to_bytes())
        };
        visit(&Mapped { name, headers, base: info.dlpi_addr }).into()
    }
    // SAFETY: `step` has the expected type, and `visit` lives until the call returns.
    fork::undivided(|| unsafe { libc::dl_iterate_phdr(Some(step), (&raw mut visit).cast()) });
}

/// Returns the load bias of the file with this path, if it's mapped.
pub(crate) fn base_of(path: &Path) -> Option<u64> {
    let mut base = None;
    each(&mut |file| {
        base = file.is_named(path).then_some(file.base);
        base.is_some()
    });
    base
}

/// Returns how many files have been mapped and unmapped so far, by which changes are detected.
pub(crate) fn counts() -> (u64, u64) {
    unsafe extern "C" fn step(info: *mut libc::dl_phdr_info, _size: usize, counts: *mut c_void) -> c_int {
        // SAFETY: as in `each`.
        unsafe { *counts.cast::<(u64, u64)>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut counts = (0, 0);
    // SAFETY: as in `each`.
    fork::undivided(|| unsafe { libc::dl_iterate_phdr(Some(step), (&raw mut counts).cast()) });
    counts
}

/// Returns the mapped files with this name. Python packages have files of the same name in different folders.
pub(crate) fn find_by_name(name: &OsStr) -> Vec<PathBuf> {
    let mut found = Vec::new();
    each(&mut |file| {
        found.extend(file.path().filter(|path| path.file_name() == Some(name)));
        false
    });
    found
}

/// Returns whether these bytes are in a readable segment of a mapped file.
pub(crate) fn is_readable(address: *const c_void, bytes: usize) -> bool {
    let (address, mut is_readable) = (address.addr() as u64, false);
    each(&mut |file| {
        let segment = file.segment_at(address, bytes as u64);
        is_readable = segment.is_some_and(|(header, _)| header.p_flags & libc::PF_R != 0);
        segment.is_some()
    });
    is_readable
}
