//! Defines each rule, and lists the rules in [`RULES`].

use super::Rule;

const RULE: Rule = Rule {
    name: "",
    calls: &[],
    because: "",
    remedy: "",
    in_python: None,
    warm_all: None,
    can_be_preloaded: false,
};

/// A kernel is loaded by its first launch, or by a call. Calls like `cuKernelGetFunction` wait if the context
/// doesn't have the kernel's library yet. If it does, or if the call gets a function of a module, only the
/// launch waits.
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
    because: "a kernel is loaded only when nothing runs on the device",
    remedy: "run each operation once before work starts that does not end, or load its kernels by one call of \
             `cudaFuncGetAttributes`, `cuKernelGetFunction` or `cuModuleGetFunction` each",
    warm_all: Some(
        "call `warm_all` before work starts that does not end; kernels that are not registered need one call of \
         `cuKernelGetFunction` or `cuModuleGetFunction` each",
    ),
    in_python: Some(
        "use this operation once, with the same types and shapes, before work starts that does not end",
    ),
    can_be_preloaded: true,
    ..RULE
};

/// Loading a module waits.
pub const MODULE: Rule = Rule {
    name: "module",
    calls: &["cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary"],
    because: "a module is loaded only when nothing runs on the device",
    remedy: "load all modules, and compile what is compiled at run time, before work starts that does not end; or load it with \
             `cuLibraryLoadData`, which does not wait if loading is lazy",
    in_python: Some("load this module, or compile this code, before work starts that does not end"),
    can_be_preloaded: true,
    ..RULE
};

/// Loading a library waits in EAGER mode.
pub const LIBRARY: Rule = Rule {
    name: "library",
    calls: &["cuLibraryLoadData", "cuLibraryLoadFromFile"],
    because: "with eager loading, a library is loaded only when nothing runs on the device",
    remedy: "load all libraries before work starts that does not end, or set `CUDA_MODULE_LOADING=LAZY`",
    in_python: Some(
        "load this library before work starts that does not end, or set `CUDA_MODULE_LOADING=LAZY`",
    ),
    can_be_preloaded: true,
    ..RULE
};

/// Loading a library late in LAZY mode doesn't wait, but takes time. This rule isn't in [`RULES`].
pub const LATE_LIBRARY: Rule = Rule {
    name: "late_library",
    calls: LIBRARY.calls,
    because: "loading it waits for nothing on the device, but takes time",
    remedy: "load all libraries, and compile what is compiled at run time, before the program is ready; machine code for its GPUs \
             needs no compiler",
    in_python: Some("load this library, or compile this code, before the program is ready"),
    can_be_preloaded: true,
    ..RULE
};

/// Loading a library into a context, without its kernels, waits.
pub const LIBRARY_IN_CONTEXT: Rule = Rule {
    name: "library_in_context",
    calls: &["cuLibraryGetModule", "cuLibraryGetGlobal"],
    because: "with lazy loading, a context gets a library only when nothing runs on the device",
    remedy: "call `cuLibraryGetModule`, or load one of its kernels, in each context before work starts that does not end",
    in_python: Some("use this operation once on each GPU before work starts that does not end"),
    ..RULE
};

/// A launch waits if its kernel needs more stack than the limit.
pub const STACK: Rule = Rule {
    name: "stack",
    calls: &["cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"],
    because: "stacks grow only when nothing runs on the device",
    remedy: "before work starts that does not end, set the stack limit to the largest frame (`cudaDeviceSetLimit`, \
             `cuCtxSetLimit`), or run the operation with the largest frame once; never lower the limit",
    warm_all: Some(
        "call `warm_all` before work starts that does not end; never lower the stack limit after it",
    ),
    in_python: Some(
        "use this operation once, with the same types and shapes, before work starts that does not end",
    ),
    can_be_preloaded: true,
    ..RULE
};

/// The first launch after a change of the stack limit waits.
pub const STACK_CHANGED: Rule = Rule {
    name: "stack_changed",
    because: "the stack limit was changed, and the next launch waits until nothing runs on the device",
    remedy: "set the limit once, and launch any kernel, before work starts that does not end",
    warm_all: Some("call `warm_all` before work starts that does not end, and set no stack limit after it"),
    ..RULE
};

/// Setting the stack limit waits.
pub const STACK_LIMIT: Rule = Rule {
    name: "stack_limit",
    calls: &["cuCtxSetLimit"],
    because: "the stack limit is changed only when nothing runs on the device",
    remedy: "set the stack limit once, before work starts that does not end; other limits do not wait",
    ..RULE
};

/// The first launch of a kernel with printf or assert waits.
pub const PRINTF: Rule = Rule {
    name: "printf",
    because: "the first launch of a kernel with printf or assert waits until nothing runs on the device",
    remedy: "launch any kernel that contains printf before work starts that does not end; setting the buffer's size does not help",
    warm_all: Some("call `warm_all` before work starts that does not end"),
    in_python: Some(
        "use this operation once, with the same types and shapes, before work starts that does not end",
    ),
    can_be_preloaded: true,
    ..RULE
};

/// The first launch of a kernel with malloc waits.
pub const MALLOC: Rule = Rule {
    name: "malloc",
    because: "the first launch of a kernel with malloc waits until nothing runs on the device",
    remedy: "launch any kernel that contains malloc before work starts that does not end; setting the heap's size does not help",
    warm_all: Some("call `warm_all` before work starts that does not end"),
    in_python: Some(
        "use this operation once, with the same types and shapes, before work starts that does not end",
    ),
    can_be_preloaded: true,
    ..RULE
};

/// The first launch in a context waits for streams that wait for a word in memory.
pub const FIRST_LAUNCH: Rule = Rule {
    name: "first_launch",
    because: "the first launch of a context waits for streams that wait for a word in memory, if the image has a large frame",
    remedy: "launch any kernel before a stream waits for a word",
    warm_all: Some("call `warm_all` before a stream waits for a word"),
    ..RULE
};

/// A launch waits while the stream's queue is full.
pub const QUEUE: Rule = Rule {
    name: "queue",
    calls: &["cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"],
    because: "a stream holds about 1,000 launches behind work that does not end",
    remedy: "synchronize now and then, so that fewer launches are queued",
    ..RULE
};

/// A block waits while no multiprocessor has room for it.
pub const FULL: Rule = Rule {
    name: "full",
    because: "a block starts only when a multiprocessor has room for it",
    remedy: "launch fewer blocks of the kernel that does not end; an urgent stream does not help",
    ..RULE
};

/// A block waits for multiprocessors whose carve-out, the division of memory between shared memory and cache,
/// would have to change.
pub const CARVE_OUT: Rule = Rule {
    name: "carve_out",
    because: "a multiprocessor changes how much shared memory it has only when no block runs there",
    remedy: "set `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT` to 100 for the kernel that does not end",
    ..RULE
};

/// Freeing memory waits.
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
    in_python: Some(
        "keep the array or tensor until that work has ended, and don't empty memory caches before that",
    ),
    ..RULE
};

/// Unloading code waits.
pub const UNLOAD: Rule = Rule {
    name: "unload",
    calls: &["cuModuleUnload", "cuLibraryUnload"],
    because: "code is unloaded only when nothing runs on the device",
    remedy: "keep modules loaded until the work that does not end is over",
    ..RULE
};

/// Destroying a context waits, and so does making a green context.
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
    ..RULE
};

/// Making a stream waits if there are many streams already.
pub const STREAMS: Rule = Rule {
    name: "streams",
    calls: &["cuStreamCreate", "cuStreamCreateWithPriority"],
    because: "more than about 32 streams at once are made only when nothing runs on the device",
    remedy: "make all streams before work starts that does not end",
    ..RULE
};

/// Calls that synchronize wait, as the program asked.
pub const SYNCHRONIZE: Rule = Rule {
    name: "synchronize",
    calls: &["cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize"],
    because: "it waits for the work that it was asked to wait for",
    remedy: "find out why that work does not end: what runs on the device may wait for a kernel, a copy or a word that comes \
             later in this thread",
    in_python: Some(
        "find out why that work does not end: it may wait for something that comes later in this thread",
    ),
    ..RULE
};

/// A call waits for the lock of its context, which another waiting thread holds.
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
    ..RULE
};

/// The legacy default stream and blocking streams wait for each other.
pub const LEGACY_STREAM: Rule = Rule {
    name: "legacy_stream",
    calls: &["cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoD", "cuMemsetD32"],
    because: "the legacy default stream, in which synchronous copies are too, and blocking streams wait for each other",
    remedy: "use streams that were made with `CU_STREAM_NON_BLOCKING`, and asynchronous copies",
    in_python: Some("use streams of your own and copies that do not block"),
    ..RULE
};

/// The rules that hold with and without resident kernels. If several apply to a call, the likeliest is first.
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

/// A call that synchronizes waits for a resident kernel. The census has no rows for this rule.
pub const WAITS_FOR_RESIDENT: Rule = Rule {
    name: "waits_for_resident",
    because: "it waits until that kernel has ended",
    remedy: "synchronize single streams, in which other kernels run, or end that kernel first",
    ..RULE
};

/// A launch in the stream of a resident kernel waits for that kernel.
pub const BEHIND_RESIDENT: Rule = Rule {
    name: "behind_resident",
    because: "a stream runs its kernels one after the other",
    remedy: "launch it in another stream",
    ..RULE
};

/// The rules that apply only while a resident kernel runs.
pub(super) const BESIDE_RESIDENT: &[Rule] = &[WAITS_FOR_RESIDENT, BEHIND_RESIDENT];
