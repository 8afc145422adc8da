//! Decides how to load an image: as a module or as a library.
//!
//! Machine code loads fastest with the module functions (`cuModule..`), PTX with the library functions (`cuLibrary..`),
//! which compile on all cores. A wrong choice only costs time: both kinds of functions accept every image.

use kernel_registry_cuda::fatbin::{self, Entry, Kind};

/// How an image is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The image has machine code for the device.
    Module,
    /// The driver has to compile the image. `text` says whether the image is plain PTX and not a fatbin.
    Library { text: bool },
}

impl Route {
    /// Returns the route of an image on a device of this architecture: 90 for sm_90.
    pub(super) fn choose(image: &[u8], arch: u32) -> Route {
        match image {
            [0x7f, b'E', b'L', b'F', ..] => Route::Module,
            _ if !fatbin::is_fatbin(image) => Route::Library { text: true },
            _ if has_code(image, arch) => Route::Module,
            _ => Route::Library { text: false },
        }
    }
}

/// Returns whether a fatbin has machine code that runs on the architecture. True for a malformed fatbin, too: the driver
/// reports the error when it loads the module.
fn has_code(image: &[u8], arch: u32) -> bool {
    fatbin::entries(image).any(|entry| match entry {
        Ok(Entry { kind, sm, .. }) => kind == Kind::Cubin && sm / 10 == arch / 10 && sm <= arch,
        Err(_) => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a fatbin with empty entries of these kinds and targets.
    fn fatbin(entries: &[(u16, u32)]) -> Vec<u8> {
        let mut bytes = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
        bytes.extend((64 * entries.len() as u64).to_le_bytes());
        for (kind, target) in entries {
            let mut entry = [0; 64];
            entry[..2].copy_from_slice(&kind.to_le_bytes());
            entry[4..8].copy_from_slice(&64_u32.to_le_bytes());
            entry[28..32].copy_from_slice(&target.to_le_bytes());
            bytes.extend(entry);
        }
        bytes
    }

    #[test]
    fn machine_code_loads_as_a_module_and_the_rest_as_a_library() {
        let compiled = Route::Library { text: false };
        assert_eq!(Route::choose(b"\x7fELF\x02", 90), Route::Module);
        assert_eq!(Route::choose(b".version 8.0", 90), Route::Library { text: true });
        assert_eq!(Route::choose(b"", 90), Route::Library { text: true });
        assert_eq!(Route::choose(&fatbin(&[(1, 50), (2, 80)]), 86), Route::Module);
        assert_eq!(Route::choose(&fatbin(&[(2, 86), (1, 50)]), 80), compiled);
        assert_eq!(Route::choose(&fatbin(&[(2, 80), (1, 80)]), 90), compiled);
        assert_eq!(Route::choose(&fatbin(&[]), 90), compiled);
    }

    #[test]
    fn malformed_fatbins_are_left_to_the_driver() {
        let mut endless = fatbin(&[(1, 50)]);
        endless[20..32].fill(0);
        assert_eq!(Route::choose(&endless, 90), Route::Module);
        let whole = fatbin(&[(1, 50)]);
        for length in 4..whole.len() {
            assert!(matches!(
                Route::choose(&whole[..length], 90),
                Route::Module | Route::Library { text: false }
            ));
        }
    }
}
