//! Makes the driver calls of these tests: calls that would wait for a resident kernel, and calls that would not.

use super::*;

/// The objects for calls that would wait. Each call is tried with the name that the record has for it.
pub(super) struct Waiting {
    pub(super) cold: sys::CUfunction,
    pub(super) kernel: sys::CUfunction,
    pub(super) module: sys::CUmodule,
    pub(super) memory: sys::CUdeviceptr,
    pub(super) pinned: *mut c_void,
    pub(super) registered: *mut c_void,
    pub(super) other: sys::CUcontext,
    pub(super) event: sys::CUevent,
}

impl Waiting {
    pub(super) fn new() -> Result<Self, Box<dyn Error>> {
        let (mut current, mut other, mut module) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let mut event = ptr::null_mut();
        let registered = Box::leak(vec![0_u64; 1024].into_boxed_slice()).as_mut_ptr().cast();
        // SAFETY: a context is current, the code ends with a zero byte, and the memory is never freed.
        unsafe {
            sys::cuCtxGetCurrent(&mut current).result()?;
            own::<CreateContext>(c"cuCtxCreate")(&mut other, 0, 0).result()?;
            sys::cuCtxSetCurrent(current).result()?;
            sys::cuModuleLoadData(&mut module, CODE.as_ptr().cast()).result()?;
            sys::cuMemHostRegister_v2(registered, 8192, 0).result()?;
            sys::cuEventCreate(&mut event, 0).result()?;
        }
        let [cold, kernel] = [cold(c"late")?, cold(c"later")?];
        let (memory, pinned) = (device(4096)?, host(4096)?);
        Ok(Waiting { cold, kernel, module, memory, pinned, registered, other, event })
    }

    /// Makes the calls that no mode defers.
    pub(super) fn try_refused(
        &self,
        resident: &CudaStream,
        stream: &CudaStream,
    ) -> Vec<(&'static str, CUresult)> {
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        let stack = sys::CUlimit::CU_LIMIT_STACK_SIZE;
        // SAFETY: the handles are valid, and the code ends with a zero byte.
        unsafe {
            assert_eq!(sys::cuEventRecord(self.event, resident.cu_stream()), DONE);
            vec![
                ("cuLaunchKernel", launch(self.cold, stream)),
                ("cuKernelGetFunction", sys::cuKernelGetFunction(&mut function, self.kernel.cast())),
                ("cuModuleLoadData", sys::cuModuleLoadData(&mut module, CODE.as_ptr().cast())),
                ("cuCtxSetLimit", sys::cuCtxSetLimit(stack, 16_384)),
                ("cuMemHostUnregister", sys::cuMemHostUnregister(self.registered)),
                ("cuCtxDestroy_v2", sys::cuCtxDestroy_v2(self.other)),
                ("cuDevicePrimaryCtxReset_v2", sys::cuDevicePrimaryCtxReset_v2(0)),
                ("cuCtxSynchronize", sys::cuCtxSynchronize()),
                ("cuStreamSynchronize", sys::cuStreamSynchronize(resident.cu_stream())),
                ("cuEventSynchronize", sys::cuEventSynchronize(self.event)),
                ("cuLaunchKernel", launch(self.cold, resident)),
            ]
        }
    }

    /// Makes the calls that the mode `DEFER` defers.
    pub(super) fn try_deferred(&self) -> Vec<(&'static str, CUresult)> {
        // SAFETY: the handles are valid.
        unsafe {
            vec![
                ("cuMemFree_v2", free(self.memory)),
                ("cuMemFreeHost", sys::cuMemFreeHost(self.pinned)),
                ("cuModuleUnload", sys::cuModuleUnload(self.module)),
            ]
        }
    }
}

/// Makes calls that wait for nothing.
pub(super) fn try_harmless(context: &Arc<CudaContext>, stream: &Arc<CudaStream>) -> Outcome {
    let x = stream.alloc_zeros::<u32>(1)?;
    touch_on(stream, &x)?;
    stream.synchronize()?;
    context.default_stream().synchronize()?;
    let memory = device(4096)?;
    let (mut pooled, mut primary, mut event) = (0, ptr::null_mut(), ptr::null_mut());
    let mut library = ptr::null_mut();
    let heap = sys::CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE;
    let (none, values) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: a context is current, and all handles are valid.
    unsafe {
        sys::cuMemAllocAsync(&mut pooled, 4096, stream.cu_stream()).result()?;
        stream.synchronize()?;
        sys::cuMemFree_v2(pooled).result()?;
        assert!(!is_there(pooled));
        sys::cuMemFreeAsync(memory, stream.cu_stream()).result()?;
        sys::cuDevicePrimaryCtxRetain(&mut primary, 0).result()?;
        sys::cuDevicePrimaryCtxRelease_v2(0).result()?;
        sys::cuCtxSetLimit(heap, 1 << 20).result()?;
        sys::cuEventCreate(&mut event, 0).result()?;
        sys::cuEventRecord(event, stream.cu_stream()).result()?;
        sys::cuEventSynchronize(event).result()?;
        let code = CODE.as_ptr().cast();
        sys::cuLibraryLoadData(&mut library, code, none, values, 0, ptr::null_mut(), values, 0).result()?;
        // The driver itself refuses an address that it did not allocate.
        assert_eq!(free(0), DONE);
        assert_eq!(free(8), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    Ok(())
}
