//! Wraps green contexts, which are parts of a device's multiprocessors with streams whose kernels only run
//! there.
//!
//! Except for its streams, a green context is the device's primary context: modules, functions, limits and
//! memory are the same. This library makes a green context current only to create a stream. If a green
//! context is destroyed while it's current, the thread's next driver call ends the process.

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::{CudaStream, sys};
use kernel_registry::__private_0_1::resident::{Driver, call, lock, lookup, version};
use kernel_registry::{CudaVersion, DriverCallError};

/// The driver's functions for green contexts. cudarc only has them in its bindings for CUDA 12.4 and newer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GreenCalls {
    of_device: unsafe extern "C" fn(sys::CUdevice, *mut Multiprocessors, c_uint) -> sys::CUresult,
    split: Split,
    describe: unsafe extern "C" fn(*mut Handle, *mut Multiprocessors, c_uint) -> sys::CUresult,
    create: unsafe extern "C" fn(*mut Handle, Handle, sys::CUdevice, c_uint) -> sys::CUresult,
    destroy: unsafe extern "C" fn(Handle) -> sys::CUresult,
    context_of: unsafe extern "C" fn(*mut sys::CUcontext, Handle) -> sys::CUresult,
    of_stream: unsafe extern "C" fn(sys::CUstream, *mut Handle) -> sys::CUresult,
    of_green: unsafe extern "C" fn(Handle, *mut Multiprocessors, c_uint) -> sys::CUresult,
}

type Split = unsafe extern "C" fn(
    *mut Multiprocessors,
    *mut c_uint,
    *const Multiprocessors,
    *mut Multiprocessors,
    c_uint,
    c_uint,
) -> sys::CUresult;

/// A `CUgreenCtx` or a `CUdevResourceDesc`, which are both pointers.
type Handle = *mut c_void;

/// `CU_DEV_RESOURCE_TYPE_SM`, the resource type of multiprocessors.
const SM: c_uint = 1;

/// `CU_GREEN_CTX_DEFAULT_STREAM`, a flag that the driver requires.
const DEFAULT_STREAM: c_uint = 1;

/// A `CUdevResource` of multiprocessors. Only the driver writes it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Multiprocessors([u32; 36]);

impl Multiprocessors {
    const NONE: Self = Multiprocessors([0; 36]);

    /// Returns the number of multiprocessors.
    pub(crate) fn count(&self) -> u32 {
        self.0[24]
    }

    /// Returns the alignment, which divides the size of each part. Drivers before CUDA 13.0 don't report it,
    /// so it's 1 for them.
    pub(crate) fn alignment(&self, driver: CudaVersion) -> u32 {
        if driver >= CudaVersion::new(13, 0) { self.0[26].max(1) } else { 1 }
    }
}

impl GreenCalls {
    /// Looks up the functions. `None` for drivers before CUDA 12.4, which don't have them.
    pub(crate) fn look_up(driver: &Driver) -> Result<Option<Self>, DriverCallError> {
        /// Looks up a function whose type hasn't changed since CUDA 12.4.
        macro_rules! found {
            ($name:literal) => {
                // SAFETY: the field's type is that of the function.
                match unsafe { lookup($name, CudaVersion::new(12, 4), version(driver)) }? {
                    Some(function) => function,
                    None => return Ok(None),
                }
            };
        }
        Ok(Some(GreenCalls {
            of_device: found!(c"cuDeviceGetDevResource"),
            split: found!(c"cuDevSmResourceSplitByCount"),
            describe: found!(c"cuDevResourceGenerateDesc"),
            create: found!(c"cuGreenCtxCreate"),
            destroy: found!(c"cuGreenCtxDestroy"),
            context_of: found!(c"cuCtxFromGreenCtx"),
            of_stream: found!(c"cuStreamGetGreenCtx"),
            of_green: found!(c"cuGreenCtxGetDevResource"),
        }))
    }

    /// Returns all multiprocessors of a device.
    pub(crate) fn query_device(&self, device: sys::CUdevice) -> Result<Multiprocessors, DriverCallError> {
        let mut all = Multiprocessors::NONE;
        // SAFETY: there is room for the result.
        call("cuDeviceGetDevResource", unsafe { (self.of_device)(device, &mut all, SM) })?;
        Ok(all)
    }

    /// Splits multiprocessors into up to `groups` groups of the same size, which is at least `size`. Returns
    /// the groups and the rest.
    pub(crate) fn split(
        &self,
        all: &Multiprocessors,
        groups: usize,
        size: u32,
    ) -> Result<(Vec<Multiprocessors>, Multiprocessors), DriverCallError> {
        let mut found = vec![Multiprocessors::NONE; groups];
        let (mut count, mut rest) = (groups as c_uint, Multiprocessors::NONE);
        // SAFETY: `found` has room for `groups` groups; the driver has written `all`.
        let split = unsafe { (self.split)(found.as_mut_ptr(), &mut count, all, &mut rest, 0, size) };
        call("cuDevSmResourceSplitByCount", split)?;
        found.truncate(count as usize);
        Ok((found, rest))
    }

    /// Creates a green context from groups of one split. Waits until nothing runs on the device.
    pub(crate) fn create(
        &self,
        device: sys::CUdevice,
        mut groups: Vec<Multiprocessors>,
    ) -> Result<Green, DriverCallError> {
        let (mut description, mut handle) = (ptr::null_mut(), ptr::null_mut());
        let count = groups.len() as c_uint;
        // SAFETY: the driver has written the groups.
        let described = unsafe { (self.describe)(&mut description, groups.as_mut_ptr(), count) };
        call("cuDevResourceGenerateDesc", described)?;
        // SAFETY: the description is of this device.
        let created = unsafe { (self.create)(&mut handle, description, device, DEFAULT_STREAM) };
        call("cuGreenCtxCreate", created)?;
        Ok(Green { handle, id: GreenId::made(handle), calls: *self })
    }

    /// Returns the green context of a stream, with its multiprocessors. `None` if the stream has none.
    pub(crate) fn query_stream(
        &self,
        stream: &CudaStream,
    ) -> Result<Option<(GreenId, Multiprocessors)>, DriverCallError> {
        let mut green = ptr::null_mut();
        // SAFETY: the stream exists, and there is room for the result.
        call("cuStreamGetGreenCtx", unsafe { (self.of_stream)(stream.cu_stream(), &mut green) })?;
        if green.is_null() {
            return Ok(None);
        }
        let mut found = Multiprocessors::NONE;
        // SAFETY: the green context exists as long as its stream.
        call("cuGreenCtxGetDevResource", unsafe { (self.of_green)(green, &mut found, SM) })?;
        Ok(Some((GreenId::find(green), found)))
    }
}

/// Distinguishes the green contexts of this library. Addresses don't: a new green context can get the address
/// of a destroyed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GreenId(u64);

/// The addresses and ids of green contexts that this library has created and not yet destroyed.
static LIVE: Mutex<Vec<(usize, GreenId)>> = Mutex::new(Vec::new());

impl GreenId {
    /// The shared id of all green contexts created by other code.
    const FOREIGN: GreenId = GreenId(0);

    fn made(handle: Handle) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = GreenId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        lock(&LIVE).push((handle.addr(), id));
        id
    }

    fn find(handle: Handle) -> Self {
        let live = lock(&LIVE);
        live.iter().find(|(address, _)| *address == handle.addr()).map_or(GreenId::FOREIGN, |(_, id)| *id)
    }

    #[cfg(test)]
    pub(crate) fn for_tests(number: u64) -> Self {
        GreenId(number)
    }
}

/// A green context.
#[derive(Debug)]
pub(crate) struct Green {
    handle: Handle,
    id: GreenId,
    calls: GreenCalls,
}

// SAFETY: the driver's handles may be used from any thread, and only one thread at a time makes a green
// context current: see `new_stream`.
unsafe impl Send for Green {}
// SAFETY: as above.
unsafe impl Sync for Green {}

impl Green {
    pub(crate) fn id(&self) -> GreenId {
        self.id
    }

    /// Creates a stream that does not wait for other streams, not even for the default stream.
    ///
    /// # Safety
    ///
    /// No other thread calls this for the same green context at the same time.
    pub(crate) unsafe fn new_stream(&self) -> Result<sys::CUstream, DriverCallError> {
        let (mut context, mut stream) = (ptr::null_mut(), ptr::null_mut());
        const FLAGS: u32 = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the green context exists until `self` is dropped. The context is current only in this
        // thread, until it is popped.
        unsafe {
            call("cuCtxFromGreenCtx", (self.calls.context_of)(&mut context, self.handle))?;
            call("cuCtxPushCurrent", sys::cuCtxPushCurrent_v2(context))?;
            let created = sys::cuStreamCreate(&mut stream, FLAGS);
            call("cuCtxPopCurrent", sys::cuCtxPopCurrent_v2(&mut context))?;
            call("cuStreamCreate", created)?;
        }
        Ok(stream)
    }
}

impl Drop for Green {
    fn drop(&mut self) {
        lock(&LIVE).retain(|(_, id)| *id != self.id);
        // The driver doesn't work in a forked child.
        if Driver::get().is_ok() {
            // SAFETY: the green context has no other owner, and is not current. A failure cannot be reported.
            let _ = unsafe { (self.calls.destroy)(self.handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_green_context_at_an_old_address_has_another_id() {
        let handle: Handle = ptr::without_provenance_mut(0x1000);
        let first = GreenId::made(handle);
        assert_eq!(GreenId::find(handle), first);
        lock(&LIVE).retain(|(_, id)| *id != first);
        assert_eq!(GreenId::find(handle), GreenId::FOREIGN);
        let second = GreenId::made(handle);
        assert!(second != first && GreenId::find(handle) == second);
    }
}
