//! Fuzzes the image reader: for any bytes the reader must end, must not panic, and must give consistent answers. Separable images are
//! also cut into pieces, and each piece is read.
//!
//! The same bytes are read as a core dump of a GPU.
//!
//! Seed the fuzzer with the real images in `kernel-registry-image/tests/images`, and with the unpacked dumps in `kernel-registry-image/tests/dumps`.

#![no_main]

use kernel_registry_cuda::ptx;
use kernel_registry_image::dump;
use kernel_registry_image::{Signature, VariantKind, near, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(symbol) = std::str::from_utf8(bytes) {
        if let Some(signature) = Signature::parse(symbol) {
            assert!(signature.to_string().len() <= 64 * symbol.len() + 256);
        }
    }
    if let Ok(dump) = dump::read(bytes) {
        let places = dump.grids.iter().flat_map(|grid| &grid.places);
        assert!(places.map(|place| place.threads).sum::<u64>() <= bytes.len() as u64 / 56);
    }
    match read(bytes) {
        Ok(image) => {
            for variant in &image.variants {
                assert_eq!(variant.target, variant.target.to_string().parse().unwrap());
                assert!(variant.runs_on(variant.target.capability()));
                for entry in &variant.entries {
                    let is_cubin = variant.kind == VariantKind::Cubin;
                    assert_eq!(entry.resources.is_some(), is_cubin);
                    assert!(entry.params.iter().all(|param| param.align.is_some() != is_cubin));
                    assert!(!entry.name().is_empty() || entry.symbol.is_empty());
                }
                assert!(near("saxpy", &variant.entries).len() <= 3);
            }
            if image.is_separable() {
                let kernels: Vec<_> = ptx::kernels(bytes).map(Result::unwrap).collect();
                for (number, entry) in image.variants[0].entries.iter().enumerate().take(8) {
                    let piece =
                        ptx::cut(bytes, &kernels, |other| other == number).collect::<Vec<_>>().concat();
                    assert_eq!(read(&piece).unwrap().variants[0].entries, std::slice::from_ref(entry));
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
