//! Finds the PTX version of an image. Drivers refuse PTX of a CUDA version that is newer than their own.

use kernel_registry_cuda::CudaVersion as Version;
use kernel_registry_cuda::fatbin::{self, Entry, Kind};

use crate::driver::CudaVersion;

/// Returns the major and minor version of the newest PTX in an image.
pub(super) fn newest(image: &[u8]) -> Option<(u16, u16)> {
    if !fatbin::is_fatbin(image) {
        return find_version(image);
    }
    let version = |entry: Entry<'_>| (entry.kind == Kind::Ptx).then_some(entry.version);
    fatbin::entries(image).filter_map(|entry| entry.ok().and_then(version)).max()
}

/// Returns the version in the `.version` line of PTX text.
fn find_version(ptx: &[u8]) -> Option<(u16, u16)> {
    let mut lines = ptx.split(|byte| *byte == b'\n');
    let version = lines.find_map(|line| line.trim_ascii_start().strip_prefix(b".version"))?;
    let version = str::from_utf8(version).ok()?.split_whitespace().next()?;
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns a sentence that says why the driver refuses the PTX, and what to do.
pub(super) fn sentence(ptx: (u16, u16), driver: CudaVersion) -> String {
    let (toolkit, supported) = (Version::first_with(ptx), driver.newest_ptx());
    let wheel = if driver.major() < 13 { "nvidia-cuda-nvrtc-cu12" } else { "nvidia-cuda-nvrtc" };
    format!(
        "its PTX {}.{} was made by CUDA {toolkit}, and this driver of CUDA {driver} takes PTX up to {}.{}: compile it with CUDA \
         {driver} or older (NVRTC: `pip install '{wheel}=={driver}.*'`), or install a newer driver",
        ptx.0, ptx.1, supported.0, supported.1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_text_and_fatbins_are_read() {
        assert_eq!(newest(b"//\n// x\n.version 9.5\n.target sm_75\n"), Some((9, 5)));
        assert_eq!(newest(b".version 8.0 .target sm_60"), Some((8, 0)));
        for unknown in [&b""[..], b".version x", b"\x7fELF"] {
            assert_eq!(newest(unknown), None);
        }
        let mut fatbin = [0; 144];
        fatbin[..4].copy_from_slice(&[0x50, 0xed, 0x55, 0xba]);
        (fatbin[6], fatbin[8]) = (16, 128);
        // An entry with PTX 8.4, and one with machine code, whose version isn't one of PTX.
        for (at, kind, [minor, major]) in [(16, 1, [4, 8]), (80, 2, [8, 101])] {
            (fatbin[at], fatbin[at + 4]) = (kind, 64);
            (fatbin[at + 24], fatbin[at + 26]) = (minor, major);
        }
        assert_eq!(newest(&fatbin), Some((8, 4)));
    }

    #[test]
    fn the_sentence_names_both_versions_and_the_remedy() {
        assert_eq!(
            sentence((9, 5), CudaVersion::new(13, 0)),
            "its PTX 9.5 was made by CUDA 13.5, and this driver of CUDA 13.0 takes PTX up to 9.0: compile it with CUDA 13.0 or \
             older (NVRTC: `pip install 'nvidia-cuda-nvrtc==13.0.*'`), or install a newer driver"
        );
        let old = sentence((9, 0), CudaVersion::new(12, 4));
        assert!(old.contains("`pip install 'nvidia-cuda-nvrtc-cu12==12.4.*'`"), "{old}");
    }
}
