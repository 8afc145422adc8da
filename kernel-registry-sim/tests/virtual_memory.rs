//! Virtual memory: reserving address ranges, allocating memory, mapping it, and access.

mod device;

use device::*;

const GRANULARITY: usize = 2 << 20;

/// `CUmemAllocationProp` for memory of a device.
fn properties(device: i32) -> [i32; 8] {
    const PINNED: i32 = 1;
    const DEVICE: i32 = 1;
    [PINNED, 0, DEVICE, device, 0, 0, 0, 0]
}

fn create(bytes: usize, device: i32) -> usize {
    get("cuMemCreate", &[bytes, place(&mut properties(device)), 0])
}

fn reserve(bytes: usize) -> usize {
    get("cuMemAddressReserve", &[bytes, 0, 0, 0])
}

fn set_access(address: usize, bytes: usize, device: i32, flags: i32) -> u32 {
    const DEVICE: i32 = 1;
    call("cuMemSetAccess", &[address, bytes, place(&mut [DEVICE, device, flags]), 1])
}

const READ: i32 = 1;
const READ_WRITE: i32 = 3;

#[test]
fn one_memory_at_two_addresses() {
    // No other test allocates on this device.
    let ordinal = device(2) as i32;
    context(ordinal as usize);
    let least = get("cuMemGetAllocationGranularity", &[place(&mut properties(ordinal)), 0]);
    expect_eq!(least, GRANULARITY);
    let store = kernel("store");
    let free = get("cuMemGetInfo_v2", &[place(&mut 0_usize)]);
    let (memory, range) = (create(GRANULARITY, ordinal), reserve(2 * GRANULARITY));
    expect_eq!(range % GRANULARITY, 0);
    expect_eq!(free - get("cuMemGetInfo_v2", &[place(&mut 0_usize)]), GRANULARITY);
    for address in [range, range + GRANULARITY] {
        ok("cuMemMap", &[address, GRANULARITY, 0, memory, 0]);
    }
    expect_eq!(set_access(range, 2 * GRANULARITY, ordinal, READ_WRITE), 0);

    let stream = stream();
    launch(store, stream, &[range as u64 + 4, 42]);
    ok("cuStreamSynchronize", &[stream]);
    expect_eq!(words(range + GRANULARITY, 2), [0, 42]);
    // A copy may go over the border between two mappings.
    expect_eq!(words(range + GRANULARITY - 4, 3), [0, 0, 42]);
    ok("cuMemsetD32_v2", &[range + GRANULARITY - 4, 5, 2]);
    expect_eq!(words(range, 2), [5, 42]);

    // The memory is freed when its last reference ends.
    let before = get("cuMemGetInfo_v2", &[place(&mut 0_usize)]);
    ok("cuMemRelease", &[memory]);
    expect_eq!(get("cuMemGetInfo_v2", &[place(&mut 0_usize)]), before);
    ok("cuMemUnmap", &[range, 2 * GRANULARITY]);
    expect_eq!(get("cuMemGetInfo_v2", &[place(&mut 0_usize)]) - before, GRANULARITY);
    ok("cuMemAddressFree", &[range, 2 * GRANULARITY]);
}

#[test]
fn what_is_wrong_is_refused() {
    context(0);
    let mut handle = 0_usize;
    let handle = place(&mut handle);
    let nowhere = [
        ("cuMemAddressReserve", &[0, GRANULARITY, 0, 0, 0][..]),
        ("cuMemCreate", &[handle, GRANULARITY, 0, 0]),
        ("cuMemRelease", &[12345]),
    ];
    let somewhere = [
        ("cuMemAddressReserve", &[handle, GRANULARITY - 1, 0, 0, 0][..]),
        ("cuMemAddressReserve", &[handle, 0, 0, 0, 0]),
        ("cuMemAddressReserve", &[handle, GRANULARITY, 3 << 20, 0, 0]),
        ("cuMemAddressReserve", &[handle, GRANULARITY, 0, 0, 1]),
        ("cuMemCreate", &[handle, 100, place(&mut properties(0)), 0]),
        ("cuMemCreate", &[handle, GRANULARITY, place(&mut [0_i32; 8]), 0]),
        ("cuMemGetAllocationGranularity", &[handle, place(&mut properties(0)), 2]),
        ("cuMemUnmap", &[GRANULARITY, GRANULARITY]),
        ("cuMemAddressFree", &[GRANULARITY, GRANULARITY]),
    ];
    // NVIDIA's driver dereferences null pointers and invalid memory handles.
    let nowhere = if on_a_gpu() { &[][..] } else { &nowhere };
    for (name, arguments) in somewhere.iter().chain(nowhere) {
        expect_eq!(call(name, arguments), INVALID_VALUE, "{name}");
    }
    expect_eq!(call("cuMemCreate", &[handle, GRANULARITY, place(&mut properties(9)), 0]), INVALID_DEVICE);
    expect_eq!(call("cuMemCreate", &[handle, 1 << 40, place(&mut properties(0)), 0]), OUT_OF_MEMORY);

    let (memory, range) = (create(GRANULARITY, 0), reserve(2 * GRANULARITY));
    let map = |address, bytes, offset| call("cuMemMap", &[address, bytes, offset, memory, 0]);
    expect_eq!(map(range, 2 * GRANULARITY, 0), NOT_SUPPORTED, "more than there is");
    expect_eq!(map(range, GRANULARITY, 4096), NOT_SUPPORTED, "not from its beginning");
    expect_eq!(map(range + 4096, GRANULARITY, 0), INVALID_VALUE, "not aligned");
    expect_eq!(map(range + 2 * GRANULARITY, GRANULARITY, 0), INVALID_VALUE, "not reserved");
    expect_eq!(set_access(range, GRANULARITY, 0, READ_WRITE), INVALID_VALUE, "not mapped");
    expect_eq!(map(range, GRANULARITY, 0), 0);
    expect_eq!(map(range, GRANULARITY, 0), INVALID_VALUE, "mapped already");
    expect_eq!(set_access(range, 2 * GRANULARITY, 0, READ_WRITE), INVALID_VALUE, "mapped in part");
    expect_eq!(set_access(range, GRANULARITY, 0, 2), INVALID_VALUE, "to write alone");
    expect_eq!(call("cuMemAddressFree", &[range, 2 * GRANULARITY]), INVALID_VALUE, "still mapped");
    // Ranges that are mapped in part, or not at all, can be unmapped, too.
    ok("cuMemUnmap", &[range, 2 * GRANULARITY]);
    ok("cuMemUnmap", &[range, GRANULARITY]);
    expect_eq!(call("cuMemAddressFree", &[range, GRANULARITY]), INVALID_VALUE, "a part");
    ok("cuMemAddressFree", &[range, 2 * GRANULARITY]);
    expect_eq!(call("cuMemAddressFree", &[range, 2 * GRANULARITY]), INVALID_VALUE, "free already");
    ok("cuMemRelease", &[memory]);
    if !on_a_gpu() {
        expect_eq!(call("cuMemRelease", &[memory]), INVALID_VALUE, "gone");
    }
}

/// Expects what a kernel that stores to an address comes to, in a context of its own. On a GPU nothing works any more after
/// an illegal address, and there is one device.
#[track_caller]
fn stores(device: usize, address: usize, expected: u32, what: &str) {
    if on_a_gpu() && (device != 0 || expected != 0) {
        return;
    }
    let context = context(device);
    let stream = stream();
    launch(kernel("store"), stream, &[address as u64, 1]);
    let code = call("cuStreamSynchronize", &[stream]);
    ok("cuCtxDestroy_v2", &[context]);
    expect_eq!(code, expected, "{what}");
}

#[test]
fn kernels_may_do_what_they_were_given_access_for() {
    context(0);
    let (memory, range) = (create(GRANULARITY, 0), reserve(GRANULARITY));
    stores(0, range, ILLEGAL_ADDRESS, "nothing is mapped");
    ok("cuMemMap", &[range, GRANULARITY, 0, memory, 0]);
    stores(0, range, ILLEGAL_ADDRESS, "no device may use it");
    if !on_a_gpu() {
        expect_eq!(set_access(range, GRANULARITY, 1, READ_WRITE), 0);
    }
    stores(0, range, ILLEGAL_ADDRESS, "another device may use it");
    stores(1, range, 0, "it may");
    expect_eq!(set_access(range, GRANULARITY, 0, READ), 0);
    stores(0, range, ILLEGAL_ADDRESS, "it may be read");
    let stored_there = if on_a_gpu() { 0 } else { 1 };
    let to = device::memory(4);
    launch(kernel("load"), 0, &[to as u64, range as u64]);
    expect_eq!(words(to, 1), [stored_there]);
    expect_eq!(set_access(range, GRANULARITY, 0, READ_WRITE), 0);
    stores(0, range + 4, 0, "it may");
    expect_eq!(set_access(range, GRANULARITY, 0, 0), 0);
    stores(0, range, ILLEGAL_ADDRESS, "the access was taken back");
    ok("cuMemUnmap", &[range, GRANULARITY]);
    stores(1, range, ILLEGAL_ADDRESS, "it is not mapped any more");

    // The next mapping has the earlier content only if it maps the same memory.
    ok("cuMemMap", &[range, GRANULARITY, 0, create(GRANULARITY, 0), 0]);
    expect_eq!(set_access(range, GRANULARITY, 0, READ_WRITE), 0);
    expect_eq!(words(range, 2), [0, 0]);
    ok("cuMemUnmap", &[range, GRANULARITY]);
    ok("cuMemMap", &[range, GRANULARITY, 0, memory, 0]);
    expect_eq!(set_access(range, GRANULARITY, 0, READ_WRITE), 0);
    expect_eq!(words(range, 2), [stored_there, 1]);
}
