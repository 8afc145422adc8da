//! Functions of the driver that are about memory, pools, occupancy, the linker and other things on their own.

mod device;

use device::*;

#[test]
fn rows_and_layers_are_copied() {
    context(0);
    let mut pitch = 0_usize;
    let image = get("cuMemAllocPitch_v2", &[place(&mut pitch), 12, 4, 4]);
    assert!(pitch >= 12 && pitch.is_multiple_of(512));
    ok("cuMemsetD2D32_v2", &[image, pitch, 3, 3, 4]);
    ok("cuMemsetD2D8_v2", &[image + pitch + 4, pitch, 1, 4, 2]);
    const HOST: usize = 1;
    const DEVICE: usize = 2;
    let mut found = [[0_u32; 4]; 4];
    // All rows, into columns from the second on.
    let mut copy = [0, 0, DEVICE, 0, image, 0, pitch, 4, 0, HOST, place(&mut found), 0, 0, 16, 12, 4];
    ok("cuMemcpy2D_v2", &[place(&mut copy)]);
    const ONES: u32 = 0x0101_0101;
    expect_eq!(found, [[0, 3, 3, 3], [0, 3, ONES, 3], [0, 3, ONES, 3], [0, 3, 3, 3]]);

    // The second row of the second layer of two.
    let (cube, target) = (memory(64), memory(8));
    ok("cuMemsetD8_v2", &[cube + 40, 9, 8]);
    let mut copy = [0_usize; 25];
    (copy[1], copy[2], copy[4], copy[6], copy[9], copy[10]) = (1, 1, DEVICE, cube, 8, 4);
    (copy[15], copy[17], copy[20], copy[21]) = (DEVICE, target, 8, 1);
    (copy[22], copy[23], copy[24]) = (8, 1, 1);
    ok("cuMemcpy3DAsync_v2", &[place(&mut copy), 0]);
    expect_eq!(words(target, 2), [0x0909_0909; 2]);
    copy[22] = 9;
    expect_eq!(call("cuMemcpy3D_v2", &[place(&mut copy)]), INVALID_VALUE, "beyond the target");
    copy[4] = 3;
    let from_nothing = if on_a_gpu() { INVALID_VALUE } else { NOT_SUPPORTED };
    expect_eq!(call("cuMemcpy3D_v2", &[place(&mut copy)]), from_nothing, "arrays are not simulated");
    copy[4] = 9;
    expect_eq!(call("cuMemcpy3D_v2", &[place(&mut copy)]), INVALID_VALUE);
    expect_eq!(
        call("cuMemsetD2D32_v2", &[image, 8, 3, 3, 4]),
        INVALID_VALUE,
        "rows are wider than the pitch"
    );
    expect_eq!(
        call("cuMemsetD2D32_v2", &[image, pitch, 3, 3, 500]),
        INVALID_VALUE,
        "more rows than there are"
    );
}

#[test]
fn what_is_known_of_an_address() {
    let context = context(0);
    let (memory, pinned) = (memory(100), get("cuMemHostAlloc", &[8, 0]));
    let managed = get("cuMemAllocManaged", &[8, 1]);
    let attribute = |which, address| get("cuPointerGetAttribute", &[which, address]);
    let (of_context, kind, device_address, host_address, is_managed) = (1, 2, 3, 4, 8);
    let (start, size) = (11, 12);
    expect_eq!(attribute(of_context, memory), context);
    expect_eq!([memory, pinned, managed].map(|address| attribute(kind, address)), [2, 1, 2]);
    expect_eq!([memory, pinned, managed].map(|address| attribute(is_managed, address)), [0, 0, 1]);
    expect_eq!(attribute(device_address, memory + 4), memory + 4);
    expect_eq!(attribute(host_address, pinned), pinned);
    expect_eq!((attribute(start, memory + 50), attribute(size, memory + 50)), (memory, 100));
    let mut value = 0_usize;
    let mut here = 0_u64;
    let value = place(&mut value);
    expect_eq!(call("cuPointerGetAttribute", &[value, host_address, memory]), INVALID_VALUE);
    expect_eq!(call("cuPointerGetAttribute", &[value, kind, place(&mut here)]), INVALID_VALUE);

    // Of what nobody knows there are several attributes all the same.
    let (mut found, mut ordinal) = (1_u64, 0_i32);
    let mut places = [place(&mut found), place(&mut ordinal)];
    ok("cuPointerGetAttributes", &[2, place(&mut [1_u32, 9]), place(&mut places), place(&mut here)]);
    expect_eq!((found, ordinal), (0, -2));
    ok("cuPointerGetAttributes", &[2, place(&mut [1_u32, 9]), place(&mut places), memory]);
    expect_eq!((found as usize, ordinal), (context, 0));

    const TOO_MUCH: usize = 1 << 45;
    expect_eq!(call("cuMemAllocHost_v2", &[value, TOO_MUCH]), OUT_OF_MEMORY);
    ok("cuMemAdvise", &[managed, 8, 3, 0]);
    ok("cuMemPrefetchAsync", &[managed, 8, 0, 0]);
    expect_eq!(call("cuMemAdvise", &[memory, 8, 3, 0]), INVALID_VALUE, "it is not managed");
    expect_eq!(call("cuMemAdvise", &[managed, 8, 3, 7]), INVALID_DEVICE);
    expect_eq!(call("cuMemAdvise", &[managed, 8, 77, 0]), INVALID_VALUE);
    expect_eq!(call("cuMemHostGetFlags", &[value, memory]), INVALID_VALUE);
    const MAPPED: usize = 2;
    expect_eq!(get("cuMemHostGetFlags", &[pinned]), MAPPED);

    // What kernels may only read is the host's all the same. Not every device has that.
    const READ_ONLY: usize = 8;
    let mut registered = [0_u64; 4];
    let registered = place(&mut registered);
    ok("cuMemHostRegister_v2", &[registered, 32, READ_ONLY]);
    expect_eq!((attribute(kind, registered), attribute(host_address, registered)), (1, registered));
    expect_eq!(get("cuMemHostGetFlags", &[registered]), MAPPED);
    ok("cuMemHostUnregister", &[registered]);
}

#[test]
fn pools_have_limits_and_know_what_is_used() {
    let device = device(1);
    context(device);
    let stream = stream();
    const PINNED: u64 = 1;
    let on_device = (device as u64) << 32 | 1;
    let mut properties = [PINNED, on_device, 0, 1 << 20, 0, 0, 0, 0, 0, 0, 0];
    let pool = get("cuMemPoolCreate", &[place(&mut properties)]);
    let attribute = |which| {
        let mut value = 0_u64;
        ok("cuMemPoolGetAttribute", &[pool, which, place(&mut value)]);
        value
    };
    let (threshold, used, most) = (4, 7, 8);
    let memory = get("cuMemAllocFromPoolAsync", &[1 << 19, pool, stream]);
    expect_eq!([attribute(used), attribute(most), attribute(threshold)], [1 << 19, 1 << 19, 0]);
    // The limit is that of whole pages.
    let more = get("cuMemAllocFromPoolAsync", &[1 << 20, pool, stream]);
    let mut refused = 0_usize;
    let allocated = call("cuMemAllocFromPoolAsync", &[place(&mut refused), 1 << 26, pool, stream]);
    expect_eq!(allocated, OUT_OF_MEMORY);
    ok("cuMemFreeAsync", &[more, stream]);
    ok("cuMemPoolSetAttribute", &[pool, threshold, place(&mut (1_u64 << 30))]);
    expect_eq!(call("cuMemPoolSetAttribute", &[pool, used, place(&mut 0_u64)]), INVALID_VALUE);
    expect_eq!(call("cuMemPoolSetAttribute", &[pool, 99, place(&mut 0_u64)]), INVALID_VALUE);
    expect_eq!(get("cuPointerGetAttribute", &[17, memory]), pool);
    ok("cuMemFreeAsync", &[memory, stream]);
    ok("cuStreamSynchronize", &[stream]);
    expect_eq!([attribute(used), attribute(most), attribute(threshold)], [0, 3 << 19, 1 << 30]);

    // Streams allocate from it once the device is told so.
    let usual = get("cuDeviceGetDefaultMemPool", &[device]);
    if device != 0 {
        expect_eq!(call("cuDeviceSetMemPool", &[0, pool]), INVALID_VALUE, "another device's");
    }
    ok("cuDeviceSetMemPool", &[device, pool]);
    expect_eq!(get("cuDeviceGetMemPool", &[device]), pool);
    let memory = get("cuMemAllocAsync", &[1000, stream]);
    expect_eq!(attribute(used), 1000);
    ok("cuMemPoolDestroy", &[pool]);
    if !on_a_gpu() {
        // NVIDIA's driver follows what was destroyed.
        expect_eq!(call("cuMemPoolDestroy", &[pool]), INVALID_VALUE);
    }
    expect_eq!(call("cuMemPoolDestroy", &[usual]), INVALID_VALUE);
    expect_eq!(get("cuDeviceGetMemPool", &[device]), usual);
    ok("cuMemFree_v2", &[memory]);
}

#[test]
fn a_stream_allocates_on_its_own_device() {
    if on_a_gpu() {
        // It has one device.
        return;
    }
    context(1);
    let (stream, pool) = (stream(), get("cuDeviceGetDefaultMemPool", &[2]));
    context(0);
    let device_of = |memory| get("cuPointerGetAttribute", &[9, memory]);
    expect_eq!(device_of(get("cuMemAllocAsync", &[4, stream])), 1);
    expect_eq!(device_of(get("cuMemAllocFromPoolAsync", &[4, pool, stream])), 2);
}

#[test]
fn devices_use_each_others_memory_if_they_may() {
    if on_a_gpu() {
        // It has one device, and is of no use any more after an illegal address.
        return;
    }
    let far = context(1);
    let memory = memory(4);
    let stored = |access: bool| {
        context(0);
        if access {
            ok("cuCtxEnablePeerAccess", &[far, 0]);
            expect_eq!(call("cuCtxEnablePeerAccess", &[far, 0]), 704);
        }
        launch(kernel("store"), 0, &[memory as u64, 8]);
        call("cuCtxSynchronize", &[])
    };
    expect_eq!(stored(false), ILLEGAL_ADDRESS);
    expect_eq!(stored(true), 0);
    ok("cuCtxDisablePeerAccess", &[far]);
    expect_eq!(call("cuCtxDisablePeerAccess", &[far]), 705);
    let near = get("cuCtxGetCurrent", &[]);
    expect_eq!(call("cuCtxEnablePeerAccess", &[near, 0]), INVALID_DEVICE, "itself");
    let to = device::memory(4);
    ok("cuMemcpyPeer", &[to, near, memory, far, 4]);
    expect_eq!(words(to, 1), [8]);
    expect_eq!(get("cuDeviceGetP2PAttribute", &[2, 0, 1]), 1);
    let mut value = 0_u32;
    expect_eq!(call("cuDeviceGetP2PAttribute", &[place(&mut value), 2, 1, 1]), INVALID_DEVICE);
}

/// The word with which the blocks of a grid wait for each other is memory of its device.
#[test]
fn a_cooperative_launch_finds_its_word_on_every_device() {
    const COUNTS: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry counts(.param .u64 to) {
    .reg .b32 %r<4>; .reg .b64 %rd<3>;
    mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2;
    mov.b64 %rd1, {%r2, %r1};
    atom.global.add.u32 %r3, [%rd1], 1;
    ld.param.u64 %rd2, [to];
    atom.global.add.u32 %r3, [%rd2], 1;
    ret;
}
\0";
    if on_a_gpu() {
        // It has one device, and what the word is there nobody says.
        return;
    }
    for ordinal in [0, 1] {
        context(ordinal);
        let module = get("cuModuleLoadData", &[place(&mut *COUNTS.as_bytes().to_vec())]);
        let function = get("cuModuleGetFunction", &[module, place(&mut *b"counts\0".to_vec())]);
        let mut to = memory(4);
        let mut arguments = [place(&mut to)];
        ok("cuLaunchCooperativeKernel", &[function, 4, 1, 1, 1, 1, 1, 0, 0, place(&mut arguments)]);
        ok("cuCtxSynchronize", &[]);
        expect_eq!(words(to, 1), [4]);
    }
}

#[test]
fn a_linked_image_is_loaded() {
    context(0);
    let link = last("cuLinkCreate_v2", &[0, 0, 0]);
    let (mut image, mut bytes) = (0_usize, 0_usize);
    ok("cuLinkComplete", &[link, place(&mut image), place(&mut bytes)]);
    get("cuModuleLoadData", &[image]);
    ok("cuLinkDestroy", &[link]);

    let link = last("cuLinkCreate_v2", &[0, 0, 0]);
    let add = |text: &mut [u8]| call("cuLinkAddData_v2", &[link, 1, place(text), text.len(), 0, 0, 0, 0]);
    let no_ptx = if on_a_gpu() { INVALID_IMAGE } else { INVALID_PTX };
    expect_eq!(add(&mut b"no PTX".to_vec()), no_ptx);
    expect_eq!(add(&mut device::image()), 0);
    ok("cuLinkComplete", &[link, place(&mut image), place(&mut bytes)]);
    // NVIDIA's linker makes machine code of it.
    expect_eq!(bytes, if on_a_gpu() { bytes } else { device::image().len() });
    let module = get("cuModuleLoadData", &[image]);
    get("cuModuleGetFunction", &[module, place(&mut *b"push\0".to_vec())]);
    ok("cuLinkDestroy", &[link]);
    if !on_a_gpu() {
        // NVIDIA's driver follows what was destroyed.
        expect_eq!(call("cuLinkDestroy", &[link]), INVALID_HANDLE);
    }

    // A fatbin ends with zeros that are part of it. NVIDIA's linker finds nothing in this one, which is not relocatable.
    if on_a_gpu() {
        return;
    }
    const FATBIN: usize = 2;
    let link = last("cuLinkCreate_v2", &[0, 0, 0]);
    let mut fatbin = include_bytes!("../../kernel-registry/cuda/first.fatbin").to_vec();
    ok("cuLinkAddData_v2", &[link, FATBIN, place(&mut *fatbin), fatbin.len(), 0, 0, 0, 0]);
    ok("cuLinkComplete", &[link, place(&mut image), place(&mut bytes)]);
    get("cuModuleLoadData", &[image]);
}

#[test]
fn a_librarys_variables() {
    context(0);
    let library = get("cuLibraryLoadData", &[place(&mut *image()), 0, 0, 0, 0, 0, 0]);
    let (mut bytes, mut address) = (0_usize, 0_usize);
    let mut find = |name: &[u8]| {
        let mut name = name.to_vec();
        let places = [place(&mut address), place(&mut bytes)];
        call("cuLibraryGetGlobal", &[&places[..], &[library, place(&mut *name)]].concat())
    };
    expect_eq!(find(b"hidden\0"), NOT_FOUND);
    expect_eq!(find(b"shown\0"), 0);
    expect_eq!((words(address, 1), bytes), (vec![7], 4));
}

#[test]
fn how_much_a_device_has_room_for() {
    context(0);
    let function = kernel("store");
    extern "C" fn all_shared(block: i32) -> usize {
        block as usize * 384
    }
    let mut block = 0_i32;
    let grid = get("cuOccupancyMaxPotentialBlockSize", &[place(&mut block), function, 0, 0, 0]);
    expect_eq!((grid, block), (2 * 132, 1024));
    let shared_of = all_shared as *const () as usize;
    get("cuOccupancyMaxPotentialBlockSize", &[place(&mut block), function, shared_of, 0, 128]);
    // 17 blocks of one warp fit, nine of two, six of three, and four of four: the largest of those with 18 warps.
    expect_eq!(block, 96);
    const NOT_GRANTED: usize = 49 << 10;
    expect_eq!(get("cuOccupancyMaxActiveBlocksPerMultiprocessor", &[function, 32, NOT_GRANTED]), 0);
    let bytes = get("cuOccupancyAvailableDynamicSMemPerBlock", &[function, 2, 1024]);
    assert!(bytes > 0 && get("cuOccupancyMaxActiveBlocksPerMultiprocessor", &[function, 1024, bytes]) == 2);
    let available = call("cuOccupancyAvailableDynamicSMemPerBlock", &[place(&mut block), function, 3, 1024]);
    expect_eq!(available, INVALID_VALUE, "no three of that size");

    const CLUSTER: u64 = 4;
    let mut attribute = [CLUSTER, 4 | 1 << 32, 1, 0, 0, 0, 0, 0, 0];
    let mut config = [4 | 1 << 32, 1 | 1024 << 32, 1 | 1 << 32, 0, 0, place(&mut attribute), 1];
    let clusters = get("cuOccupancyMaxActiveClusters", &[function, place(&mut config)]);
    // The simulated device has its processors in one group, and a GPU in several, which clusters do not leave.
    expect_eq!(clusters, if on_a_gpu() { 62 } else { 132 * 2 / 4 });
    expect_eq!(get("cuOccupancyMaxPotentialClusterSize", &[function, place(&mut config)]), 8);
}

static CALLED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

#[test]
fn streams_call_back_and_have_attributes() {
    context(0);
    let (one, two, word) = (stream(), stream(), memory(8));
    extern "C" fn note(stream: usize, status: u32, data: usize) {
        expect_eq!(status, 0);
        CALLED.store(stream + data, std::sync::atomic::Ordering::SeqCst);
    }
    ok("cuStreamAddCallback", &[one, note as *const () as usize, 5, 0]);
    ok("cuStreamSynchronize", &[one]);
    expect_eq!(CALLED.load(std::sync::atomic::Ordering::SeqCst), one + 5);

    const SYNCHRONISATION: usize = 3;
    ok("cuStreamSetAttribute", &[one, SYNCHRONISATION, place(&mut [2_u64, 0, 0, 0, 0, 0, 0, 0])]);
    ok("cuStreamCopyAttributes", &[two, one]);
    let mut found = [0_u64; 8];
    ok("cuStreamGetAttribute", &[two, SYNCHRONISATION, place(&mut found)]);
    expect_eq!(found[0], 2);
    expect_eq!(call("cuStreamGetAttribute", &[two, 99, place(&mut found)]), INVALID_VALUE);

    // One operation waits for what the other stream writes.
    let wait = [1, word as u64, 5, 1, 0, 0];
    let write = [2, word as u64 + 4, 6, 0, 0, 0];
    ok("cuStreamBatchMemOp_v2", &[one, 2, place(&mut [wait, write]), 0]);
    expect_eq!(call("cuStreamQuery", &[one]), 600);
    ok("cuStreamBatchMemOp_v2", &[two, 1, place(&mut [[2, word as u64, 5, 0, 0, 0]]), 0]);
    ok("cuStreamSynchronize", &[one]);
    expect_eq!(words(word, 2), [5, 6]);
    expect_eq!(
        call("cuStreamBatchMemOp_v2", &[two, 1, place(&mut [[9_u64, 0, 0, 0, 0, 0]]), 0]),
        INVALID_VALUE
    );
}

#[test]
fn flags_of_a_primary_context_wait_for_it_and_go_with_it() {
    const BLOCKING_SYNC: usize = 4;
    const MAPS_HOST: usize = 8;
    install();
    let device = device(2);
    let state = || {
        let (mut flags, mut active) = (0_u32, 0_u32);
        ok("cuDevicePrimaryCtxGetState", &[device, place(&mut flags), place(&mut active)]);
        (flags as usize, active)
    };
    ok("cuDevicePrimaryCtxSetFlags_v2", &[device, BLOCKING_SYNC]);
    expect_eq!(state(), (BLOCKING_SYNC, 0));
    let context = get("cuDevicePrimaryCtxRetain", &[device]);
    ok("cuCtxSetCurrent", &[context]);
    expect_eq!(state(), (BLOCKING_SYNC, 1));
    expect_eq!(get("cuCtxGetFlags", &[]), BLOCKING_SYNC | MAPS_HOST);
    ok("cuDevicePrimaryCtxRelease_v2", &[device]);
    expect_eq!(state(), (0, 0));
    ok("cuDevicePrimaryCtxSetFlags_v2", &[device, BLOCKING_SYNC]);
    ok("cuDevicePrimaryCtxReset_v2", &[device]);
    expect_eq!(state(), (0, 0));
}

#[test]
fn a_kernel_of_a_library_keeps_what_was_set() {
    context(0);
    const SHARED: usize = 8;
    let library = get("cuLibraryLoadData", &[place(&mut *image())]);
    let kernel = get("cuLibraryGetKernel", &[library, place(&mut *b"store\0".to_vec())]);
    let of_kernel = || get("cuKernelGetAttribute", &[SHARED, kernel, 0]);
    expect_eq!(of_kernel(), 49_152);
    ok("cuKernelSetAttribute", &[SHARED, 100_000, kernel, 0]);
    expect_eq!(of_kernel(), 100_000);
    let function = get("cuKernelGetFunction", &[kernel]);
    expect_eq!(get("cuFuncGetAttribute", &[SHARED, function]), 100_000);
    ok("cuFuncSetAttribute", &[function, SHARED, 60_000]);
    expect_eq!(of_kernel(), 100_000);
    expect_eq!(get("cuFuncGetAttribute", &[SHARED, function]), 60_000);
}
