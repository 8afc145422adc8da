//! Driver calls for device and host memory.

use std::ffi::c_void;

use kernel_registry::cudarc::driver::sys;

use super::{Done, Failed, call, current_context, get, lookup, zero};

pub(crate) const MIB: usize = 1 << 20;

pub(crate) fn alloc(bytes: usize) -> Done<sys::CUdeviceptr> {
    // SAFETY: there is a current context.
    get("cuMemAlloc", |memory| unsafe { sys::cuMemAlloc_v2(memory, bytes) })
}

pub(crate) fn free(memory: sys::CUdeviceptr) -> Done {
    // SAFETY: the memory came from `alloc`, and is not used afterwards.
    call("cuMemFree", unsafe { sys::cuMemFree_v2(memory) })
}

pub(crate) fn alloc_managed(bytes: usize) -> Done<sys::CUdeviceptr> {
    const GLOBAL: u32 = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
    // SAFETY: there is a current context.
    get("cuMemAllocManaged", |memory| unsafe { sys::cuMemAllocManaged(memory, bytes, GLOBAL) })
}

/// Allocates memory from the device's pool, in stream order.
pub(crate) fn alloc_async(bytes: usize, stream: sys::CUstream) -> Done<sys::CUdeviceptr> {
    // SAFETY: the stream is one of the current context.
    get("cuMemAllocAsync", |memory| unsafe { sys::cuMemAllocAsync(memory, bytes, stream) })
}

pub(crate) fn free_async(memory: sys::CUdeviceptr, stream: sys::CUstream) -> Done {
    // SAFETY: the memory came from `alloc_async`, and is not used afterwards.
    call("cuMemFreeAsync", unsafe { sys::cuMemFreeAsync(memory, stream) })
}

/// Returns a device's memory as a location in the driver's structures: a kind and the device's number. Plain
/// numbers, because the names of cudarc's fields depend on the CUDA version.
const fn location(device: sys::CUdevice) -> [i32; 2] {
    [sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE as i32, device]
}

/// Returns the properties of a pool of a device's pinned memory.
pub(crate) fn pool_properties(device: sys::CUdevice) -> sys::CUmemPoolProps {
    let mut properties: sys::CUmemPoolProps = zero();
    properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    // SAFETY: a location is two numbers.
    unsafe { (&raw mut properties.location).cast::<[i32; 2]>().write(location(device)) };
    properties
}

pub(crate) fn new_pool(device: sys::CUdevice) -> Done<sys::CUmemoryPool> {
    let properties = pool_properties(device);
    // SAFETY: all properties are set.
    get("cuMemPoolCreate", |pool| unsafe { sys::cuMemPoolCreate(pool, &properties) })
}

pub(crate) fn destroy_pool(pool: sys::CUmemoryPool) -> Done {
    // SAFETY: nothing is allocated from the pool.
    call("cuMemPoolDestroy", unsafe { sys::cuMemPoolDestroy(pool) })
}

/// Frees the device's unused memory of graphs.
pub(crate) fn trim_graphs(device: sys::CUdevice) -> Done {
    // SAFETY: the device is one of the driver's.
    call("cuDeviceGraphMemTrim", unsafe { sys::cuDeviceGraphMemTrim(device) })
}

/// Frees unused memory of the device's pool.
pub(crate) fn trim_pool(device: sys::CUdevice) -> Done {
    // SAFETY: the device is one of the driver's.
    let pool =
        get("cuDeviceGetDefaultMemPool", |pool| unsafe { sys::cuDeviceGetDefaultMemPool(pool, device) })?;
    // SAFETY: the pool belongs to the device.
    call("cuMemPoolTrimTo", unsafe { sys::cuMemPoolTrimTo(pool, 0) })
}

/// Allocates page-locked memory, which the device can access.
pub(crate) fn alloc_host(bytes: usize) -> Done<*mut c_void> {
    // SAFETY: there is a current context.
    get("cuMemHostAlloc", |memory| unsafe {
        sys::cuMemHostAlloc(memory, bytes, sys::CU_MEMHOSTALLOC_DEVICEMAP)
    })
}

/// Returns the device address of page-locked memory.
pub(crate) fn device_address(memory: *mut c_void) -> Done<sys::CUdeviceptr> {
    // SAFETY: the memory came from `alloc_host`.
    get("cuMemHostGetDevicePointer", |address| unsafe {
        sys::cuMemHostGetDevicePointer_v2(address, memory, 0)
    })
}

pub(crate) fn free_host(memory: *mut c_void) -> Done {
    // SAFETY: the memory came from `alloc_host`, and is not used afterwards.
    call("cuMemFreeHost", unsafe { sys::cuMemFreeHost(memory) })
}

/// Registers memory that lives as long as the process, which locks its pages.
pub(crate) fn register(memory: &'static mut [u8]) -> Done<*mut c_void> {
    let (address, bytes) = (memory.as_mut_ptr().cast(), memory.len());
    // SAFETY: the memory lives as long as the process.
    call("cuMemHostRegister", unsafe { sys::cuMemHostRegister_v2(address, bytes, 0) })?;
    Ok(address)
}

pub(crate) fn unregister(memory: *mut c_void) -> Done {
    // SAFETY: the memory was registered.
    call("cuMemHostUnregister", unsafe { sys::cuMemHostUnregister(memory) })
}

/// Allocates ordinary host memory that lives as long as the process, and begins on a new page.
pub(crate) fn pageable(bytes: usize) -> &'static mut [u8] {
    const PAGE: usize = 4096;
    let memory = vec![0_u8; bytes + PAGE].leak();
    let start = memory.as_ptr().align_offset(PAGE);
    &mut memory[start..start + bytes]
}

pub(crate) fn set_async(memory: sys::CUdeviceptr, bytes: usize, stream: sys::CUstream) -> Done {
    // SAFETY: the memory has that many bytes.
    call("cuMemsetD32Async", unsafe { sys::cuMemsetD32Async(memory, 1, bytes / 4, stream) })
}

/// Fills memory, without a stream.
pub(crate) fn set(memory: sys::CUdeviceptr, bytes: usize) -> Done {
    // SAFETY: the memory has that many bytes.
    call("cuMemsetD32", unsafe { sys::cuMemsetD32_v2(memory, 1, bytes / 4) })
}

/// Marks managed memory as mostly read.
pub(crate) fn advise(memory: sys::CUdeviceptr, bytes: usize, device: sys::CUdevice) -> Done {
    type Advise = unsafe extern "C" fn(sys::CUdeviceptr, usize, u32, sys::CUdevice) -> sys::CUresult;
    const READ_MOSTLY: u32 = 1;
    // SAFETY: this is the type of the function that CUDA 8.0 to 12.9 have under this name, and later drivers
    // too.
    let advise = unsafe { lookup::<Advise>(c"cuMemAdvise", 8_000) };
    let advise = advise.ok_or(Failed("CUDA_ERROR_NOT_FOUND of cuMemAdvise".into()))?;
    // SAFETY: the memory is managed, and has that many bytes.
    call("cuMemAdvise", unsafe { advise(memory, bytes, READ_MOSTLY, device) })
}

/// Moves managed memory to a device.
pub(crate) fn prefetch(
    memory: sys::CUdeviceptr,
    bytes: usize,
    device: sys::CUdevice,
    stream: sys::CUstream,
) -> Done {
    type Prefetch =
        unsafe extern "C" fn(sys::CUdeviceptr, usize, sys::CUdevice, sys::CUstream) -> sys::CUresult;
    // SAFETY: this is the type of the function that CUDA 8.0 to 12.9 have under this name, and later drivers
    // too.
    let prefetch = unsafe { lookup::<Prefetch>(c"cuMemPrefetchAsync", 8_000) };
    let prefetch = prefetch.ok_or(Failed("CUDA_ERROR_NOT_FOUND of cuMemPrefetchAsync".into()))?;
    // SAFETY: the memory is managed, and has that many bytes.
    call("cuMemPrefetchAsync", unsafe { prefetch(memory, bytes, device, stream) })
}

/// Returns the context that an address belongs to.
pub(crate) fn context_of(memory: sys::CUdeviceptr) -> Done<sys::CUcontext> {
    const CONTEXT: sys::CUpointer_attribute = sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_CONTEXT;
    // SAFETY: the value of this attribute is a context handle.
    get("cuPointerGetAttribute", |context: *mut sys::CUcontext| unsafe {
        sys::cuPointerGetAttribute(context.cast(), CONTEXT, memory)
    })
}

pub(crate) fn copy_async(
    to: sys::CUdeviceptr,
    from: sys::CUdeviceptr,
    bytes: usize,
    stream: sys::CUstream,
) -> Done {
    // SAFETY: both have that many bytes.
    call("cuMemcpyDtoDAsync", unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream) })
}

/// Copies on the device, without a stream.
pub(crate) fn copy(to: sys::CUdeviceptr, from: sys::CUdeviceptr, bytes: usize) -> Done {
    // SAFETY: both have that many bytes.
    call("cuMemcpyDtoD", unsafe { sys::cuMemcpyDtoD_v2(to, from, bytes) })
}

/// Copies from the current context to itself, with the function that copies between contexts.
pub(crate) fn copy_peer_async(
    to: sys::CUdeviceptr,
    from: sys::CUdeviceptr,
    bytes: usize,
    stream: sys::CUstream,
) -> Done {
    let context = current_context()?;
    // SAFETY: both have that many bytes.
    let copy = unsafe { sys::cuMemcpyPeerAsync(to, context, from, context, bytes, stream) };
    call("cuMemcpyPeerAsync", copy)
}

pub(crate) fn download_async(
    to: *mut c_void,
    from: sys::CUdeviceptr,
    bytes: usize,
    stream: sys::CUstream,
) -> Done {
    // SAFETY: both have that many bytes, and stay for as long as the process.
    call("cuMemcpyDtoHAsync", unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, bytes, stream) })
}

pub(crate) fn upload_async(
    to: sys::CUdeviceptr,
    from: *const c_void,
    bytes: usize,
    stream: sys::CUstream,
) -> Done {
    // SAFETY: both have that many bytes, and stay for as long as the process.
    call("cuMemcpyHtoDAsync", unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes, stream) })
}

pub(crate) fn upload(to: sys::CUdeviceptr, from: &[u8]) -> Done {
    // SAFETY: callers allocated that many bytes.
    call("cuMemcpyHtoD", unsafe { sys::cuMemcpyHtoD_v2(to, from.as_ptr().cast(), from.len()) })
}

pub(crate) fn download(to: &mut [u8], from: sys::CUdeviceptr) -> Done {
    // SAFETY: callers allocated that many bytes.
    call("cuMemcpyDtoH", unsafe { sys::cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), from, to.len()) })
}

/// Returns the number of free bytes of device memory.
pub(crate) fn free_memory() -> Done<usize> {
    let mut total = 0;
    // SAFETY: there is a current context.
    get("cuMemGetInfo", |free| unsafe { sys::cuMemGetInfo_v2(free, &mut total) })
}

/// The unit of virtual memory, in bytes.
pub(crate) const MAPPED: usize = 2 * MIB;

/// Returns the properties of device memory to map.
pub(crate) fn pinned(device: sys::CUdevice) -> sys::CUmemAllocationProp {
    let mut properties: sys::CUmemAllocationProp = zero();
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    // SAFETY: a location is two numbers.
    unsafe { (&raw mut properties.location).cast::<[i32; 2]>().write(location(device)) };
    properties
}

/// Returns the properties of device memory to map as a tile of an array.
pub(crate) fn pinned_tile(device: sys::CUdevice) -> sys::CUmemAllocationProp {
    const USAGE_TILE: u16 = 1;
    let mut properties = pinned(device);
    properties.allocFlags.usage = USAGE_TILE;
    properties
}

/// Returns the properties of device memory to map, and to export as a file descriptor.
pub(crate) fn shareable(device: sys::CUdevice) -> sys::CUmemAllocationProp {
    let mut properties = pinned(device);
    properties.requestedHandleTypes =
        sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties
}

/// Reserves an address range and maps memory there.
pub(crate) fn map(device: sys::CUdevice) -> Done<sys::CUdeviceptr> {
    let properties = pinned(device);
    let mut access: sys::CUmemAccessDesc = zero();
    access.location = properties.location;
    access.flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    // SAFETY: the size is a multiple of the device's granularity, and each call uses the results of earlier
    // ones.
    unsafe {
        let memory = get("cuMemCreate", |memory| sys::cuMemCreate(memory, MAPPED, &properties, 0))?;
        let address =
            get("cuMemAddressReserve", |address| sys::cuMemAddressReserve(address, MAPPED, 0, 0, 0))?;
        call("cuMemMap", sys::cuMemMap(address, MAPPED, 0, memory, 0))?;
        call("cuMemSetAccess", sys::cuMemSetAccess(address, MAPPED, &access, 1))?;
        Ok(address)
    }
}

pub(crate) fn unmap(address: sys::CUdeviceptr) -> Done {
    // SAFETY: the address came from `map`.
    call("cuMemUnmap", unsafe { sys::cuMemUnmap(address, MAPPED) })
}
