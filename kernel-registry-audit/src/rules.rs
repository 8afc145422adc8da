//! Which driver calls wait for the kernels that run, and what prevents that. Measured on an H200, see `docs/census.md`.

/// Why a call waits until nothing runs on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The driver's functions, without the suffixes of their versions.
    pub calls: &'static [&'static str],
    /// When they wait.
    pub because: &'static str,
    /// What prevents it.
    pub remedy: &'static str,
}

/// All rules. The first that names a call applies.
pub const RULES: &[Rule] = &[
    Rule {
        calls: &[
            "cuKernelGetFunction",
            "cuFuncLoad",
            "cuKernelSetAttribute",
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        ],
        because: "it loads the kernel, and a kernel is loaded only when nothing runs on the device",
        remedy: "load the kernel before work starts that does not end: `warm_all`, or one call of `cudaFuncGetAttributes` or \
                 `cuFuncLoad` for each kernel",
    },
    Rule {
        calls: &[
            "cuModuleLoadData",
            "cuModuleLoadDataEx",
            "cuModuleLoadFatBinary",
            "cuModuleLoad",
            "cuLibraryLoadData",
            "cuLibraryLoadFromFile",
        ],
        because: "it loads code, and in a module, or with eager loading, that is done only when nothing runs on the device",
        remedy: "load all modules, and compile what is compiled at run time, before work starts that does not end",
    },
    Rule {
        calls: &["cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch"],
        because: "a first launch loads the kernel, enlarges the stack, or sets up printf, assert or malloc, only when nothing runs \
                  on the device; and about 1,000 launches fit behind an unsatisfied wait",
        remedy: "warm the kernel before work starts that does not end: `warm_all`, or one launch of it",
    },
    Rule {
        calls: &["cuCtxSetLimit"],
        because: "the stack limit is changed only when nothing runs on the device",
        remedy: "set the limit once, before work starts that does not end",
    },
    Rule {
        calls: &["cuMemFree", "cuMemFreeHost", "cuMemHostUnregister", "cuArrayDestroy"],
        because: "memory is freed only when nothing runs on the device",
        remedy: "free it later, or with `cuMemFreeAsync`, which does not wait and also takes what `cuMemAlloc` gave",
    },
    Rule {
        calls: &["cuModuleUnload", "cuLibraryUnload"],
        because: "code is unloaded only when nothing runs on the device",
        remedy: "keep modules loaded until the work that does not end is over",
    },
    Rule {
        calls: &["cuCtxDestroy", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxRelease", "cuGreenCtxCreate"],
        because: "contexts are changed only when nothing runs on the device",
        remedy: "end the work that does not end first",
    },
    Rule {
        calls: &["cuStreamCreate", "cuStreamCreateWithPriority"],
        because: "more than about 32 streams at once are made only when nothing runs on the device",
        remedy: "make all streams before work starts that does not end",
    },
    Rule {
        calls: &["cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize"],
        because: "it waits for the work that it was asked to wait for",
        remedy: "find out why that work does not end: what runs on the device may wait for a kernel, a copy or a word that comes \
                 later in this thread",
    },
    Rule {
        calls: &[
            "cuMemcpy",
            "cuMemcpyHtoD",
            "cuMemcpyDtoH",
            "cuMemcpyDtoD",
            "cuMemcpyHtoDAsync",
            "cuMemcpyDtoHAsync",
            "cuMemsetD32Async",
            "cuMemAlloc",
            "cuMemHostAlloc",
            "cuEventRecord",
            "cuEventCreate",
            "cuLaunchHostFunc",
            "cuCtxGetLimit",
            "cuModuleGetFunction",
        ],
        because: "while another thread loads a kernel and waits, this call waits for that one",
        remedy: "see the call of the other thread that loads",
    },
];

/// The rule for a call, whose name may end in a version: `cuMemFree_v2`.
///
/// ```
/// let rule = kernel_registry_audit::rules::of("cuMemFree_v2").unwrap();
/// assert!(rule.remedy.contains("cuMemFreeAsync"));
/// ```
pub fn of(call: &str) -> Option<&'static Rule> {
    let base = call.split_once('_').map_or(call, |(base, _)| base);
    RULES.iter().find(|rule| rule.calls.contains(&base))
}
