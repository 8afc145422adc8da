//! Declares the watched functions of the driver, in one table: their types, and each hook's work in addition to
//! calling the driver.

mod context;
mod guard;
mod image;
mod jit;
mod late;
pub(super) mod load;
pub(crate) mod lookup;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{self, *};
use kernel_registry_cuda::rules;

use crate::watch::events::timed;
use crate::watch::hang::{busy, unloaded};
use crate::watch::known::code::{image_at, image_in_file};
use crate::watch::known::{devices, memory, stream_counts};
use crate::watch::loader::real::{Function, c_name};
use crate::watch::process::fork;
use crate::watch::record::call::{self, Call, Hook};
use crate::watch::record::launches;
use crate::watch::record::slots::{self, during};
use crate::watch::record::{ready, recording};
use crate::watch::{fault, hang, section, stretch};
use context::{end_context, make_context};
use image::{
    LibraryOptions, enumerate, get_function, get_kernel, load_library, load_module, unload_library,
    unload_module,
};
use jit::JitOptions;
use load::{any_node, first_node, kernel_node, launch, load_kernel, load_node, set_limit};

/// Whether the watching thread was started. Asking for a function's address does not start it: a program may only
/// want to know whether there is a device, and then fork, or unshare what only a process of one thread can.
static WATCHES: AtomicBool = AtomicBool::new(false);

/// Prepares the process for its first record: sets what starts with each record, and what is reset in a forked child.
/// Returns whether the process can be watched.
pub(crate) fn prepare() -> bool {
    static ONCE: Once = Once::new();
    if fork::is_divided() {
        return recording::is_possible();
    }
    fork::call_once(&ONCE, || {
        call::use_table(HOOKS);
        [busy::forked, section::forked, unloaded::forked, slots::forked, launches::forked, fault::forked]
            .into_iter()
            .for_each(fork::in_child);
        hang::prepare();
        recording::when_ready(stretch::begin_at_ready);
        // A forked child starts this again, because it has no other threads.
        recording::with_each(|| {
            ready::start();
            if WATCHES.load(Ordering::Relaxed) || recording::is_forked() {
                hang::start();
            }
        });
    });
    recording::is_possible()
}

/// Begins to watch the process, at its first call of the driver. Returns whether it can be watched.
fn begin(number: u32) -> bool {
    let (is_possible, asks) = (prepare(), call::name(number).starts_with("cuGetProcAddress"));
    if is_possible && !asks && !WATCHES.swap(true, Ordering::Relaxed) && !recording::is_forked() {
        hang::start();
    }
    is_possible
}

/// Declares the table, and the functions. `unbound` marks functions that some versions of cudarc's bindings lack, or
/// have with the type of another version. A second name is that of the variant for per-thread default streams.
macro_rules! hooks {
    ($($($unbound:ident)? $since:literal $base:ident => $name:ident $(, $per_thread:ident)?
        ($($arg:ident: $ty:ty),* $(,)?)
        |$call:ident, $real:ident| $body:expr;)*) => {
        /// All hooks. The number of a hook is its index here.
        pub(crate) static HOOKS: &[Hook] = &[$(
            Hook {
                name: stringify!($name),
                base: stringify!($base),
                since: $since,
                per_thread: false,
                address: $name as *const c_void,
            },
            $(Hook {
                name: stringify!($per_thread),
                base: stringify!($base),
                since: $since,
                per_thread: true,
                address: $per_thread as *const c_void,
            },)?
        )*];

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u32)]
        enum Number { $($name, $($per_thread,)?)* }

        $(
            hooks!(@functions [$name $($per_thread)?] ($($arg: $ty),*) |$call, $real| $body);
        )*

        /// Checks that the types are those of cudarc's bindings.
        #[allow(dead_code)]
        const _: () = {
            $(hooks!(@check [$($unbound)?] $name ($($ty),*));)*
        };
    };
    (@functions [] $args:tt |$call:ident, $real:ident| $body:expr) => {};
    (@functions [$name:ident $($others:ident)*] $args:tt |$call:ident, $real:ident| $body:expr) => {
        hooks!(@function $name $args |$call, $real| $body);
        hooks!(@functions [$($others)*] $args |$call, $real| $body);
    };
    (@function $name:ident ($($arg:ident: $ty:ty),*) |$call:ident, $real:ident| $body:expr) => {
        /// Calls the driver's function of this name, and watches the call. The function has the type that CUDA
        /// documents.
        ///
        /// # Safety
        ///
        /// The caller keeps the promises of the driver's function.
        #[cfg_attr(feature = "export", unsafe(no_mangle))]
        #[allow(non_snake_case)]
        pub(crate) unsafe extern "C" fn $name($($arg: $ty),*) -> CUresult {
            type Real = unsafe extern "C" fn($($ty),*) -> CUresult;
            const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
            // SAFETY: this is the type of the driver's function of that name.
            static REAL: Function<Real> = unsafe { Function::new(NAME) };
            let Some((real, is_watched)) = REAL.get_after(|| begin(Number::$name as u32)) else { return CUresult::CUDA_ERROR_NOT_FOUND };
            // SAFETY: the arguments are the caller's.
            let $real = move || unsafe { real($($arg),*) };
            if !is_watched {
                return $real();
            }
            let $call = Call::plain(Number::$name as u32);
            $body
        }
    };
    (@check [] $name:ident ($($ty:ty),*)) => {
        let _: unsafe fn($($ty),*) -> CUresult = sys::$name;
    };
    (@check [unbound] $name:ident $types:tt) => {};
}

/// Makes a call after which a stream waits for a word in memory.
fn wait_for_word(call: Call, stream: CUstream, real: impl FnOnce() -> CUresult) -> CUresult {
    slots::mark_waiting(stream.addr() as u64);
    timed(call.on(stream), real)
}

/// Makes a call that launches a graph.
fn launch_graph(call: Call, stream: CUstream, real: impl FnOnce() -> CUresult) -> CUresult {
    let call = call.on(stream);
    let real = || timed(call, real);
    if section::may_own(call.stream) { guard::launch(call, || "a graph".to_owned(), real) } else { real() }
}

/// Calls `cuGetProcAddress` of the driver, and replaces the functions that it returns by our hooks.
fn proc_address(
    call: Call,
    symbol: *const c_char,
    function: Params,
    version: c_int,
    flags: u64,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = during(call, real);
    // SAFETY: the arguments are the program's, and the driver has answered.
    unsafe { lookup::replace(result, symbol, function, version, flags) }
}

type Params = *mut *mut c_void;

hooks! {
    4000 cuLaunchKernel => cuLaunchKernel, cuLaunchKernel_ptsz(
        f: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: CUstream, params: Params, extra: Params,
    ) |call, real| launch(call, f, stream, real);
    11060 cuLaunchKernelEx => cuLaunchKernelEx, cuLaunchKernelEx_ptsz(
        config: *const CUlaunchConfig, f: CUfunction, params: Params, extra: Params,
    ) |call, real| launch(call, f, stream_of(config), real);
    9000 cuLaunchCooperativeKernel => cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz(
        f: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: CUstream, params: Params,
    ) |call, real| launch(call, f, stream, real);
    9000 cuLaunchCooperativeKernelMultiDevice => cuLaunchCooperativeKernelMultiDevice(
        launches: *mut CUDA_LAUNCH_PARAMS, count: c_uint, flags: c_uint,
    ) |call, real| load::launch_on_all(call, launches, count, real);
    2000 cuLaunch => cuLaunch(f: CUfunction) |call, real| launch(call, f, std::ptr::null_mut(), real);
    2000 cuLaunchGrid => cuLaunchGrid(f: CUfunction, width: c_int, height: c_int) |call, real| launch(call, f, std::ptr::null_mut(), real);
    2000 cuLaunchGridAsync => cuLaunchGridAsync(f: CUfunction, width: c_int, height: c_int, stream: CUstream)
        |call, real| launch(call, f, stream, real);
    10000 cuGraphLaunch => cuGraphLaunch, cuGraphLaunch_ptsz(graph: CUgraphExec, stream: CUstream)
        |call, real| launch_graph(call, stream, real);

    2000 cuModuleLoad => cuModuleLoad(module: *mut CUmodule, path: *const c_char) |call, real| load_module(call, module, image_in_file(path), JitOptions::NONE, real);
    2000 cuModuleLoadData => cuModuleLoadData(module: *mut CUmodule, bytes: *const c_void)
        |call, real| load_module(call, module, image_at(bytes), JitOptions::NONE, real);
    2010 cuModuleLoadDataEx => cuModuleLoadDataEx(
        module: *mut CUmodule, bytes: *const c_void, count: c_uint, options: *mut CUjit_option, values: Params,
    ) |call, real| load_module(call, module, image_at(bytes), JitOptions { count, options, values }, real);
    2000 cuModuleLoadFatBinary => cuModuleLoadFatBinary(module: *mut CUmodule, bytes: *const c_void)
        |call, real| load_module(call, module, image_at(bytes), JitOptions::NONE, real);
    12000 cuLibraryLoadData => cuLibraryLoadData(
        library: *mut CUlibrary, bytes: *const c_void, options: *mut CUjit_option, values: Params, count: c_uint,
        library_options: *mut CUlibraryOption, library_values: Params, library_count: c_uint,
    ) |call, real| {
        let own = LibraryOptions::new(library_options, library_values, library_count);
        load_library(call, library, image_at(bytes), JitOptions { count, options, values }, own, real)
    };
    12000 cuLibraryLoadFromFile => cuLibraryLoadFromFile(
        library: *mut CUlibrary, path: *const c_char, options: *mut CUjit_option, values: Params, count: c_uint,
        library_options: *mut CUlibraryOption, library_values: Params, library_count: c_uint,
    ) |call, real| {
        let own = LibraryOptions::new(library_options, library_values, library_count);
        load_library(call, library, image_in_file(path), JitOptions { count, options, values }, own, real)
    };
    2000 cuModuleUnload => cuModuleUnload(module: CUmodule) |call, real| unload_module(call, module, real);
    12000 cuLibraryUnload => cuLibraryUnload(library: CUlibrary) |call, real| unload_library(call, library, real);

    2000 cuModuleGetFunction => cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char)
        |call, real| get_function(call, function, module, name, real);
    unbound 12040 cuModuleEnumerateFunctions => cuModuleEnumerateFunctions(functions: *mut CUfunction, count: c_uint, module: CUmodule)
        |call, real| enumerate(call, functions, count, module, real);
    12000 cuLibraryGetKernel => cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char)
        |call, real| get_kernel(call, kernel, library, name, real);
    unbound 12040 cuLibraryEnumerateKernels => cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary)
        |call, real| enumerate(call, kernels, count, library, real);
    6050 cuLinkAddData => cuLinkAddData_v2(
        state: CUlinkState, kind: CUjitInputType, data: *mut c_void, size: usize, name: *const c_char, count: c_uint,
        options: *mut CUjit_option, values: Params,
    ) |call, real| timed(call, real);
    6050 cuLinkAddFile => cuLinkAddFile_v2(
        state: CUlinkState, kind: CUjitInputType, path: *const c_char, count: c_uint, options: *mut CUjit_option,
        values: Params,
    ) |call, real| timed(call, real);
    5050 cuLinkComplete => cuLinkComplete(state: CUlinkState, cubin: Params, bytes: *mut usize) |call, real| timed(call, real);
    12000 cuLibraryGetModule => cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary)
        |call, real| image::get_module(call, module, library, real);
    12000 cuLibraryGetGlobal => cuLibraryGetGlobal(
        address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char,
    ) |call, real| image::use_library(call, library, real);
    12000 cuKernelGetFunction => cuKernelGetFunction(function: *mut CUfunction, of: CUkernel)
        |call, real| load_kernel(call, of.cast(), Some(function), real);
    unbound 12040 cuFuncLoad => cuFuncLoad(function: CUfunction) |call, real| load_kernel(call, function, None, real);
    12000 cuKernelSetAttribute => cuKernelSetAttribute(which: CUfunction_attribute, value: c_int, of: CUkernel, device: CUdevice)
        |call, real| load_kernel(call, of.cast(), None, real);
    12000 cuKernelSetCacheConfig => cuKernelSetCacheConfig(of: CUkernel, config: CUfunc_cache, device: CUdevice)
        |call, real| load_kernel(call, of.cast(), None, real);
    6050 cuOccupancyMaxPotentialBlockSize => cuOccupancyMaxPotentialBlockSize(
        blocks: *mut c_int, threads: *mut c_int, function: CUfunction, shared: CUoccupancyB2DSize, bytes: usize, limit: c_int,
    ) |call, real| load_kernel(call, function, None, real);
    7000 cuOccupancyMaxPotentialBlockSizeWithFlags => cuOccupancyMaxPotentialBlockSizeWithFlags(
        blocks: *mut c_int, threads: *mut c_int, function: CUfunction, shared: CUoccupancyB2DSize, bytes: usize, limit: c_int,
        flags: c_uint,
    ) |call, real| load_kernel(call, function, None, real);
    10020 cuOccupancyAvailableDynamicSMemPerBlock => cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize, function: CUfunction, blocks: c_int, threads: c_int,
    ) |call, real| load_kernel(call, function, None, real);
    11070 cuOccupancyMaxActiveClusters => cuOccupancyMaxActiveClusters(
        clusters: *mut c_int, function: CUfunction, config: *const CUlaunchConfig,
    ) |call, real| load_kernel(call, function, None, real);
    11070 cuOccupancyMaxPotentialClusterSize => cuOccupancyMaxPotentialClusterSize(
        size: *mut c_int, function: CUfunction, config: *const CUlaunchConfig,
    ) |call, real| load_kernel(call, function, None, real);
    unbound 12040 cuKernelGetParamInfo => cuKernelGetParamInfo(of: CUkernel, index: usize, offset: *mut usize, bytes: *mut usize)
        |call, real| load_kernel(call, of.cast(), None, real);
    unbound 10000 cuGraphAddKernelNode => cuGraphAddKernelNode(
        node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const c_void,
    ) |call, real| load_node(call, first_node(params), real);
    unbound 12000 cuGraphAddKernelNode => cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const c_void,
    ) |call, real| load_node(call, kernel_node(params), real);
    unbound 12020 cuGraphAddNode => cuGraphAddNode(
        node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *mut c_void,
    ) |call, real| load_node(call, any_node(params), real);
    unbound 12030 cuGraphAddNode => cuGraphAddNode_v2(
        node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, edges: *const c_void, count: usize,
        params: *mut c_void,
    ) |call, real| load_node(call, any_node(params), real);
    unbound 10000 cuGraphKernelNodeSetParams => cuGraphKernelNodeSetParams(node: CUgraphNode, params: *const c_void)
        |call, real| load_node(call, first_node(params), real);
    unbound 12000 cuGraphKernelNodeSetParams => cuGraphKernelNodeSetParams_v2(node: CUgraphNode, params: *const c_void)
        |call, real| load_node(call, kernel_node(params), real);
    unbound 12020 cuGraphNodeSetParams => cuGraphNodeSetParams(node: CUgraphNode, params: *mut c_void)
        |call, real| load_node(call, any_node(params), real);
    unbound 10010 cuGraphExecKernelNodeSetParams => cuGraphExecKernelNodeSetParams(
        graph: CUgraphExec, node: CUgraphNode, params: *const c_void,
    ) |call, real| load_node(call, first_node(params), real);
    unbound 12000 cuGraphExecKernelNodeSetParams => cuGraphExecKernelNodeSetParams_v2(
        graph: CUgraphExec, node: CUgraphNode, params: *const c_void,
    ) |call, real| load_node(call, kernel_node(params), real);
    unbound 12020 cuGraphExecNodeSetParams => cuGraphExecNodeSetParams(
        graph: CUgraphExec, node: CUgraphNode, params: *mut c_void,
    ) |call, real| load_node(call, any_node(params), real);
    6050 cuOccupancyMaxActiveBlocksPerMultiprocessor => cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize,
    ) |call, real| load_kernel(call, function, None, real);
    7000 cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags => cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize, flags: c_uint,
    ) |call, real| load_kernel(call, function, None, real);

    3010 cuCtxSetLimit => cuCtxSetLimit(which: CUlimit, value: usize) |call, real| set_limit(call, which, value, real);
    unbound 3020 cuCtxCreate => cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice)
        |call, real| make_context(call, context, device, real);
    unbound 11040 cuCtxCreate => cuCtxCreate_v3(
        context: *mut CUcontext, params: *mut c_void, count: c_int, flags: c_uint, device: CUdevice,
    ) |call, real| make_context(call, context, device, real);
    unbound 12050 cuCtxCreate => cuCtxCreate_v4(context: *mut CUcontext, params: *mut c_void, flags: c_uint, device: CUdevice)
        |call, real| make_context(call, context, device, real);
    unbound 2000 cuCtxDestroy => cuCtxDestroy(context: CUcontext) |call, real| end_context(call, context, real);
    2000 cuCtxDetach => cuCtxDetach(context: CUcontext) |call, real| end_context(call, context, real);
    4000 cuCtxDestroy => cuCtxDestroy_v2(context: CUcontext) |call, real| end_context(call, context, real);
    7000 cuDevicePrimaryCtxRetain => cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice)
        |call, real| context::retain_primary(call, context, device, real);
    4000 cuCtxEnablePeerAccess => cuCtxEnablePeerAccess(owner: CUcontext, flags: c_uint)
        |call, real| devices::map_peer(owner, || timed(call, real));
    unbound 7000 cuDevicePrimaryCtxReset => cuDevicePrimaryCtxReset(device: CUdevice) |call, real| context::reset_primary(call, device, real);
    unbound 7000 cuDevicePrimaryCtxRelease => cuDevicePrimaryCtxRelease(device: CUdevice) |call, real| context::release_primary(call, device, real);
    11000 cuDevicePrimaryCtxReset => cuDevicePrimaryCtxReset_v2(device: CUdevice) |call, real| context::reset_primary(call, device, real);
    11000 cuDevicePrimaryCtxRelease => cuDevicePrimaryCtxRelease_v2(device: CUdevice) |call, real| context::release_primary(call, device, real);
    unbound 12040 cuGreenCtxCreate => cuGreenCtxCreate(context: Params, resources: *mut c_void, device: CUdevice, flags: c_uint)
        |call, real| guard::wait(call, &rules::CONTEXT, section::find_on_device(device), real);

    2000 cuStreamCreate => cuStreamCreate(stream: *mut CUstream, flags: c_uint) |call, real| guard::create_stream(call, stream, real);
    5050 cuStreamCreateWithPriority => cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int)
        |call, real| guard::create_stream(call, stream, real);
    4000 cuStreamDestroy => cuStreamDestroy_v2(stream: CUstream) |call, real| {
        launches::forget_stream(stream.addr() as u64);
        stream_counts::forget(stream.addr() as u64);
        timed(call.on(stream), real)
    };
    2000 cuStreamSynchronize => cuStreamSynchronize, cuStreamSynchronize_ptsz(stream: CUstream)
        |call, real| guard::synchronize_stream(call, stream, real);
    11070 cuStreamWaitValue32 => cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz(
        stream: CUstream, address: CUdeviceptr, value: cuuint32_t, flags: c_uint,
    ) |call, real| wait_for_word(call, stream, real);
    11070 cuStreamWaitValue64 => cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz(
        stream: CUstream, address: CUdeviceptr, value: cuuint64_t, flags: c_uint,
    ) |call, real| wait_for_word(call, stream, real);
    2000 cuEventSynchronize => cuEventSynchronize(event: CUevent) |call, real| guard::synchronize_event(call, event, real);
    2000 cuCtxSynchronize => cuCtxSynchronize() |call, real| guard::synchronize_context(call, None, real);
    unbound 13000 cuCtxSynchronize => cuCtxSynchronize_v2(context: CUcontext)
        |call, real| guard::synchronize_context(call, Some(context), real);
    2000 cuEventCreate => cuEventCreate(event: *mut CUevent, flags: c_uint) |call, real| guard::create_event(call, event, real);
    2000 cuEventRecord => cuEventRecord, cuEventRecord_ptsz(event: CUevent, stream: CUstream)
        |call, real| guard::record_event(call, event, stream, real);
    11010 cuEventRecordWithFlags => cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz(event: CUevent, stream: CUstream, flags: c_uint)
        |call, real| guard::record_event(call, event, stream, real);
    3020 cuMemAlloc => cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) |call, real| guard::allocate(call, bytes, real);
    3020 cuMemAllocPitch => cuMemAllocPitch_v2(
        address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: c_uint,
    ) |call, real| guard::allocate(call, width.saturating_mul(height), real);
    6000 cuMemAllocManaged => cuMemAllocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint)
        |call, real| guard::allocate(call, bytes, real);
    11020 cuMemAllocAsync => cuMemAllocAsync, cuMemAllocAsync_ptsz(address: *mut CUdeviceptr, bytes: usize, stream: CUstream)
        |call, real| guard::allocate(call.on(stream), bytes, real);
    3020 cuMemFree => cuMemFree_v2(address: CUdeviceptr) |call, real| guard::free(call.at(address), real);
    11020 cuMemFreeAsync => cuMemFreeAsync, cuMemFreeAsync_ptsz(address: CUdeviceptr, stream: CUstream)
        |call, real| guard::free_async(call.on(stream).at(address), real);
    4010 cuIpcCloseMemHandle => cuIpcCloseMemHandle(address: CUdeviceptr) |call, real| guard::close_memory(call.at(address), real);
    3020 cuMemAllocHost => cuMemAllocHost_v2(address: Params, bytes: usize) |call, real| guard::allocate(call, bytes, real);
    2020 cuMemHostAlloc => cuMemHostAlloc(address: Params, bytes: usize, flags: c_uint) |call, real| guard::allocate(call, bytes, real);
    2000 cuMemFreeHost => cuMemFreeHost(address: *mut c_void) |call, real| guard::free_host(call.about(address), real);
    unbound 4000 cuMemHostRegister => cuMemHostRegister(address: *mut c_void, bytes: usize, flags: c_uint)
        |call, real| memory::register(address, || timed(call, real));
    6050 cuMemHostRegister => cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint)
        |call, real| memory::register(address, || timed(call, real));
    4000 cuMemHostUnregister => cuMemHostUnregister(address: *mut c_void) |call, real| guard::unregister(call.about(address), real);
    3020 cuArrayCreate => cuArrayCreate_v2(array: *mut CUarray, description: *const CUDA_ARRAY_DESCRIPTOR)
        |call, real| guard::create(call, array, real);
    3020 cuArray3DCreate => cuArray3DCreate_v2(array: *mut CUarray, description: *const CUDA_ARRAY3D_DESCRIPTOR)
        |call, real| guard::create(call, array, real);
    5000 cuMipmappedArrayCreate => cuMipmappedArrayCreate(
        array: *mut CUmipmappedArray, description: *const CUDA_ARRAY3D_DESCRIPTOR, levels: c_uint,
    ) |call, real| guard::create(call, array, real);
    2000 cuArrayDestroy => cuArrayDestroy(array: CUarray) |call, real| guard::destroy(call.about(array), &rules::FREE, real);
    5000 cuMipmappedArrayDestroy => cuMipmappedArrayDestroy(array: CUmipmappedArray)
        |call, real| guard::destroy(call.about(array), &rules::FREE, real);
    4000 cuMemcpy => cuMemcpy, cuMemcpy_ptds(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) |call, real| timed(call, real);
    4000 cuMemcpyAsync => cuMemcpyAsync, cuMemcpyAsync_ptsz(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream)
        |call, real| timed(call.on(stream), real);
    3020 cuMemcpyHtoD => cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds(to: CUdeviceptr, from: *const c_void, bytes: usize)
        |call, real| timed(call, real);
    3020 cuMemcpyDtoH => cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds(to: *mut c_void, from: CUdeviceptr, bytes: usize)
        |call, real| timed(call, real);
    3020 cuMemcpyHtoDAsync => cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz(
        to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream,
    ) |call, real| timed(call.on(stream), real);
    3020 cuMemcpyDtoHAsync => cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz(
        to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream,
    ) |call, real| timed(call.on(stream), real);

    unbound 11030 cuGetProcAddress => cuGetProcAddress(symbol: *const c_char, function: Params, version: c_int, flags: u64)
        |call, real| proc_address(call, symbol, function, version, flags, real);
    12000 cuGetProcAddress => cuGetProcAddress_v2(
        symbol: *const c_char, function: Params, version: c_int, flags: u64, status: *mut CUdriverProcAddressQueryResult,
    ) |call, real| proc_address(call, symbol, function, version, flags, real);
}

fn stream_of(config: *const CUlaunchConfig) -> CUstream {
    // SAFETY: programs pass a configuration or null.
    unsafe { config.as_ref() }.map_or(std::ptr::null_mut(), |config| config.hStream)
}
