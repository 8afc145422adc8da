//! Tests files of many containers, as linkers join them: each may unpack to so much, and all together stay
//! within bounds.

use crate::packed::container;
use kernel_registry_image::{Error, MAX_PLAIN_SIZE, read};

const MIB: usize = 1 << 20;

#[test]
fn each_container_has_room_of_its_own() {
    // Six times 64 MiB are more than one container may unpack to.
    let file: Vec<u8> =
        (0..6).flat_map(|number| container(&format!("k{number}"), 64 * MIB, 4 * MIB)).collect();
    let image = read(&file).unwrap();
    assert_eq!((image.variants.len(), image.unread.len()), (6, 0), "{:?}", image.unread.first());
    assert_eq!(image.variants[5].entries[0].symbol, "k5");
}

#[test]
fn all_containers_together_unpack_to_no_more_than_the_file_allows() {
    // Each container is within its own bounds, but 2 MiB may not become 2.5 GiB. So only the first containers
    // are read.
    let file: Vec<u8> =
        (0..10).flat_map(|number| container(&format!("k{number}"), 250 * MIB, MIB + MIB / 10)).collect();
    let image = read(&file).unwrap();
    let allowed = MAX_PLAIN_SIZE + 32 * file.len() as u64;
    let count = (allowed / (250 * MIB as u64)) as usize;
    assert_eq!((image.variants.len(), image.unread.len()), (count, 10 - count));
    assert!(matches!(image.unread[0].error, Error::TooLarge { .. }), "{:?}", image.unread[0]);
}
