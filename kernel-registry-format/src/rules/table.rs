//! The rules themselves.

use super::{Mode, Rule};

const RULE: Rule = Rule {
    name: "",
    calls: &[],
    kernel_waits: false,
    mode: Mode::Both,
    because: "",
    remedy: "",
    warm_all: None,
    rows: &[],
    runs: &[],
    later: &[],
};

/// A kernel is loaded by its first launch, or by a call. A call waits for a kernel whose library its context does not have yet. For other
/// kernels, and a module's functions, which it may be given as well, it does not, but the launch does.
pub const LOAD: Rule = Rule {
    name: "load",
    calls: &[
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cuLaunchCooperativeKernel",
        "cuLaunchCooperativeKernelMultiDevice",
        "cuKernelGetFunction",
        "cuKernelSetAttribute",
        "cuKernelSetCacheConfig",
        "cuKernelGetParamInfo",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
        "cuOccupancyMaxPotentialBlockSize",
        "cuOccupancyMaxPotentialBlockSizeWithFlags",
        "cuOccupancyAvailableDynamicSMemPerBlock",
        "cuOccupancyMaxActiveClusters",
        "cuOccupancyMaxPotentialClusterSize",
        "cuGraphAddKernelNode",
        "cuGraphAddNode",
        "cuGraphKernelNodeSetParams",
        "cuGraphNodeSetParams",
        "cuGraphExecKernelNodeSetParams",
        "cuGraphExecNodeSetParams",
    ],
    kernel_waits: true,
    mode: Mode::Lazy,
    because: "a kernel is loaded only when nothing runs on the device",
    remedy: "run each operation once before work starts that does not end, or load its kernels by one call of \
             `cudaFuncGetAttributes`, `cuKernelGetFunction` or `cuModuleGetFunction` each",
    warm_all: Some(
        "call `warm_all` before work starts that does not end; kernels that are not registered need one call of \
         `cuKernelGetFunction` or `cuModuleGetFunction` each",
    ),
    rows: &[
        "module/only",
        "module/function_enumerated",
        "library/only",
        "library/kernel",
        "library/kernel_attribute",
        "library/module_then_kernel",
        "library/function_of_sibling",
        "launch/cuLaunchKernelEx_cold",
        "launch/cuLaunchCooperativeKernel_cold",
        "launch/cuLaunchCooperativeKernelMultiDevice_cold",
        "launch/captured_cold",
        "launch/cuLaunch_cold",
        "launch/cuLaunchGrid_cold",
        "launch/cuLaunchGridAsync_cold",
        "launch/cuGraphAddKernelNode_cold",
        "wait/module_only_after_launch",
        "host/cuKernelGetFunction",
        "capture/cuKernelGetFunction",
        "host/cuKernelSetAttribute_cold",
        "host/cuKernelSetCacheConfig_cold",
        "host/cuKernelGetParamInfo_cold",
        "host/cuOccupancyMaxActiveBlocksPerMultiprocessor_cold",
        "host/cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_cold",
        "host/cuOccupancyMaxPotentialBlockSize_cold",
        "host/cuOccupancyMaxPotentialBlockSizeWithFlags_cold",
        "host/cuOccupancyAvailableDynamicSMemPerBlock_cold",
        "host/cuOccupancyMaxActiveClusters_cold",
        "host/cuOccupancyMaxPotentialClusterSize_cold",
        "host/cuGraphAddKernelNode_cold",
        "host/cuGraphAddNode_cold",
        "host/cuGraphKernelNodeSetParams_cold",
        "host/cuGraphNodeSetParams_cold",
        "host/cuGraphExecKernelNodeSetParams_cold",
        "host/cuGraphExecNodeSetParams_cold",
        "launch/cuLaunchKernelEx_cold_in_context",
        "launch/cuLaunchCooperativeKernel_cold_in_context",
        "launch/cuLaunchCooperativeKernelMultiDevice_cold_in_context",
        "launch/captured_cold_in_context",
        "launch/cuFuncLoad_enumerated",
        "launch/cuFuncGetAttribute_enumerated",
    ],
    runs: &[
        "host/cuOccupancy",
        "host/cuKernelSetAttribute",
        "host/cuKernelSetCacheConfig",
        "host/cuKernelGetParamInfo",
        "host/cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "host/cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
        "host/cuOccupancyMaxPotentialBlockSize",
        "host/cuOccupancyMaxPotentialBlockSizeWithFlags",
        "host/cuOccupancyAvailableDynamicSMemPerBlock",
        "host/cuOccupancyMaxActiveClusters",
        "host/cuOccupancyMaxPotentialClusterSize",
        "host/cuGraphAddKernelNode",
        "host/cuGraphAddNode",
        "host/cuGraphKernelNodeSetParams",
        "host/cuGraphNodeSetParams",
        "host/cuGraphExecKernelNodeSetParams",
        "host/cuGraphExecNodeSetParams",
    ],
    later: &[
        "host/cuOccupancyMaxActiveBlocksPerMultiprocessor_cold_in_context",
        "host/cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_cold_in_context",
        "host/cuOccupancyMaxPotentialBlockSize_cold_in_context",
        "host/cuOccupancyMaxPotentialBlockSizeWithFlags_cold_in_context",
        "host/cuOccupancyAvailableDynamicSMemPerBlock_cold_in_context",
        "host/cuOccupancyMaxActiveClusters_cold_in_context",
        "host/cuOccupancyMaxPotentialClusterSize_cold_in_context",
        "host/cuKernelSetAttribute_cold_in_context",
        "host/cuKernelSetCacheConfig_cold_in_context",
        "host/cuKernelGetParamInfo_cold_in_context",
        "host/cuKernelGetFunction_cold_in_context",
        "host/cuGraphKernelNodeSetParams_cold_in_context",
        "host/cuGraphExecKernelNodeSetParams_cold_in_context",
        "host/cuGraphNodeSetParams_cold_in_context",
        "host/cuGraphExecNodeSetParams_cold_in_context",
        "host/cuGraphAddKernelNode_cold_in_context",
        "host/cuGraphAddNode_cold_in_context",
        "host/cuModuleGetFunction",
        "host/cuModuleGetFunction_beside_sibling",
        "host/cuModuleGetFunction_of_library",
        "host/cuFuncLoad_enumerated",
        "capture/cuModuleGetFunction",
    ],
    ..RULE
};

/// A module is loaded.
pub const MODULE: Rule = Rule {
    name: "module",
    calls: &["cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary"],
    because: "a module is loaded only when nothing runs on the device",
    remedy: "load all modules, and compile what is compiled at run time, before work starts that does not end; or load it with \
             `cuLibraryLoadData`, which does not wait if loading is lazy",
    rows: &[
        "host/cuModuleLoad",
        "host/cuModuleLoadData",
        "host/cuModuleLoadData_ptx",
        "host/cuModuleLoadDataEx",
        "host/cuModuleLoadFatBinary",
        "capture/cuModuleLoadData",
    ],
    ..RULE
};

/// A library is loaded in EAGER mode.
pub const LIBRARY: Rule = Rule {
    name: "library",
    calls: &["cuLibraryLoadData", "cuLibraryLoadFromFile"],
    mode: Mode::Eager,
    because: "with eager loading, a library is loaded only when nothing runs on the device",
    remedy: "load all libraries before work starts that does not end, or set `CUDA_MODULE_LOADING=LAZY`",
    rows: &[
        "host/cuLibraryLoadData",
        "host/cuLibraryLoadData_ptx",
        "host/cuLibraryLoadFromFile",
        "locked/cuLibraryLoadData",
    ],
    ..RULE
};

/// A library is loaded into a context, without its kernels.
pub const LIBRARY_IN_CONTEXT: Rule = Rule {
    name: "library_in_context",
    calls: &["cuLibraryGetModule", "cuLibraryGetGlobal"],
    mode: Mode::Lazy,
    because: "with lazy loading, a context gets a library only when nothing runs on the device",
    remedy: "call `cuLibraryGetModule`, or load one of its kernels, in each context before work starts that does not end",
    rows: &["host/cuLibraryGetModule_cold", "host/cuLibraryGetGlobal_cold"],
    runs: &["host/cuLibraryGetModule", "host/cuLibraryGetGlobal"],
    ..RULE
};

/// A launch needs more stack than the limit.
pub const STACK: Rule = Rule {
    name: "stack",
    calls: &["cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"],
    because: "stacks grow only when nothing runs on the device",
    remedy: "before work starts that does not end, set the stack limit to the largest frame (`cudaDeviceSetLimit`, \
             `cuCtxSetLimit`), or run the operation with the largest frame once; never lower the limit",
    warm_all: Some(
        "call `warm_all` before work starts that does not end; never lower the stack limit after it",
    ),
    rows: &[
        "frame/2k",
        "frame/32k",
        "frame/32k_after_lowered_limit",
        "callee/frame_2k",
        "callee/frame_2k_behind_pointer",
        "recursion/1600",
        "recursion/8k",
        "recursion/8k_after_limit_4k",
        "device_launch/child_frame_8k",
        "device_launch/child_frame_8k_after_attribute",
        "device_launch/child_frame_8k_after_limit_2k",
        "wait/frame_32k",
        "wait/frame_32k_after_launch",
    ],
    ..RULE
};

/// The stack limit was changed since the last launch.
pub const STACK_CHANGED: Rule = Rule {
    name: "stack_changed",
    kernel_waits: true,
    because: "the stack limit was changed, and the next launch waits until nothing runs on the device",
    remedy: "set the limit once, and launch any kernel, before work starts that does not end",
    warm_all: Some("call `warm_all` before work starts that does not end, and set no stack limit after it"),
    rows: &[
        "stack/raised",
        "stack/lowered_and_raised_again",
        "stack/lowered_and_raised_halfway",
        "wait/small_after_lowered_limit",
    ],
    ..RULE
};

/// The stack limit is set.
pub const STACK_LIMIT: Rule = Rule {
    name: "stack_limit",
    calls: &["cuCtxSetLimit"],
    because: "the stack limit is changed only when nothing runs on the device",
    remedy: "set the stack limit once, before work starts that does not end; other limits do not wait",
    rows: &["host/cuCtxSetLimit_stack"],
    runs: &["host/cuCtxSetLimit_printf", "host/cuCtxSetLimit_heap"],
    ..RULE
};

/// The first kernel with printf or assert.
pub const PRINTF: Rule = Rule {
    name: "printf",
    kernel_waits: true,
    because: "the first launch of a kernel with printf or assert waits until nothing runs on the device",
    remedy: "launch any kernel that contains printf before work starts that does not end; setting the buffer's size does not help",
    warm_all: Some("call `warm_all` before work starts that does not end"),
    rows: &["printf/first", "printf/after_limit", "assert/first"],
    ..RULE
};

/// The first kernel with malloc.
pub const MALLOC: Rule = Rule {
    name: "malloc",
    kernel_waits: true,
    because: "the first launch of a kernel with malloc waits until nothing runs on the device",
    remedy: "launch any kernel that contains malloc before work starts that does not end; setting the heap's size does not help",
    warm_all: Some("call `warm_all` before work starts that does not end"),
    rows: &["malloc/first", "malloc/after_limit", "malloc/after_printf"],
    ..RULE
};

/// A context's first launch beside a stream that waits for a word.
pub const FIRST_LAUNCH: Rule = Rule {
    name: "first_launch",
    kernel_waits: true,
    because: "the first launch of a context waits for streams that wait for a word in memory, if the image has a large frame",
    remedy: "launch any kernel before a stream waits for a word",
    warm_all: Some("call `warm_all` before a stream waits for a word"),
    rows: &["wait/loaded", "wait/module_only", "wait/module_function", "wait/frame_in_context_after_limit"],
    ..RULE
};

/// A stream's queue is full.
pub const QUEUE: Rule = Rule {
    name: "queue",
    calls: &["cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"],
    because: "a stream holds about 1,000 launches behind work that does not end",
    remedy: "synchronize now and then, so that fewer launches are queued",
    rows: &["wait/launched_1500_times_behind_it", "wait/launched_2000_times_behind_it"],
    runs: &["wait/launched_1000_times_behind_it", "stream/launched_3000_times"],
    ..RULE
};

/// The device has no room for a block.
pub const FULL: Rule = Rule {
    name: "full",
    kernel_waits: true,
    because: "a block starts only when a multiprocessor has room for it",
    remedy: "launch fewer blocks of the kernel that does not end; an urgent stream does not help",
    rows: &["device/full", "device/full_urgent_stream"],
    runs: &["device/every_sm"],
    ..RULE
};

/// Shared memory and cache are shared out anew.
pub const CARVE_OUT: Rule = Rule {
    name: "carve_out",
    kernel_waits: true,
    because: "a multiprocessor changes how much shared memory it has only when no block runs there",
    remedy: "set `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT` to 100 for the kernel that does not end",
    rows: &[
        "shared/32k_beside_every_sm",
        "shared/static_beside_every_sm",
        "shared/most_beside_every_sm",
        "shared/most_again_beside_every_sm",
    ],
    runs: &["shared/most_beside_every_sm_carved"],
    ..RULE
};

/// Memory is freed.
pub const FREE: Rule = Rule {
    name: "free",
    calls: &[
        "cuMemFree",
        "cuMemFreeHost",
        "cuMemHostUnregister",
        "cuArrayDestroy",
        "cuIpcCloseMemHandle",
        "cuMipmappedArrayDestroy",
    ],
    because: "memory is freed only when nothing runs on the device",
    remedy: "free it later, or with `cuMemFreeAsync`, which does not wait and also takes what `cuMemAlloc` gave",
    rows: &[
        "host/cuMemFree_1M",
        "host/cuMemFree_1G",
        "host/cuMemFree_managed",
        "host/cuMemFreeHost",
        "host/cuMemFreeHost_of_cuMemAllocHost",
        "host/cuMemHostUnregister",
        "host/cuArrayDestroy",
        "host/cuArrayDestroy_3d",
        "host/cuMipmappedArrayDestroy",
        "host/cuIpcCloseMemHandle",
    ],
    runs: &["host/cuMemFree_pooled", "host/cuMemFree_from_pool"],
    ..RULE
};

/// Code is unloaded.
pub const UNLOAD: Rule = Rule {
    name: "unload",
    calls: &["cuModuleUnload", "cuLibraryUnload"],
    because: "code is unloaded only when nothing runs on the device",
    remedy: "keep modules loaded until the work that does not end is over",
    rows: &["host/cuModuleUnload", "host/cuLibraryUnload"],
    ..RULE
};

/// A context ends, or a green one is made.
pub const CONTEXT: Rule = Rule {
    name: "context",
    calls: &[
        "cuCtxDestroy",
        "cuCtxDetach",
        "cuDevicePrimaryCtxReset",
        "cuDevicePrimaryCtxRelease",
        "cuGreenCtxCreate",
    ],
    because: "a context is destroyed, and a green one is made, only when nothing runs on the device",
    remedy: "make green contexts before work starts that does not end, and destroy contexts after it",
    rows: &[
        "host/cuCtxDestroy_of_another",
        "host/cuCtxDestroy_of_another_first_version",
        "host/cuCtxDetach_of_another",
        "host/cuGreenCtxCreate",
    ],
    // It is not the last release.
    runs: &["host/cuDevicePrimaryCtxRetain_and_release"],
    ..RULE
};

/// Many streams are made.
pub const STREAMS: Rule = Rule {
    name: "streams",
    calls: &["cuStreamCreate", "cuStreamCreateWithPriority"],
    because: "more than about 32 streams at once are made only when nothing runs on the device",
    remedy: "make all streams before work starts that does not end",
    rows: &["host/cuStreamCreate_34_times", "host/cuStreamCreate_36_times", "host/cuStreamCreate_40_times"],
    runs: &[
        "host/cuStreamCreate_1_times",
        "host/cuStreamCreate_2_times",
        "host/cuStreamCreate_4_times",
        "host/cuStreamCreate_8_times",
        "host/cuStreamCreate_12_times",
        "host/cuStreamCreate_16_times",
        "host/cuStreamCreate_20_times",
        "host/cuStreamCreate_24_times",
        "host/cuStreamCreate_28_times",
        "host/cuStreamCreate_30_times",
        "host/cuStreamCreate_31_times",
        "host/cuStreamCreate_32_times",
        "host/cuStreamCreate_40_times_again",
        "host/cuStreamCreateWithPriority",
    ],
    ..RULE
};

/// The program itself asks to wait.
pub const SYNCHRONIZE: Rule = Rule {
    name: "synchronize",
    calls: &["cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize"],
    because: "it waits for the work that it was asked to wait for",
    remedy: "find out why that work does not end: what runs on the device may wait for a kernel, a copy or a word that comes \
             later in this thread",
    rows: &["host/cuCtxSynchronize"],
    runs: &[
        "host/cuCtxSynchronize_of_another",
        "host/cuStreamSynchronize",
        "host/cuStreamSynchronize_legacy",
        "host/cuStreamSynchronize_per_thread",
        "locked/cuStreamSynchronize_idle",
    ],
    ..RULE
};

/// Another thread waits, and has the lock of the context.
pub const LOCKED: Rule = Rule {
    name: "locked",
    calls: &[
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cuLaunchCooperativeKernel",
        "cuGraphLaunch",
        "cuLaunchHostFunc",
        "cuMemcpyHtoD",
        "cuMemcpyDtoH",
        "cuMemcpyHtoDAsync",
        "cuMemcpyDtoHAsync",
        "cuMemsetD32Async",
        "cuMemAlloc",
        "cuMemHostAlloc",
        "cuEventRecord",
        "cuEventCreate",
        "cuStreamCreate",
        "cuStreamCreateWithPriority",
        "cuCtxGetLimit",
        "cuModuleGetFunction",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    ],
    because: "another thread of the context loads code, grows a stack or frees memory, and has the driver's lock until nothing runs on \
              the device",
    remedy: "see the call of the other thread",
    rows: &[
        "locked/copy_behind_cuKernelGetFunction",
        "locked/copy_behind_cuModuleLoadData",
        "locked/copy_behind_cuMemFree",
        "locked/copy_behind_frame_32k",
        "locked/cuCtxGetLimit",
        "locked/cuEventCreate",
        "locked/cuEventRecord",
        "locked/cuGraphLaunch",
        "locked/cuLaunchHostFunc",
        "locked/cuLaunchKernel",
        "locked/cuMemAlloc",
        "locked/cuMemHostAlloc",
        "locked/cuMemcpyDtoHAsync",
        "locked/cuMemcpyHtoD",
        "locked/cuMemcpyHtoDAsync_pageable",
        "locked/cuMemcpyHtoDAsync_pinned",
        "locked/cuMemsetD32Async",
        "locked/cuModuleGetFunction",
        "locked/cuOccupancy",
        "locked/cuStreamCreate",
    ],
    ..RULE
};

/// Streams that wait for the legacy default stream.
pub const LEGACY_STREAM: Rule = Rule {
    name: "legacy_stream",
    calls: &["cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoD", "cuMemsetD32"],
    kernel_waits: true,
    because: "the legacy default stream, in which synchronous copies are too, and blocking streams wait for each other",
    remedy: "use streams that were made with `CU_STREAM_NON_BLOCKING`, and asynchronous copies",
    rows: &["stream/blocking_beside_legacy", "stream/legacy_beside_blocking", "stream/copy_beside_blocking"],
    runs: &[
        "stream/non_blocking_beside_legacy",
        "host/cuMemcpyHtoD",
        "host/cuMemcpyDtoH",
        "host/cuMemcpyDtoD",
        "host/cuMemsetD32",
    ],
    ..RULE
};

/// All rules. For a call that several name, the likeliest is first.
pub const RULES: &[Rule] = &[
    LOAD,
    MODULE,
    LIBRARY,
    LIBRARY_IN_CONTEXT,
    STACK,
    STACK_CHANGED,
    STACK_LIMIT,
    PRINTF,
    MALLOC,
    FIRST_LAUNCH,
    QUEUE,
    FULL,
    CARVE_OUT,
    FREE,
    UNLOAD,
    CONTEXT,
    STREAMS,
    SYNCHRONIZE,
    LOCKED,
    LEGACY_STREAM,
];

/// The program asks to wait while a resident kernel runs, and so waits for that. The census has no rows of it.
pub const WAITS_FOR_RESIDENT: Rule = Rule {
    name: "waits_for_resident",
    because: "it waits until that kernel has ended",
    remedy: "synchronize single streams, in which other kernels run, or end that kernel first",
    ..RULE
};

/// A launch in the stream of a resident kernel.
pub const BEHIND_RESIDENT: Rule = Rule {
    name: "behind_resident",
    because: "a stream runs its kernels one after the other",
    remedy: "launch it in another stream",
    ..RULE
};

/// The rules that hold only while a resident kernel runs.
pub(super) const BESIDE_RESIDENT: &[Rule] = &[WAITS_FOR_RESIDENT, BEHIND_RESIDENT];
