//! Writes the records of kernels that nvcc linked, from their fatbins in the program's memory.

use std::ffi::c_void;
use std::slice;

use kernel_registry_image::{Image, Signature, newest_variant};

use super::described::{Described, SOURCE};
use crate::image_record::{self, Source};
use crate::linked::{Linked, list};

/// The struct that nvcc's code passes to `__cudaRegisterFatBinary`.
#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    container: *const u8,
    more: *const c_void,
}

const WRAPPER: u32 = 0x4662_43B1;

/// The header of a fatbin: its magic number, its version, its own length, and the length of the entries after it.
#[repr(C)]
struct Container {
    magic: u32,
    version: u16,
    header: u16,
    length: u64,
}

const CONTAINER: u32 = 0xBA55_ED50;

/// Describes kernels of one fatbin.
pub(super) fn describe(fatbin: usize, linked: &[Linked]) -> Vec<Described> {
    let image = list::fatbins().find(|known| known.handle == fatbin).and_then(|known| image(known.wrapper));
    linked.iter().map(|linked| described(image.as_ref(), &linked.symbol.to_string_lossy())).collect()
}

fn described(image: Option<&Image>, symbol: &str) -> Described {
    match image.and_then(|image| Some((image, image.variants.first()?.entry(symbol)?))) {
        Some((image, entry)) => {
            let source = Source { path: entry.name(), file: SOURCE, ..Source::default() };
            Described { record: image_record::record(image, entry, &source), is_read: true }
        }
        None => {
            let signature = Signature::parse(symbol);
            Described::unread(signature.as_ref().map_or(symbol, |signature| &signature.name), symbol)
        }
    }
}

/// Reads the fatbin that a wrapper points to.
fn image(wrapper: *const c_void) -> Option<Image> {
    // SAFETY: nvcc's code has passed this wrapper to the runtime library, so it is a valid wrapper in the program's memory.
    let wrapper = unsafe { wrapper.cast::<Wrapper>().as_ref() }.filter(|wrapper| wrapper.magic == WRAPPER)?;
    // SAFETY: the fatbin is part of the program, and begins with this header.
    let header = unsafe { wrapper.container.cast::<Container>().as_ref() };
    let header = header.filter(|header| header.magic == CONTAINER)?;
    let length = usize::from(header.header) + usize::try_from(header.length).ok()?;
    // SAFETY: the program contains the whole fatbin, and nothing writes to it.
    newest_variant(unsafe { slice::from_raw_parts(wrapper.container, length) }).ok()
}
