//! Finds the link section with the records of kernels in the running program, and puts this library's own record into it.

use kernel_registry_format::{Encoded, LibraryRecord, encode_library, encoded_library_len, section};

const LIBRARY: LibraryRecord<'static> =
    LibraryRecord { version: env!("CARGO_PKG_VERSION"), compiler: env!("KERNEL_REGISTRY_RUSTC"), copy: COPY };

/// The section's name in this program.
pub(crate) const NAME: &str = if cfg!(windows) { section::PE_SECTION } else { section::ELF };

/// A number that identifies this copy of the library among other copies in the program. build.rs computes it.
pub const COPY: u64 = match u64::from_str_radix(env!("KERNEL_REGISTRY_COPY"), 16) {
    Ok(copy) => copy,
    Err(_) => panic!("build.rs writes sixteen digits"),
};

/// The record of this library itself. It makes the section exist in every program, even in one without kernels, so that the symbols of
/// the section's bounds are always defined. A tool that reads the binary finds the library's version in this record.
///
/// On Windows `#[used]` keeps it in the object file only: a linker that collects garbage drops a section that nothing refers to. So
/// [`section`] refers to it, and so does every [`Registration`](crate::registry::Registration).
#[used]
#[cfg_attr(
    not(any(windows, target_vendor = "apple", target_family = "wasm")),
    unsafe(link_section = "kernel_registry_v1")
)]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__kernel_reg_v1"))]
#[cfg_attr(windows, unsafe(link_section = ".krnl1$b"))]
pub(crate) static ANCHOR: [u8; encoded_library_len(&LIBRARY)] = encode_library(&LIBRARY);

/// Compares the literals in the attributes above and in `__kernel!` with the constants, because attributes cannot use constants.
const _: () = {
    assert!(matches!(section::ELF.as_bytes(), b"kernel_registry_v1"));
    assert!(matches!(section::MACH_O.as_bytes(), b"__DATA,__kernel_reg_v1"));
    assert!(matches!(section::PE.as_bytes(), b".krnl1$b"));
};

/// Returns the bytes of a record.
pub(crate) const fn bytes<const FIXED: usize, const PATH: usize, const PARAMS: usize>(
    record: &'static Encoded<FIXED, PATH, PARAMS>,
) -> &'static [u8] {
    // SAFETY: `Encoded` is a `#[repr(C)]` struct of byte arrays: it has no padding, every bit of it is initialised,
    // and it is immutable. The slice covers it exactly.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(record).cast(), size_of_val(record)) }
}

/// Returns the section of this program or shared library, on targets whose object format defines the section's bounds. (Miri has no
/// linker, so it has no section.)
#[cfg(not(any(windows, target_vendor = "apple", target_family = "wasm", miri)))]
pub(crate) fn section() -> Option<&'static [u8]> {
    unsafe extern "C" {
        #[link_name = "__start_kernel_registry_v1"]
        static START: u8;
        #[link_name = "__stop_kernel_registry_v1"]
        static STOP: u8;
    }
    let start = &raw const START;
    let length = (&raw const STOP).addr() - start.addr();
    // SAFETY: the linker defines both symbols as the bounds of the output section of that name in
    // this very module, and `ANCHOR` makes sure that there is one. The section consists of immutable
    // statics without interior mutability, and zeros between them; it is mapped as long as this code is.
    Some(unsafe { std::slice::from_raw_parts(start, length) })
}

/// Returns the section of this program or DLL. Linkers for Windows define no bounds, but they sort the parts of a section by the name
/// after the dollar sign: records are in the part `b`, so all of them are between `a` and `z`.
#[cfg(all(windows, not(miri)))]
pub(crate) fn section() -> Option<&'static [u8]> {
    use std::hint::black_box;

    // A zero is no record, but the padding that readers skip.
    #[unsafe(link_section = ".krnl1$a")]
    static START: [u8; 1] = [0];
    #[unsafe(link_section = ".krnl1$z")]
    static STOP: [u8; 1] = [0];

    black_box(&raw const ANCHOR);
    // The compiler must not know that what follows `START` is outside of that static.
    let start: *const u8 = black_box(&raw const START).cast();
    let length = black_box(&raw const STOP).addr() - start.addr();
    // SAFETY: the linker puts all parts of the section into this very module, in the order of their names. The section consists of
    // immutable statics without interior mutability, and zeros between them; it is mapped as long as this code is.
    Some(unsafe { std::slice::from_raw_parts(start, length) })
}

/// Returns `None` on targets where the section's bounds are not known. Then the registry does not compare registrations with records.
#[cfg(any(target_vendor = "apple", target_family = "wasm", miri))]
pub(crate) fn section() -> Option<&'static [u8]> {
    None
}

#[cfg(test)]
mod tests {
    use kernel_registry_format::{Record, Records};

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no linker to define the bounds")]
    fn the_section_holds_the_library() {
        let section = section().expect("this platform knows its section");
        let records: Vec<_> = Records::new(section).collect::<Result<_, _>>().expect("well-formed");
        assert_eq!(records, [Record::Library(LIBRARY)]);
        assert!(section.as_ptr_range().contains(&ANCHOR.as_ptr()));
    }
}
