//! The functions of the driver that are watched: one table with their types, and what each does besides calling the driver
//! behind.

mod guard;
mod image;
mod late;
mod load;
mod stack;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use cudarc::driver::sys::{self, *};

use crate::rules;
use crate::watch::real::Function;
use crate::watch::watched::{self, Call, during, timed};
use crate::watch::{devices, memory, section, streams};
use image::{
    code, ends, enumerates, file, load_library, load_module, makes, names, take, unload_library,
    unload_module,
};
use load::{any_node, first_node, kernel, kernel_node, launch, limit};

/// A watched function, as programs ask for it.
pub(crate) struct Hook {
    /// The exported symbol.
    pub(crate) name: &'static str,
    /// The name in `cuGetProcAddress`.
    pub(crate) base: &'static str,
    /// The first CUDA version for which that name means this function.
    pub(crate) since: c_int,
    /// Whether it is the variant for per-thread default streams.
    pub(crate) per_thread: bool,
    pub(crate) address: *const c_void,
}

// SAFETY: the address is that of a function.
unsafe impl Sync for Hook {}

/// The newest CUDA version whose functions this table knows.
pub(crate) const NEWEST: c_int = 13_000;

/// The name of a function by its number.
pub(crate) fn name(hook: u32) -> &'static str {
    HOOKS.get(hook as usize).map_or("a call", |hook| hook.name)
}

/// The address of a hook by its number.
pub(crate) fn address(hook: u32) -> *const c_void {
    HOOKS.get(hook as usize).map_or(std::ptr::null(), |hook| hook.address)
}

macro_rules! hooks {
    ($($since:literal $base:ident $($per_thread:ident)? => $name:ident($($arg:ident: $ty:ty),* $(,)?)
        |$call:ident, $real:ident| $body:expr;)*) => {
        /// All hooks. Their numbers are their places.
        pub(crate) static HOOKS: &[Hook] = &[$(Hook {
            name: stringify!($name),
            base: stringify!($base),
            since: $since,
            per_thread: false $(|| $per_thread)?,
            address: $name as *const c_void,
        }),*];

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u32)]
        enum Number { $($name),* }

        $(
            /// A function of CUDA, with its documented type.
            ///
            /// # Safety
            ///
            /// That of the driver's function.
            #[cfg_attr(feature = "export", unsafe(no_mangle))]
            #[allow(non_snake_case)]
            pub(crate) unsafe extern "C" fn $name($($arg: $ty),*) -> CUresult {
                type Real = unsafe extern "C" fn($($ty),*) -> CUresult;
                const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("names have no zero"),
                };
                // SAFETY: this is the driver's function of that name, whose type this is.
                static REAL: Function<Real> = unsafe { Function::new(NAME) };
                let Some(real) = REAL.get() else { return CUresult::CUDA_ERROR_NOT_FOUND };
                // SAFETY: the arguments are the caller's.
                let $real = move || unsafe { real($($arg),*) };
                let $call = Number::$name as u32;
                $body
            }
        )*

        /// The types are those of cudarc's bindings.
        #[allow(dead_code)]
        const _: () = {
            $(hooks!(@check $name ($($ty),*) $($per_thread)?);)*
        };
    };
    // cudarc binds neither variants for per-thread streams nor the first `cuGetProcAddress`, and of some functions those of the CUDA
    // version that it is built for.
    (@check cuGetProcAddress ($($ty:ty),*)) => {};
    (@check cuCtxSynchronize_v2 ($($ty:ty),*)) => {};
    (@check cuGreenCtxCreate ($($ty:ty),*)) => {};
    (@check cuCtxDestroy ($($ty:ty),*)) => {};
    (@check cuDevicePrimaryCtxRelease ($($ty:ty),*)) => {};
    (@check cuDevicePrimaryCtxReset ($($ty:ty),*)) => {};
    (@check cuGraphAddKernelNode ($($ty:ty),*)) => {};
    (@check cuGraphAddKernelNode_v2 ($($ty:ty),*)) => {};
    (@check cuGraphAddNode ($($ty:ty),*)) => {};
    (@check cuGraphAddNode_v2 ($($ty:ty),*)) => {};
    (@check cuGraphExecKernelNodeSetParams ($($ty:ty),*)) => {};
    (@check cuGraphExecKernelNodeSetParams_v2 ($($ty:ty),*)) => {};
    (@check cuGraphExecNodeSetParams ($($ty:ty),*)) => {};
    (@check cuGraphKernelNodeSetParams ($($ty:ty),*)) => {};
    (@check cuGraphKernelNodeSetParams_v2 ($($ty:ty),*)) => {};
    (@check cuGraphNodeSetParams ($($ty:ty),*)) => {};
    (@check cuMemHostRegister ($($ty:ty),*)) => {};
    (@check cuCtxCreate_v2 ($($ty:ty),*)) => {};
    (@check cuCtxCreate_v3 ($($ty:ty),*)) => {};
    (@check cuCtxCreate_v4 ($($ty:ty),*)) => {};
    (@check $name:ident ($($ty:ty),*) true) => {};
    (@check $name:ident ($($ty:ty),*)) => {
        let _: unsafe fn($($ty),*) -> CUresult = sys::$name;
    };
}

/// A call without a subject.
fn plain(hook: u32) -> Call {
    Call { hook, subject: 0, stream: 0 }
}

fn about<T>(hook: u32, subject: *mut T) -> Call {
    Call { hook, subject: subject.addr() as u64, stream: 0 }
}

fn on(hook: u32, stream: CUstream) -> Call {
    Call { hook, subject: 0, stream: stream.addr() as u64 }
}

/// A call after which a stream waits for a word in memory.
fn waits(hook: u32, stream: CUstream, real: impl FnOnce() -> CUresult) -> CUresult {
    watched::waits(stream.addr() as u64);
    timed(on(hook, stream), name(hook), real)
}

/// A launch of a graph.
fn launch_graph(hook: u32, stream: CUstream, real: impl FnOnce() -> CUresult) -> CUresult {
    let call = on(hook, stream);
    let real = || timed(call, name(hook), real);
    if section::may_own(call.stream) { guard::launches(call, || "a graph".to_owned(), real) } else { real() }
}

type Params = *mut *mut c_void;

hooks! {
    4000 cuLaunchKernel => cuLaunchKernel(
        f: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: CUstream, params: Params, extra: Params,
    ) |hook, real| launch(hook, f, stream, real);
    4000 cuLaunchKernel true => cuLaunchKernel_ptsz(
        f: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: CUstream, params: Params, extra: Params,
    ) |hook, real| launch(hook, f, stream, real);
    11060 cuLaunchKernelEx => cuLaunchKernelEx(
        config: *const CUlaunchConfig, f: CUfunction, params: Params, extra: Params,
    ) |hook, real| launch(hook, f, stream_of(config), real);
    11060 cuLaunchKernelEx true => cuLaunchKernelEx_ptsz(
        config: *const CUlaunchConfig, f: CUfunction, params: Params, extra: Params,
    ) |hook, real| launch(hook, f, stream_of(config), real);
    9000 cuLaunchCooperativeKernel => cuLaunchCooperativeKernel(
        f: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: CUstream, params: Params,
    ) |hook, real| launch(hook, f, stream, real);
    9000 cuLaunchCooperativeKernel true => cuLaunchCooperativeKernel_ptsz(
        f: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: CUstream, params: Params,
    ) |hook, real| launch(hook, f, stream, real);
    9000 cuLaunchCooperativeKernelMultiDevice => cuLaunchCooperativeKernelMultiDevice(
        launches: *mut CUDA_LAUNCH_PARAMS, count: c_uint, flags: c_uint,
    ) |hook, real| {
        // SAFETY: the caller's promise.
        unsafe { load::launch_on_all(hook, launches, count, real) }
    };
    2000 cuLaunch => cuLaunch(f: CUfunction) |hook, real| launch(hook, f, std::ptr::null_mut(), real);
    2000 cuLaunchGrid => cuLaunchGrid(f: CUfunction, width: c_int, height: c_int)
        |hook, real| launch(hook, f, std::ptr::null_mut(), real);
    2000 cuLaunchGridAsync => cuLaunchGridAsync(f: CUfunction, width: c_int, height: c_int, stream: CUstream)
        |hook, real| launch(hook, f, stream, real);
    10000 cuGraphLaunch => cuGraphLaunch(graph: CUgraphExec, stream: CUstream)
        |hook, real| launch_graph(hook, stream, real);
    10000 cuGraphLaunch true => cuGraphLaunch_ptsz(graph: CUgraphExec, stream: CUstream)
        |hook, real| launch_graph(hook, stream, real);

    2000 cuModuleLoad => cuModuleLoad(module: *mut CUmodule, path: *const c_char)
        |hook, real| load_module(hook, module, file(path), real);
    2000 cuModuleLoadData => cuModuleLoadData(module: *mut CUmodule, bytes: *const c_void)
        |hook, real| load_module(hook, module, code(bytes), real);
    2010 cuModuleLoadDataEx => cuModuleLoadDataEx(
        module: *mut CUmodule, bytes: *const c_void, count: c_uint, options: *mut CUjit_option, values: Params,
    ) |hook, real| load_module(hook, module, code(bytes), real);
    2000 cuModuleLoadFatBinary => cuModuleLoadFatBinary(module: *mut CUmodule, bytes: *const c_void)
        |hook, real| load_module(hook, module, code(bytes), real);
    12000 cuLibraryLoadData => cuLibraryLoadData(
        library: *mut CUlibrary, bytes: *const c_void, options: *mut CUjit_option, values: Params, count: c_uint,
        library_options: *mut CUlibraryOption, library_values: Params, library_count: c_uint,
    ) |hook, real| {
        // SAFETY: the caller's promise.
        let keeps = unsafe { image::keeps(library_options, library_count) };
        load_library(hook, library, code(bytes), keeps, real)
    };
    12000 cuLibraryLoadFromFile => cuLibraryLoadFromFile(
        library: *mut CUlibrary, path: *const c_char, options: *mut CUjit_option, values: Params, count: c_uint,
        library_options: *mut CUlibraryOption, library_values: Params, library_count: c_uint,
    ) |hook, real| load_library(hook, library, file(path), false, real);
    2000 cuModuleUnload => cuModuleUnload(module: CUmodule)
        |hook, real| unload_module(hook, module, real);
    12000 cuLibraryUnload => cuLibraryUnload(library: CUlibrary)
        |hook, real| unload_library(hook, library, real);

    2000 cuModuleGetFunction => cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char)
        |hook, real| take(hook, function, module, name, real);
    12040 cuModuleEnumerateFunctions => cuModuleEnumerateFunctions(functions: *mut CUfunction, count: c_uint, module: CUmodule)
        |hook, real| enumerates(hook, functions, count, module, real);
    12000 cuLibraryGetKernel => cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char)
        |hook, real| names(hook, kernel, library, name, real);
    12040 cuLibraryEnumerateKernels => cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary)
        |hook, real| enumerates(hook, kernels, count, library, real);
    5050 cuLinkComplete => cuLinkComplete(state: CUlinkState, cubin: Params, bytes: *mut usize)
        |hook, real| timed(plain(hook), name(hook), real);
    12000 cuLibraryGetModule => cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary)
        |hook, real| image::module_of_library(hook, module, library, real);
    12000 cuLibraryGetGlobal => cuLibraryGetGlobal(
        address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char,
    ) |hook, real| image::uses_library(hook, library, real);
    12000 cuKernelGetFunction => cuKernelGetFunction(function: *mut CUfunction, of: CUkernel)
        |hook, real| kernel(hook, of.cast(), Some(function), real);
    12040 cuFuncLoad => cuFuncLoad(function: CUfunction) |hook, real| kernel(hook, function, None, real);
    12000 cuKernelSetAttribute => cuKernelSetAttribute(which: CUfunction_attribute, value: c_int, of: CUkernel, device: CUdevice)
        |hook, real| kernel(hook, of.cast(), None, real);
    12000 cuKernelSetCacheConfig => cuKernelSetCacheConfig(of: CUkernel, config: CUfunc_cache, device: CUdevice)
        |hook, real| kernel(hook, of.cast(), None, real);
    6050 cuOccupancyMaxPotentialBlockSize => cuOccupancyMaxPotentialBlockSize(
        blocks: *mut c_int, threads: *mut c_int, function: CUfunction, shared: CUoccupancyB2DSize, bytes: usize, limit: c_int,
    ) |hook, real| kernel(hook, function, None, real);
    7000 cuOccupancyMaxPotentialBlockSizeWithFlags => cuOccupancyMaxPotentialBlockSizeWithFlags(
        blocks: *mut c_int, threads: *mut c_int, function: CUfunction, shared: CUoccupancyB2DSize, bytes: usize, limit: c_int,
        flags: c_uint,
    ) |hook, real| kernel(hook, function, None, real);
    10020 cuOccupancyAvailableDynamicSMemPerBlock => cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize, function: CUfunction, blocks: c_int, threads: c_int,
    ) |hook, real| kernel(hook, function, None, real);
    11070 cuOccupancyMaxActiveClusters => cuOccupancyMaxActiveClusters(
        clusters: *mut c_int, function: CUfunction, config: *const CUlaunchConfig,
    ) |hook, real| kernel(hook, function, None, real);
    11070 cuOccupancyMaxPotentialClusterSize => cuOccupancyMaxPotentialClusterSize(
        size: *mut c_int, function: CUfunction, config: *const CUlaunchConfig,
    ) |hook, real| kernel(hook, function, None, real);
    12040 cuKernelGetParamInfo => cuKernelGetParamInfo(of: CUkernel, index: usize, offset: *mut usize, bytes: *mut usize)
        |hook, real| kernel(hook, of.cast(), None, real);
    10000 cuGraphAddKernelNode => cuGraphAddKernelNode(
        node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const c_void,
    ) |hook, real| {
        // SAFETY: the caller's promise.
        load::node(hook, unsafe { first_node(params) }, real)
    };
    12000 cuGraphAddKernelNode => cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const c_void,
    ) |hook, real| {
        // SAFETY: the caller's promise.
        load::node(hook, unsafe { kernel_node(params) }, real)
    };
    12020 cuGraphAddNode => cuGraphAddNode(
        node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *mut c_void,
    ) |hook, real| {
        // SAFETY: the caller's promise.
        load::node(hook, unsafe { any_node(params) }, real)
    };
    12030 cuGraphAddNode => cuGraphAddNode_v2(
        node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, edges: *const c_void, count: usize,
        params: *mut c_void,
    ) |hook, real| {
        // SAFETY: the caller's promise.
        load::node(hook, unsafe { any_node(params) }, real)
    };
    10000 cuGraphKernelNodeSetParams => cuGraphKernelNodeSetParams(node: CUgraphNode, params: *const c_void) |hook, real| {
        // SAFETY: the caller's promise.
        load::node(hook, unsafe { first_node(params) }, real)
    };
    12000 cuGraphKernelNodeSetParams => cuGraphKernelNodeSetParams_v2(node: CUgraphNode, params: *const c_void) |hook, real| {
        // SAFETY: the caller's promise.
        load::node(hook, unsafe { kernel_node(params) }, real)
    };
    12020 cuGraphNodeSetParams => cuGraphNodeSetParams(node: CUgraphNode, params: *mut c_void) |hook, real| {
        // SAFETY: the caller's promise.
        load::node(hook, unsafe { any_node(params) }, real)
    };
    10010 cuGraphExecKernelNodeSetParams => cuGraphExecKernelNodeSetParams(
        graph: CUgraphExec, node: CUgraphNode, params: *const c_void,
    ) |hook, real| {
        // SAFETY: the caller's promise.
        load::node(hook, unsafe { first_node(params) }, real)
    };
    12000 cuGraphExecKernelNodeSetParams => cuGraphExecKernelNodeSetParams_v2(
        graph: CUgraphExec, node: CUgraphNode, params: *const c_void,
    ) |hook, real| {
        // SAFETY: the caller's promise.
        load::node(hook, unsafe { kernel_node(params) }, real)
    };
    12020 cuGraphExecNodeSetParams => cuGraphExecNodeSetParams(
        graph: CUgraphExec, node: CUgraphNode, params: *mut c_void,
    ) |hook, real| {
        // SAFETY: the caller's promise.
        load::node(hook, unsafe { any_node(params) }, real)
    };
    6050 cuOccupancyMaxActiveBlocksPerMultiprocessor => cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize,
    ) |hook, real| kernel(hook, function, None, real);
    7000 cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags => cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize, flags: c_uint,
    ) |hook, real| kernel(hook, function, None, real);

    3010 cuCtxSetLimit => cuCtxSetLimit(which: CUlimit, value: usize) |hook, real| limit(hook, which, value, real);
    3020 cuCtxCreate => cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice)
        |hook, real| makes(hook, context, real);
    11040 cuCtxCreate => cuCtxCreate_v3(
        context: *mut CUcontext, params: *mut c_void, count: c_int, flags: c_uint, device: CUdevice,
    ) |hook, real| makes(hook, context, real);
    12050 cuCtxCreate => cuCtxCreate_v4(context: *mut CUcontext, params: *mut c_void, flags: c_uint, device: CUdevice)
        |hook, real| makes(hook, context, real);
    2000 cuCtxDestroy => cuCtxDestroy(context: CUcontext) |hook, real| ends(hook, context, real);
    2000 cuCtxDetach => cuCtxDetach(context: CUcontext) |hook, real| ends(hook, context, real);
    4000 cuCtxDestroy => cuCtxDestroy_v2(context: CUcontext) |hook, real| ends(hook, context, real);
    7000 cuDevicePrimaryCtxRetain => cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice)
        |hook, real| image::retains(hook, context, device, real);
    4000 cuCtxEnablePeerAccess => cuCtxEnablePeerAccess(owner: CUcontext, flags: c_uint)
        |hook, real| devices::maps(owner, || timed(plain(hook), name(hook), real));
    7000 cuDevicePrimaryCtxReset => cuDevicePrimaryCtxReset(device: CUdevice)
        |hook, real| image::resets(hook, device, real);
    7000 cuDevicePrimaryCtxRelease => cuDevicePrimaryCtxRelease(device: CUdevice)
        |hook, real| image::releases(hook, device, real);
    11000 cuDevicePrimaryCtxReset => cuDevicePrimaryCtxReset_v2(device: CUdevice)
        |hook, real| image::resets(hook, device, real);
    11000 cuDevicePrimaryCtxRelease => cuDevicePrimaryCtxRelease_v2(device: CUdevice)
        |hook, real| image::releases(hook, device, real);
    12040 cuGreenCtxCreate => cuGreenCtxCreate(context: Params, resources: *mut c_void, device: CUdevice, flags: c_uint)
        |hook, real| guard::waits(plain(hook), &rules::CONTEXT, section::on(device), real);

    2000 cuStreamCreate => cuStreamCreate(stream: *mut CUstream, flags: c_uint)
        |hook, real| guard::makes_stream(hook, stream, real);
    5050 cuStreamCreateWithPriority => cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int)
        |hook, real| guard::makes_stream(hook, stream, real);
    4000 cuStreamDestroy => cuStreamDestroy_v2(stream: CUstream) |hook, real| {
        watched::forget_stream(stream.addr() as u64);
        streams::destroyed(stream.addr() as u64);
        timed(on(hook, stream), name(hook), real)
    };
    2000 cuStreamSynchronize => cuStreamSynchronize(stream: CUstream)
        |hook, real| guard::synchronizes(hook, stream, real);
    2000 cuStreamSynchronize true => cuStreamSynchronize_ptsz(stream: CUstream)
        |hook, real| guard::synchronizes(hook, stream, real);
    11070 cuStreamWaitValue32 => cuStreamWaitValue32_v2(stream: CUstream, address: CUdeviceptr, value: cuuint32_t, flags: c_uint)
        |hook, real| waits(hook, stream, real);
    11070 cuStreamWaitValue32 true => cuStreamWaitValue32_v2_ptsz(stream: CUstream, address: CUdeviceptr, value: cuuint32_t, flags: c_uint)
        |hook, real| waits(hook, stream, real);
    11070 cuStreamWaitValue64 => cuStreamWaitValue64_v2(stream: CUstream, address: CUdeviceptr, value: cuuint64_t, flags: c_uint)
        |hook, real| waits(hook, stream, real);
    11070 cuStreamWaitValue64 true => cuStreamWaitValue64_v2_ptsz(stream: CUstream, address: CUdeviceptr, value: cuuint64_t, flags: c_uint)
        |hook, real| waits(hook, stream, real);
    2000 cuEventSynchronize => cuEventSynchronize(event: CUevent) |hook, real| guard::waits_for(hook, event, real);
    2000 cuCtxSynchronize => cuCtxSynchronize()
        |hook, real| guard::synchronizes_context(hook, None, real);
    13000 cuCtxSynchronize => cuCtxSynchronize_v2(context: CUcontext)
        |hook, real| guard::synchronizes_context(hook, Some(context), real);
    2000 cuEventCreate => cuEventCreate(event: *mut CUevent, flags: c_uint)
        |hook, real| guard::makes_event(hook, event, real);
    2000 cuEventRecord => cuEventRecord(event: CUevent, stream: CUstream)
        |hook, real| guard::records(hook, event, stream, real);
    2000 cuEventRecord true => cuEventRecord_ptsz(event: CUevent, stream: CUstream)
        |hook, real| guard::records(hook, event, stream, real);
    11010 cuEventRecordWithFlags => cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint)
        |hook, real| guard::records(hook, event, stream, real);
    11010 cuEventRecordWithFlags true => cuEventRecordWithFlags_ptsz(event: CUevent, stream: CUstream, flags: c_uint)
        |hook, real| guard::records(hook, event, stream, real);
    3020 cuMemAlloc => cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize)
        |hook, real| guard::allocates(plain(hook), bytes, real);
    3020 cuMemAllocPitch => cuMemAllocPitch_v2(
        address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: c_uint,
    ) |hook, real| guard::allocates(plain(hook), width.saturating_mul(height), real);
    6000 cuMemAllocManaged => cuMemAllocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint)
        |hook, real| guard::allocates(plain(hook), bytes, real);
    11020 cuMemAllocAsync => cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream)
        |hook, real| guard::allocates(on(hook, stream), bytes, real);
    11020 cuMemAllocAsync true => cuMemAllocAsync_ptsz(address: *mut CUdeviceptr, bytes: usize, stream: CUstream)
        |hook, real| guard::allocates(on(hook, stream), bytes, real);
    3020 cuMemFree => cuMemFree_v2(address: CUdeviceptr)
        |hook, real| guard::free(Call { subject: address, ..plain(hook) }, real);
    11020 cuMemFreeAsync => cuMemFreeAsync(address: CUdeviceptr, stream: CUstream)
        |hook, real| guard::frees_at_once(Call { subject: address, ..on(hook, stream) }, real);
    11020 cuMemFreeAsync true => cuMemFreeAsync_ptsz(address: CUdeviceptr, stream: CUstream)
        |hook, real| guard::frees_at_once(Call { subject: address, ..on(hook, stream) }, real);
    4010 cuIpcCloseMemHandle => cuIpcCloseMemHandle(address: CUdeviceptr)
        |hook, real| guard::closes(Call { subject: address, ..plain(hook) }, real);
    3020 cuMemAllocHost => cuMemAllocHost_v2(address: Params, bytes: usize)
        |hook, real| guard::allocates(plain(hook), bytes, real);
    2020 cuMemHostAlloc => cuMemHostAlloc(address: Params, bytes: usize, flags: c_uint)
        |hook, real| guard::allocates(plain(hook), bytes, real);
    2000 cuMemFreeHost => cuMemFreeHost(address: *mut c_void) |hook, real| guard::free_host(about(hook, address), real);
    4000 cuMemHostRegister => cuMemHostRegister(address: *mut c_void, bytes: usize, flags: c_uint)
        |hook, real| memory::registers(address, || timed(plain(hook), name(hook), real));
    6050 cuMemHostRegister => cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint)
        |hook, real| memory::registers(address, || timed(plain(hook), name(hook), real));
    4000 cuMemHostUnregister => cuMemHostUnregister(address: *mut c_void)
        |hook, real| guard::unregister(about(hook, address), real);
    3020 cuArrayCreate => cuArrayCreate_v2(array: *mut CUarray, description: *const CUDA_ARRAY_DESCRIPTOR)
        |hook, real| guard::makes(hook, array, real);
    3020 cuArray3DCreate => cuArray3DCreate_v2(array: *mut CUarray, description: *const CUDA_ARRAY3D_DESCRIPTOR)
        |hook, real| guard::makes(hook, array, real);
    5000 cuMipmappedArrayCreate => cuMipmappedArrayCreate(
        array: *mut CUmipmappedArray, description: *const CUDA_ARRAY3D_DESCRIPTOR, levels: c_uint,
    ) |hook, real| guard::makes(hook, array, real);
    2000 cuArrayDestroy => cuArrayDestroy(array: CUarray) |hook, real| guard::destroys(about(hook, array), &rules::FREE, real);
    5000 cuMipmappedArrayDestroy => cuMipmappedArrayDestroy(array: CUmipmappedArray)
        |hook, real| guard::destroys(about(hook, array), &rules::FREE, real);
    4000 cuMemcpy => cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize)
        |hook, real| timed(plain(hook), name(hook), real);
    4000 cuMemcpy true => cuMemcpy_ptds(to: CUdeviceptr, from: CUdeviceptr, bytes: usize)
        |hook, real| timed(plain(hook), name(hook), real);
    4000 cuMemcpyAsync => cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream)
        |hook, real| timed(on(hook, stream), name(hook), real);
    4000 cuMemcpyAsync true => cuMemcpyAsync_ptsz(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream)
        |hook, real| timed(on(hook, stream), name(hook), real);
    3020 cuMemcpyHtoD => cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize)
        |hook, real| timed(plain(hook), name(hook), real);
    3020 cuMemcpyHtoD true => cuMemcpyHtoD_v2_ptds(to: CUdeviceptr, from: *const c_void, bytes: usize)
        |hook, real| timed(plain(hook), name(hook), real);
    3020 cuMemcpyDtoH => cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize)
        |hook, real| timed(plain(hook), name(hook), real);
    3020 cuMemcpyDtoH true => cuMemcpyDtoH_v2_ptds(to: *mut c_void, from: CUdeviceptr, bytes: usize)
        |hook, real| timed(plain(hook), name(hook), real);
    3020 cuMemcpyHtoDAsync => cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream)
        |hook, real| timed(on(hook, stream), name(hook), real);
    3020 cuMemcpyHtoDAsync true => cuMemcpyHtoDAsync_v2_ptsz(
        to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream,
    ) |hook, real| timed(on(hook, stream), name(hook), real);
    3020 cuMemcpyDtoHAsync => cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream)
        |hook, real| timed(on(hook, stream), name(hook), real);
    3020 cuMemcpyDtoHAsync true => cuMemcpyDtoHAsync_v2_ptsz(
        to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream,
    ) |hook, real| timed(on(hook, stream), name(hook), real);

    11030 cuGetProcAddress => cuGetProcAddress(symbol: *const c_char, function: Params, version: c_int, flags: u64)
        |hook, real| {
            let result = during(plain(hook), real);
            // SAFETY: the caller's promise.
            unsafe { crate::watch::lookup::replace(result, symbol, function, version, flags) }
        };
    12000 cuGetProcAddress => cuGetProcAddress_v2(
        symbol: *const c_char, function: Params, version: c_int, flags: u64,
        status: *mut CUdriverProcAddressQueryResult,
    ) |hook, real| {
        let result = during(plain(hook), real);
        // SAFETY: the caller's promise.
        unsafe { crate::watch::lookup::replace(result, symbol, function, version, flags) }
    };
}

fn stream_of(config: *const CUlaunchConfig) -> CUstream {
    // SAFETY: programs pass a configuration or null.
    unsafe { config.as_ref() }.map_or(std::ptr::null_mut(), |config| config.hStream)
}
