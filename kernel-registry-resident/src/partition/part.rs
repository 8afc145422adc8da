//! Defines `Part`, some multiprocessors of a device, and the destruction of parts and their streams.

use std::mem;
use std::sync::{Arc, Mutex};

use cudarc::driver::{CudaContext, CudaStream, sys};
use kernel_registry::__private_0_1::resident::{Driver, lock};
use kernel_registry::{DriverCallError, KernelInfo, LaunchConfig, LaunchError};

use crate::driver::{self, Green, GreenCalls, Multiprocessors};
use crate::sections::{PartId, Processors};

/// Some multiprocessors of a device: see [`Partition`](super::Partition).
///
/// A dropped part still exists as long as its streams are used: by clones, by slices that were allocated in
/// them, or by unfinished work. After that, it's destroyed when the next part is dropped, or when a device is
/// split. Dropping a part doesn't wait for kernels.
#[derive(Debug)]
pub struct Part {
    context: Arc<CudaContext>,
    sms: u32,
    /// The number of the split that created the part.
    split: u64,
    green: Arc<Green>,
    streams: Mutex<Vec<Arc<CudaStream>>>,
    /// A stream created by cudarc. Without it, cudarc wouldn't make streams wait for each other's work on a
    /// slice.
    tracking: Arc<CudaStream>,
}

impl Part {
    pub(super) fn new(
        context: &Arc<CudaContext>,
        calls: &GreenCalls,
        share: Vec<Multiprocessors>,
        split: u64,
        tracking: &Arc<CudaStream>,
    ) -> Result<Self, DriverCallError> {
        Ok(Part {
            context: context.clone(),
            split,
            sms: share.iter().map(Multiprocessors::count).sum(),
            green: Arc::new(calls.create(context.cu_device(), share)?),
            streams: Mutex::default(),
            tracking: tracking.clone(),
        })
    }

    /// Returns the number of multiprocessors.
    pub fn sms(&self) -> u32 {
        self.sms
    }

    pub(crate) fn processors(&self) -> Processors {
        let part = PartId { green: self.green.id(), split: self.split };
        Processors { device: self.context.ordinal(), part: Some(part), count: self.sms }
    }

    /// Returns the context that was split. Kernels that are warm in the context are warm in the part.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Creates a stream whose kernels only run on the part's multiprocessors. The stream doesn't wait for
    /// other streams. A later call destroys streams that have neither users nor work.
    ///
    /// # Errors
    ///
    /// Fails if the driver can't create the stream.
    pub fn stream(&self) -> Result<Arc<CudaStream>, DriverCallError> {
        let mut streams = lock(&self.streams);
        *streams = mem::take(&mut *streams).into_iter().filter_map(still_used).collect();
        // SAFETY: the lock lets only one thread at a time create a stream.
        let stream = unsafe { self.green.new_stream() }?;
        // SAFETY: the stream belongs to the context, and `still_used` destroys it only when nothing else
        // refers to it.
        let stream = unsafe { self.context.wrap_borrowed_stream(stream) };
        streams.push(stream.clone());
        Ok(stream)
    }

    /// Returns how many blocks of a kernel can run in the part at once, if nothing else runs there and the
    /// blocks don't form clusters. The driver's occupancy functions only know one multiprocessor, or the
    /// whole device.
    ///
    /// # Errors
    ///
    /// Fails if the kernel isn't warm and couldn't be loaded late, or if the driver refuses the
    /// configuration.
    pub fn blocks_at_once(
        &self,
        kernel: &'static KernelInfo,
        config: &LaunchConfig,
    ) -> Result<u32, LaunchError> {
        let function = kernel.cu_function(&self.context)?;
        // SAFETY: `function` is the kernel's handle in this context.
        let on_each = unsafe { driver::blocks_on_each(&self.context, function, config) };
        on_each.map(|blocks| blocks * self.sms).map_err(|error| LaunchError::Driver { kernel, error })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let streams = mem::take(&mut *lock(&self.streams));
        let ended = Ended { streams, _green: self.green.clone(), _tracking: self.tracking.clone() };
        lock(&ENDED).push(ended);
        reap();
    }
}

/// A dropped part that waits until its streams are no longer used.
struct Ended {
    streams: Vec<Arc<CudaStream>>,
    _green: Arc<Green>,
    _tracking: Arc<CudaStream>,
}

static ENDED: Mutex<Vec<Ended>> = Mutex::new(Vec::new());

/// Destroys unused streams of dropped parts, and the dropped parts without a stream.
pub(super) fn reap() {
    // The driver doesn't work in a forked child.
    if Driver::get().is_err() {
        return;
    }
    let mut all = lock(&ENDED);
    for ended in all.iter_mut() {
        ended.streams = mem::take(&mut ended.streams).into_iter().filter_map(still_used).collect();
    }
    let (gone, left) = mem::take(&mut *all).into_iter().partition(|ended| ended.streams.is_empty());
    *all = left;
    drop(all);
    // Dropped after the lock, because dropping a part may drop a context.
    drop::<Vec<Ended>>(gone);
}

/// Destroys a stream, or returns it if it's still used.
fn still_used(stream: Arc<CudaStream>) -> Option<Arc<CudaStream>> {
    let stream = match Arc::try_unwrap(stream) {
        Ok(stream) => stream,
        Err(shared) => return Some(shared),
    };
    // If the driver returns an error, the stream may still have work.
    if !driver::is_done(&stream).unwrap_or(false) {
        return Some(Arc::new(stream));
    }
    // SAFETY: nothing else refers to the stream. A failure repeats an earlier failure, which was reported.
    let _ = unsafe { sys::cuStreamDestroy_v2(stream.cu_stream()) };
    None
}
