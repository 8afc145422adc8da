//! Tests images of toolkits newer than this crate: readable parts are read, and the others reported.

use crate::common::image;
use kernel_registry_image::{Error, Image, Needs, read};

/// Reads reduce.none.fatbin after changing the header of one variant. The variants are PTX, a cubin for sm_75
/// and a cubin for sm_90a.
fn changed(variant: usize, change: impl Fn(&mut [u8])) -> Result<Image, Error> {
    let mut bytes = image("reduce.none.fatbin");
    let mut at = 16;
    for _ in 0..variant {
        let header = u32::from_le_bytes(bytes[at + 4..][..4].try_into().unwrap());
        let size = u64::from_le_bytes(bytes[at + 8..][..8].try_into().unwrap());
        at += header as usize + size as usize;
    }
    change(&mut bytes[at..]);
    read(&bytes)
}

fn kernel(image: &Image) -> &str {
    &image.variants[0].entries[0].symbol
}

#[test]
fn the_other_variants_of_a_fatbin_are_read_and_needs_are_unknown() {
    let whole = changed(0, |_| {}).unwrap();
    assert_eq!((whole.variants.len(), whole.unread.len()), (3, 0));
    assert!(!whole.needs(kernel(&whole)).unknown);

    // An unknown kind, an unknown compression, an unknown attribute, and a damaged cubin.
    let kind = |entry: &mut [u8]| entry[0] = 0x7f;
    let packed = |entry: &mut [u8]| entry[16] = 1;
    let damaged = |entry: &mut [u8]| entry[64 + 62] ^= 0xff;
    for (change, words) in [
        (&kind as &dyn Fn(&mut [u8]), "a newer CUDA toolkit made the image; update kernel-registry"),
        (&packed, "-compress-mode=none"),
        (&damaged, "malformed image"),
    ] {
        let image = changed(2, change).unwrap();
        assert_eq!((image.variants.len(), image.unread.len()), (2, 1), "{words}");
        assert_eq!(image.unread[0].sm, 90);
        assert!(image.unread[0].error.to_string().contains(words), "{}", image.unread[0].error);
        assert_eq!(image.needs(kernel(&image)), and_unknown(whole.needs(kernel(&whole))));

        let missing = image.find("no_such_kernel", "reduce.fatbin").unwrap_err().to_string();
        assert!(missing.contains("(a variant of it cannot be read: "), "{missing}");
    }
}

#[test]
fn a_cubin_of_a_newer_format_has_unknown_needs() {
    let mut bytes = image("spin.sm_90.cubin");
    let of = |image: &Image| image.needs(kernel(image));
    let known = of(&read(&bytes).unwrap());
    bytes[8] = 9;
    assert_eq!(of(&read(&bytes).unwrap()), and_unknown(known));
}

fn and_unknown(mut needs: Needs) -> Needs {
    needs.unknown = true;
    needs
}

#[test]
fn an_attribute_of_an_unknown_format_says_what_to_do() {
    let mut bytes = image("spin.sm_90.cubin");
    // The first attribute of .nv.info: format 4, REGCOUNT, 8 bytes.
    let at = bytes.windows(4).position(|window| window == [4, 0x2f, 8, 0]).unwrap();
    bytes[at] = 5;
    let error = read(&bytes).unwrap_err();
    let (place, what) = (".nv.info".to_owned(), "attributes of format");
    assert_eq!(error, Error::UnknownFormat { place, what, number: 5 });
    assert_eq!(
        error.to_string(),
        ".nv.info has attributes of format 5, which are not known here: a newer CUDA toolkit made the image; \
         update kernel-registry, or compile with CUDA 13.0 or before"
    );
}
