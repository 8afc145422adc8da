//! Addresses that are reserved, and memory that is mapped to them.

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
    // Nobody else allocates there.
    const DEVICE: i32 = 2;
    context(DEVICE as usize);
    let least = get("cuMemGetAllocationGranularity", &[place(&mut properties(DEVICE)), 0]);
    assert_eq!(least, GRANULARITY);
    let store = kernel("store");
    let free = get("cuMemGetInfo_v2", &[place(&mut 0_usize)]);
    let (memory, range) = (create(GRANULARITY, DEVICE), reserve(2 * GRANULARITY));
    assert_eq!(range % GRANULARITY, 0);
    assert_eq!(free - get("cuMemGetInfo_v2", &[place(&mut 0_usize)]), GRANULARITY);
    for address in [range, range + GRANULARITY] {
        ok("cuMemMap", &[address, GRANULARITY, 0, memory, 0]);
    }
    assert_eq!(set_access(range, 2 * GRANULARITY, DEVICE, READ_WRITE), 0);

    let stream = stream();
    launch(store, stream, &[range as u64 + 4, 42]);
    ok("cuStreamSynchronize", &[stream]);
    assert_eq!(words(range + GRANULARITY, 2), [0, 42]);
    // A copy may go over the border between two mappings.
    assert_eq!(words(range + GRANULARITY - 4, 3), [0, 0, 42]);
    ok("cuMemsetD32_v2", &[range + GRANULARITY - 4, 5, 2]);
    assert_eq!(words(range, 2), [5, 42]);

    // It is given back when nobody has it any more.
    let again = get("cuMemRetainAllocationHandle", &[range + 100]);
    assert_eq!(again, memory);
    let mut found = [0_i32; 8];
    ok("cuMemGetAllocationPropertiesFromHandle", &[place(&mut found), memory]);
    assert_eq!(found, properties(DEVICE));
    ok("cuMemRelease", &[memory]);
    ok("cuMemUnmap", &[range, 2 * GRANULARITY]);
    assert_eq!(free - get("cuMemGetInfo_v2", &[place(&mut 0_usize)]), GRANULARITY);
    ok("cuMemRelease", &[memory]);
    assert_eq!(get("cuMemGetInfo_v2", &[place(&mut 0_usize)]), free);
    ok("cuMemAddressFree", &[range, 2 * GRANULARITY]);
}

#[test]
fn what_is_wrong_is_refused() {
    context(0);
    let mut handle = 0_usize;
    let handle = place(&mut handle);
    for (name, arguments) in [
        ("cuMemAddressReserve", &[handle, GRANULARITY - 1, 0, 0, 0][..]),
        ("cuMemAddressReserve", &[handle, 0, 0, 0, 0]),
        ("cuMemAddressReserve", &[handle, GRANULARITY, 3 << 20, 0, 0]),
        ("cuMemAddressReserve", &[0, GRANULARITY, 0, 0, 0]),
        ("cuMemAddressReserve", &[handle, GRANULARITY, 0, 0, 1]),
        ("cuMemCreate", &[handle, 100, place(&mut properties(0)), 0]),
        ("cuMemCreate", &[handle, GRANULARITY, 0, 0]),
        ("cuMemCreate", &[handle, GRANULARITY, place(&mut [0_i32; 8]), 0]),
        ("cuMemGetAllocationGranularity", &[handle, place(&mut properties(0)), 2]),
        ("cuMemRelease", &[12345]),
        ("cuMemRetainAllocationHandle", &[handle, 4096]),
        ("cuMemGetAllocationPropertiesFromHandle", &[place(&mut [0_i32; 8]), 12345]),
        ("cuMemUnmap", &[GRANULARITY, GRANULARITY]),
        ("cuMemAddressFree", &[GRANULARITY, GRANULARITY]),
    ] {
        assert_eq!(call(name, arguments), INVALID_VALUE, "{name}");
    }
    assert_eq!(call("cuMemCreate", &[handle, GRANULARITY, place(&mut properties(9)), 0]), INVALID_DEVICE);
    assert_eq!(call("cuMemCreate", &[handle, 1 << 40, place(&mut properties(0)), 0]), OUT_OF_MEMORY);

    let (memory, range) = (create(GRANULARITY, 0), reserve(2 * GRANULARITY));
    let map = |address, bytes, offset| call("cuMemMap", &[address, bytes, offset, memory, 0]);
    assert_eq!(map(range, 2 * GRANULARITY, 0), INVALID_VALUE, "more than there is");
    assert_eq!(map(range, GRANULARITY, 4096), INVALID_VALUE, "not from its beginning");
    assert_eq!(map(range + 4096, GRANULARITY, 0), INVALID_VALUE, "not aligned");
    assert_eq!(map(range + 2 * GRANULARITY, GRANULARITY, 0), INVALID_VALUE, "not reserved");
    assert_eq!(set_access(range, GRANULARITY, 0, READ_WRITE), INVALID_VALUE, "not mapped");
    assert_eq!(map(range, GRANULARITY, 0), 0);
    assert_eq!(map(range, GRANULARITY, 0), INVALID_VALUE, "mapped already");
    assert_eq!(set_access(range, 2 * GRANULARITY, 0, READ_WRITE), INVALID_VALUE, "mapped in part");
    assert_eq!(set_access(range, GRANULARITY, 0, 2), INVALID_VALUE, "to write alone");
    assert_eq!(call("cuMemAddressFree", &[range, 2 * GRANULARITY]), INVALID_VALUE, "still mapped");
    assert_eq!(call("cuMemUnmap", &[range, 2 * GRANULARITY]), INVALID_VALUE, "mapped in part");
    ok("cuMemUnmap", &[range, GRANULARITY]);
    assert_eq!(call("cuMemUnmap", &[range, GRANULARITY]), INVALID_VALUE, "not mapped any more");
    assert_eq!(call("cuMemAddressFree", &[range, GRANULARITY]), INVALID_VALUE, "a part");
    ok("cuMemAddressFree", &[range, 2 * GRANULARITY]);
    assert_eq!(call("cuMemAddressFree", &[range, 2 * GRANULARITY]), INVALID_VALUE, "free already");
    ok("cuMemRelease", &[memory]);
    assert_eq!(call("cuMemRelease", &[memory]), INVALID_VALUE, "gone");
}

/// What a kernel that stores to an address comes to, in a context of its own.
fn stored(device: usize, address: usize) -> u32 {
    let context = context(device);
    let stream = stream();
    launch(kernel("store"), stream, &[address as u64, 1]);
    let code = call("cuStreamSynchronize", &[stream]);
    ok("cuCtxDestroy_v2", &[context]);
    code
}

#[test]
fn kernels_may_do_what_they_were_given_access_for() {
    context(0);
    let (memory, range) = (create(GRANULARITY, 0), reserve(GRANULARITY));
    assert_eq!(stored(0, range), ILLEGAL_ADDRESS, "nothing is mapped");
    ok("cuMemMap", &[range, GRANULARITY, 0, memory, 0]);
    assert_eq!(stored(0, range), ILLEGAL_ADDRESS, "no device may use it");
    let access = |device| {
        const DEVICE: i32 = 1;
        get("cuMemGetAccess", &[place(&mut [DEVICE, device]), range])
    };
    assert_eq!(access(0), 0);
    assert_eq!(set_access(range, GRANULARITY, 1, READ_WRITE), 0);
    assert_eq!(stored(0, range), ILLEGAL_ADDRESS, "another device may use it");
    assert_eq!(stored(1, range), 0);
    assert_eq!(set_access(range, GRANULARITY, 0, READ), 0);
    assert_eq!(stored(0, range), ILLEGAL_ADDRESS, "it may be read");
    assert_eq!([access(0), access(1)], [1, 3]);
    let to = device::memory(4);
    launch(kernel("load"), 0, &[to as u64, range as u64]);
    assert_eq!(words(to, 1), [1]);
    assert_eq!(set_access(range, GRANULARITY, 0, READ_WRITE), 0);
    assert_eq!(stored(0, range + 4), 0);
    assert_eq!(set_access(range, GRANULARITY, 0, 0), 0);
    assert_eq!(stored(0, range), ILLEGAL_ADDRESS, "the access was taken back");
    ok("cuMemUnmap", &[range, GRANULARITY]);
    assert_eq!(stored(1, range), ILLEGAL_ADDRESS, "it is not mapped any more");

    // What is mapped next is what was there before only if it is the same memory.
    ok("cuMemMap", &[range, GRANULARITY, 0, create(GRANULARITY, 0), 0]);
    assert_eq!(set_access(range, GRANULARITY, 0, READ_WRITE), 0);
    assert_eq!(words(range, 2), [0, 0]);
    ok("cuMemUnmap", &[range, GRANULARITY]);
    ok("cuMemMap", &[range, GRANULARITY, 0, memory, 0]);
    assert_eq!(set_access(range, GRANULARITY, 0, READ_WRITE), 0);
    assert_eq!(words(range, 2), [1, 1]);
}
