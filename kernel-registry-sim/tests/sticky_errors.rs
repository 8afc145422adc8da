//! Tests sticky errors: which calls fail after a kernel's fault, in the kernel's context and in other contexts.
//! Two H200s with driver 580.159.04 gave the expected results. With `KERNEL_REGISTRY_SIM=0` the test calls
//! NVIDIA's driver.

mod device;

use device::{
    ILLEGAL_ADDRESS, call, context, differs, event, image, kernel, launch, memory, ok, on_a_gpu, place,
    stream,
};

use kernel_registry_sim::Config;

/// A context and one object of each kind in that context.
struct World {
    context: usize,
    stream: usize,
    event: usize,
    memory: usize,
    pinned: usize,
    module: usize,
    kernel: usize,
    library: usize,
    of_library: usize,
    graph: usize,
    executable: usize,
}

/// Memory that the driver reads or writes through the arguments of calls.
struct Places {
    room: [usize; 8],
    name: [u8; 6],
    image: Vec<u8>,
    values: [usize; 2],
    arguments: [usize; 2],
}

impl World {
    fn new(ordinal: usize) -> Self {
        let context = context(ordinal);
        let module = device::module();
        let library = device::get("cuLibraryLoadData", &[place(&mut *image())]);
        let stream = stream();
        ok("cuStreamBeginCapture_v2", &[stream, 1]);
        let graph = device::last("cuStreamEndCapture", &[stream]);
        World {
            context,
            stream,
            event: event(),
            memory: memory(4),
            pinned: device::get("cuMemHostAlloc", &[64]),
            module,
            kernel: device::get("cuModuleGetFunction", &[module, place(&mut *b"store\0".to_vec())]),
            library,
            of_library: device::get("cuLibraryGetKernel", &[library, place(&mut *b"store\0".to_vec())]),
            graph,
            executable: device::get("cuGraphInstantiateWithFlags", &[graph, 0]),
        }
    }

    /// Returns driver calls with their arguments, and whether each still succeeds after a fault.
    fn calls(&self, places: &mut Places) -> Vec<(&'static str, Vec<usize>, bool)> {
        let World {
            context,
            stream,
            event,
            memory,
            pinned,
            module,
            kernel,
            library,
            of_library,
            graph,
            executable,
        } = *self;
        let (room, name, text) =
            (place(&mut places.room), place(&mut places.name), place(&mut *places.image));
        places.values = [memory, 7];
        places.arguments = places.values.each_mut().map(place);
        let arguments = place(&mut places.arguments);
        vec![
            ("cuInit", vec![0], true),
            ("cuDeviceGetCount", vec![room], true),
            ("cuDeviceTotalMem_v2", vec![room, 0], true),
            ("cuDeviceGetAttribute", vec![room, 16, 0], true),
            ("cuDevicePrimaryCtxGetState", vec![0, room, room], true),
            ("cuDeviceGetDefaultMemPool", vec![room, 0], true),
            ("cuCtxSetCurrent", vec![context], true),
            ("cuCtxGetCurrent", vec![room], true),
            ("cuCtxGetDevice", vec![room], true),
            ("cuCtxGetFlags", vec![room], true),
            ("cuCtxGetApiVersion", vec![context, room], true),
            ("cuCtxGetLimit", vec![room, 0], false),
            ("cuCtxSetLimit", vec![0, 2048], false),
            ("cuCtxGetId", vec![context, room], true),
            ("cuCtxPushCurrent_v2", vec![context], true),
            ("cuCtxPopCurrent_v2", vec![room], true),
            ("cuCtxSynchronize", vec![], false),
            ("cuMemGetInfo_v2", vec![room, room], false),
            ("cuMemAlloc_v2", vec![room, 64], false),
            ("cuMemHostAlloc", vec![room, 64, 0], false),
            ("cuMemsetD8_v2", vec![memory, 0, 4], false),
            ("cuMemcpyDtoH_v2", vec![room, memory, 4], false),
            ("cuMemcpyHtoDAsync_v2", vec![memory, pinned, 4, stream], false),
            ("cuPointerGetAttribute", vec![room, 2, memory], true),
            ("cuMemAllocAsync", vec![room, 64, stream], false),
            ("cuStreamCreate", vec![room, 1], false),
            ("cuStreamQuery", vec![stream], false),
            ("cuStreamSynchronize", vec![stream], false),
            ("cuStreamGetCtx", vec![stream, room], false),
            ("cuStreamGetPriority", vec![stream, room], false),
            ("cuStreamWaitEvent", vec![stream, event, 0], false),
            ("cuEventCreate", vec![room, 0], false),
            ("cuEventQuery", vec![event], false),
            ("cuEventRecord", vec![event, stream], false),
            ("cuEventSynchronize", vec![event], false),
            ("cuModuleLoadData", vec![room, text], false),
            ("cuModuleGetFunction", vec![room, module, name], false),
            ("cuFuncGetAttribute", vec![room, 4, kernel], false),
            ("cuFuncSetAttribute", vec![kernel, 8, 1024], false),
            ("cuFuncIsLoaded", vec![room, kernel], false),
            ("cuFuncLoad", vec![kernel], false),
            ("cuOccupancyMaxActiveBlocksPerMultiprocessor", vec![room, kernel, 32, 0], false),
            ("cuLaunchKernel", vec![kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, 0], false),
            ("cuLibraryLoadData", vec![room, text], true),
            ("cuKernelGetFunction", vec![room, of_library], false),
            ("cuKernelGetAttribute", vec![room, 4, of_library, 0], true),
            ("cuGraphInstantiateWithFlags", vec![room, graph, 0], false),
            ("cuGraphLaunch", vec![executable, stream], false),
            ("cuStreamBeginCapture_v2", vec![stream, 0], false),
            ("cuStreamIsCapturing", vec![stream, room], false),
            ("cuStreamEndCapture", vec![stream, room], false),
            ("cuGraphExecDestroy", vec![executable], true),
            ("cuGraphDestroy", vec![graph], true),
            ("cuLibraryUnload", vec![library], true),
            ("cuModuleUnload", vec![module], false),
            ("cuEventDestroy_v2", vec![event], false),
            ("cuStreamDestroy_v2", vec![stream], false),
            ("cuMemFreeHost", vec![pinned], false),
            ("cuMemFree_v2", vec![memory], false),
            ("cuCtxDestroy_v2", vec![context], true),
            ("cuCtxCreate_v2", vec![room, 0, 0], false),
            ("cuDevicePrimaryCtxRetain", vec![room, 0], false),
            ("cuDevicePrimaryCtxReset_v2", vec![0], true),
            ("cuDevicePrimaryCtxSetFlags_v2", vec![0, 0], true),
        ]
    }
}

#[test]
fn a_fault_of_a_kernel_breaks_all_contexts_of_the_process() {
    if !on_a_gpu() {
        Config::default().devices(2).install().unwrap();
    }
    let worlds = [World::new(0), World::new(0), World::new(1)];
    ok("cuCtxSetCurrent", &[worlds[0].context]);
    // No memory is mapped at this address.
    launch(kernel("store"), worlds[0].stream, &[64, 7]);
    assert_eq!(call("cuCtxSynchronize", &[]), ILLEGAL_ADDRESS);
    let mut places =
        Places { room: [0; 8], name: *b"store\0", image: image(), values: [0; 2], arguments: [0; 2] };
    let mut wrong = String::new();
    for (number, world) in worlds.iter().enumerate() {
        for (name, arguments, goes_on) in world.calls(&mut places) {
            let (found, expected) = (call(name, &arguments), if goes_on { 0 } else { ILLEGAL_ADDRESS });
            if found != expected {
                wrong += &format!("\n{name} in context {number}: {found}, and {expected} is expected");
            }
        }
    }
    if !wrong.is_empty() {
        differs(&wrong);
    }
}
