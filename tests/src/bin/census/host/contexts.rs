//! Rows for contexts, green contexts, devices and tools: calls that need no stream.

use std::ffi::{c_char, c_void};

use kernel_registry::cudarc::driver::sys;

use crate::bench::Bench;
use crate::cuda::{self, Done, EventFlags, Handle, NON_BLOCKING, NULL, create, driver, join_errors};
use crate::host::{call, with};
use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    [contexts(), green(), devices(), tools()].into_iter().flatten().collect()
}

fn another(bench: &Bench) -> Done<sys::CUcontext> {
    cuda::new_context(bench.device())
}

fn contexts() -> Vec<Row> {
    vec![
        with("cuCtxDestroy_of_another_first_version", another, |_, context| driver!(cuCtxDestroy(context))),
        with("cuCtxDetach_of_another", another, |_, context| {
            let current = cuda::current_context()?;
            cuda::set_context(context)?;
            join_errors([driver!(cuCtxDetach(context)), cuda::set_context(current)])
        }),
        call("cuCtxAttach", |_| create!(cuCtxAttach(0_u32)).map(drop)),
        with("cuCtxSynchronize_of_another", another, |_, context| driver!(cuCtxSynchronize_v2(context))),
        call("context_stack", |_| {
            let current = cuda::current_context()?;
            join_errors([driver!(cuCtxPushCurrent_v2(current)), create!(cuCtxPopCurrent_v2()).map(drop)])
        }),
        call("context_questions", |_| {
            let (context, mut number, mut id, mut affinity) =
                (cuda::current_context()?, 0_u32, 0_u64, [0_u32; 4]);
            let (mut least, mut greatest, mut device) = (0_i32, 0_i32, 0_i32);
            join_errors([
                driver!(cuCtxGetApiVersion(context, &raw mut number)),
                driver!(cuCtxGetCacheConfig(&raw mut number)),
                driver!(cuCtxGetSharedMemConfig(&raw mut number)),
                driver!(cuCtxGetFlags(&raw mut number)),
                driver!(cuCtxGetDevice(&raw mut device)),
                driver!(cuCtxGetId(context, &raw mut id)),
                driver!(cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest)),
                driver!(cuCtxGetExecAffinity(affinity.as_mut_ptr(), 0_u32)),
            ])
        }),
        call("cuCtxSetCacheConfig", |_| driver!(cuCtxSetCacheConfig(1_u32))),
        call("cuCtxSetSharedMemConfig", |_| driver!(cuCtxSetSharedMemConfig(1_u32))),
        call("cuCtxSetFlags", |_| {
            let mut flags = 0_u32;
            driver!(cuCtxGetFlags(&raw mut flags))?;
            driver!(cuCtxSetFlags(flags))
        }),
        call("cuCtxResetPersistingL2Cache", |_| driver!(cuCtxResetPersistingL2Cache())),
        with(
            "cuCtxRecordEvent",
            |_| cuda::event(EventFlags::CU_EVENT_DEFAULT),
            |_, event| driver!(cuCtxRecordEvent(cuda::current_context()?, event)),
        ),
        with(
            "cuCtxWaitEvent",
            |_| cuda::event(EventFlags::CU_EVENT_DEFAULT),
            |_, event| driver!(cuCtxWaitEvent(cuda::current_context()?, event)),
        ),
        call("cuDevicePrimaryCtxSetFlags", |bench| {
            let (mut flags, mut active) = (0_u32, 0_i32);
            driver!(cuDevicePrimaryCtxGetState(bench.device(), &raw mut flags, &raw mut active))?;
            driver!(cuDevicePrimaryCtxSetFlags_v2(bench.device(), flags))
        }),
    ]
}

/// Some of a device's multiprocessors, as a resource. The driver's structure has 144 bytes, or 152 since CUDA
/// 13.1.
type Resource = [u64; 32];
const MULTIPROCESSORS: u32 = 1;

/// Describes a part of the device with at least 16 multiprocessors.
fn described(bench: &Bench) -> Done<Handle> {
    let (mut all, mut part, mut rest): (Resource, Resource, Resource) = Default::default();
    let mut groups = 1_u32;
    driver!(cuDeviceGetDevResource(bench.device(), all.as_mut_ptr(), MULTIPROCESSORS))?;
    driver!(cuDevSmResourceSplitByCount(
        part.as_mut_ptr(),
        &raw mut groups,
        all.as_ptr(),
        rest.as_mut_ptr(),
        0_u32,
        16_u32
    ))?;
    create!(cuDevResourceGenerateDesc(part.as_mut_ptr(), 1_u32))
}

fn created(bench: &Bench, description: Handle) -> Done<Handle> {
    const DEFAULT_STREAM: u32 = 1;
    create!(cuGreenCtxCreate(description, bench.device(), DEFAULT_STREAM))
}

fn part(bench: &Bench) -> Done<Handle> {
    created(bench, described(bench)?)
}

fn stream(part: Handle) -> Done<Handle> {
    create!(cuGreenCtxStreamCreate(part, NON_BLOCKING as u32, 0_i32))
}

fn green() -> Vec<Row> {
    vec![
        call("cuDevResourceGenerateDesc", |bench| described(bench).map(drop)),
        with("cuGreenCtxCreate", described, |bench, description| created(bench, description).map(drop)),
        with("cuGreenCtxDestroy", part, |_, part| driver!(cuGreenCtxDestroy(part))),
        with("cuGreenCtxStreamCreate", part, |_, part| stream(part).map(drop)),
        with("cuGreenCtxStreamCreate_40_times", part, |_, part| {
            (0..40).try_for_each(|_| stream(part).map(drop))
        }),
        with(
            "cuStreamDestroy_of_part",
            |bench| stream(part(bench)?),
            |_, stream| driver!(cuStreamDestroy_v2(stream)),
        ),
        with("cuCtxFromGreenCtx", part, |_, part| create!(cuCtxFromGreenCtx(part)).map(drop)),
        with(
            "green_context_questions",
            |bench| {
                let part = part(bench)?;
                Ok((part, stream(part)?, cuda::event(EventFlags::CU_EVENT_DEFAULT)?))
            },
            |_, (part, stream, event)| {
                let (mut resource, mut id): (Resource, u64) = Default::default();
                let (resource, context) = (resource.as_mut_ptr(), cuda::current_context()?);
                join_errors([
                    driver!(cuGreenCtxGetDevResource(part, resource, MULTIPROCESSORS)),
                    driver!(cuCtxGetDevResource(context, resource, MULTIPROCESSORS)),
                    driver!(cuGreenCtxGetId(part, &raw mut id)),
                    driver!(cuGreenCtxRecordEvent(part, event)),
                    driver!(cuGreenCtxWaitEvent(part, event)),
                    found(|place| driver!(cuStreamGetGreenCtx(stream, place))),
                ])
            },
        ),
    ]
}

/// Makes a call that stores a handle, and drops it.
fn found(ask: impl FnOnce(*mut Handle) -> Done) -> Done {
    let mut handle = NULL;
    ask(&raw mut handle)
}

fn devices() -> Vec<Row> {
    vec![
        call("device_questions", |bench| {
            let device = bench.device();
            let (mut number, mut minor, mut bytes, mut mask) = (0_i32, 0_i32, 0_usize, 0_u32);
            let mut text = [0 as c_char; 256];
            let place = text.as_mut_ptr();
            let addition = 0_u32;
            join_errors([
                driver!(cuDeviceGet(&raw mut number, 0_i32)),
                driver!(cuDeviceGetCount(&raw mut number)),
                driver!(cuDeviceGetName(place, 256_i32, device)),
                driver!(cuDeviceGetUuid_v2(place, device)),
                driver!(cuDeviceTotalMem_v2(&raw mut bytes, device)),
                driver!(cuDeviceComputeCapability(&raw mut number, &raw mut minor, device)),
                driver!(cuDeviceGetProperties(place, device)),
                driver!(cuDeviceGetPCIBusId(place, 256_i32, device)),
                driver!(cuDeviceGetByPCIBusId(&raw mut number, place)),
                driver!(cuDeviceGetExecAffinitySupport(&raw mut number, 0_u32, device)),
                driver!(cuDeviceCanAccessPeer(&raw mut number, device, device)),
                driver!(cuDeviceGetHostAtomicCapabilities(&raw mut mask, &raw const addition, 1_u32, device)),
                driver!(cuDriverGetVersion(&raw mut number)),
            ])
        }),
        call("cuDeviceRegisterAsyncNotification", |bench| {
            unsafe extern "C" fn ignore(_: *mut c_void, _: *mut c_void, _: *mut c_void) {}
            let function: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) = ignore;
            let mut registered = NULL;
            driver!(cuDeviceRegisterAsyncNotification(bench.device(), function, NULL, &raw mut registered))?;
            driver!(cuDeviceUnregisterAsyncNotification(bench.device(), registered))
        }),
        call("cuFlushGPUDirectRDMAWrites", |_| driver!(cuFlushGPUDirectRDMAWrites(0_u32, 100_u32))),
    ]
}

fn tools() -> Vec<Row> {
    vec![
        call("cuProfilerStart", |_| driver!(cuProfilerStart())),
        call("cuProfilerStop", |_| driver!(cuProfilerStop())),
        call("cuTensorMapEncodeTiled", |_| tensor_map()),
        call("error_texts", |_| {
            let mut text = std::ptr::null::<c_char>();
            join_errors([
                driver!(cuGetErrorName(1_u32, &raw mut text)),
                driver!(cuGetErrorString(1_u32, &raw mut text)),
            ])
        }),
        call("coredump_attributes", |_| {
            const ON_EXCEPTION: u32 = 1;
            let (mut is_on, mut size) = ([0_u8; 8], 1_usize);
            let (place, size) = (is_on.as_mut_ptr(), &raw mut size);
            join_errors([
                driver!(cuCoredumpGetAttribute(ON_EXCEPTION, place, size)),
                driver!(cuCoredumpSetAttribute(ON_EXCEPTION, place, size)),
                driver!(cuCoredumpGetAttributeGlobal(ON_EXCEPTION, place, size)),
            ])
        }),
        call("logs", |_| {
            unsafe extern "C" fn ignore(_: *mut c_void, _: u32, _: *mut c_char, _: usize) {}
            let function: unsafe extern "C" fn(*mut c_void, u32, *mut c_char, usize) = ignore;
            let mut registered = NULL;
            driver!(cuLogsRegisterCallback(function, NULL, &raw mut registered))?;
            let (mut text, mut size, mut place) = ([0_u8; 1024], 1024_usize, 0_u32);
            join_errors([
                driver!(cuLogsCurrent(&raw mut place, 0_u32)),
                driver!(cuLogsDumpToMemory(NULL, text.as_mut_ptr(), &raw mut size, 0_u32)),
                driver!(cuLogsDumpToFile(NULL, c"/dev/null".as_ptr(), 0_u32)),
                driver!(cuLogsUnregisterCallback(registered)),
            ])
        }),
    ]
}

/// Encodes a matrix as a tensor map, which the host does without the device.
fn tensor_map() -> Done {
    #[repr(align(64))]
    struct Map([u64; 16]);
    const FLOATS: u32 = 7;
    let (mut map, memory) = (Map([0; 16]), cuda::alloc(cuda::MIB)?);
    let (sizes, strides, part, steps) = ([256_u64, 256], [1024_u64], [16_u32, 16], [1_u32, 1]);
    driver!(cuTensorMapEncodeTiled(
        map.0.as_mut_ptr(),
        FLOATS,
        2_u32,
        memory,
        sizes.as_ptr(),
        strides.as_ptr(),
        part.as_ptr(),
        steps.as_ptr(),
        0_u32,
        0_u32,
        0_u32,
        0_u32
    ))?;
    driver!(cuTensorMapReplaceAddress(map.0.as_mut_ptr(), memory))
}
