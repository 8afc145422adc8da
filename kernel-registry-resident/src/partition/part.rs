//! A part of a device, and its end.

use std::mem;
use std::sync::{Arc, Mutex};

use cudarc::driver::{CudaContext, CudaStream, sys};
use kernel_registry::__private_0_1::resident::{Driver, lock};
use kernel_registry::{DriverCallError, KernelInfo, LaunchConfig, LaunchError};

use crate::driver::{self, Green, GreenCalls, Multiprocessors};
use crate::sections::{PartId, Processors};

/// Some multiprocessors of a device: see [`Partition`](super::Partition).
///
/// A part that is dropped exists as long as its streams are used: by clones, by slices made in them, by unfinished work. After that, the
/// next drop of a part or split of a device destroys it. Neither waits for kernels.
#[derive(Debug)]
pub struct Part {
    context: Arc<CudaContext>,
    sms: u32,
    /// The number of the split that made it.
    split: u64,
    green: Arc<Green>,
    streams: Mutex<Vec<Arc<CudaStream>>>,
    /// A stream of the context, without which cudarc would not let streams wait for each other's work on a slice.
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

    /// Its multiprocessors.
    pub fn sms(&self) -> u32 {
        self.sms
    }

    pub(crate) fn processors(&self) -> Processors {
        let part = PartId { green: self.green.id(), split: self.split };
        Processors { device: self.context.ordinal(), part: Some(part), count: self.sms }
    }

    /// The context that was split. Kernels that are warm there are warm in the part.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// A new stream, whose kernels run only on the part's multiprocessors. It does not wait for other streams. One that has no users left
    /// and no work is destroyed by a later call.
    ///
    /// # Errors
    ///
    /// The driver cannot make it.
    pub fn stream(&self) -> Result<Arc<CudaStream>, DriverCallError> {
        let mut streams = lock(&self.streams);
        *streams = mem::take(&mut *streams).into_iter().filter_map(still_used).collect();
        // SAFETY: the lock lets one thread at a time make a stream.
        let stream = unsafe { self.green.new_stream() }?;
        // SAFETY: it is a stream of the context, and is destroyed when nothing else has it.
        let stream = unsafe { self.context.wrap_borrowed_stream(stream) };
        streams.push(stream.clone());
        Ok(stream)
    }

    /// How many blocks of a kernel can be in the part at once, if nothing else is there and they form no clusters. The
    /// driver's occupancy functions answer for one multiprocessor, or for all of the device.
    ///
    /// # Errors
    ///
    /// The kernel is not warm and could not be loaded late, or the driver refuses the configuration.
    pub fn blocks_at_once(
        &self,
        kernel: &'static KernelInfo,
        config: &LaunchConfig,
    ) -> Result<u32, LaunchError> {
        let function = kernel.cu_function(&self.context)?;
        // SAFETY: it is the kernel's function in this context.
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

/// What is left of a part that was dropped.
struct Ended {
    streams: Vec<Arc<CudaStream>>,
    _green: Arc<Green>,
    _tracking: Arc<CudaStream>,
}

static ENDED: Mutex<Vec<Ended>> = Mutex::new(Vec::new());

/// Destroys the streams of dropped parts that are no longer used, and the parts that have none left.
pub(super) fn reap() {
    // In a forked child the driver does not work.
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
    // Without the lock, because this may drop the last use of a context.
    drop::<Vec<Ended>>(gone);
}

/// Destroys a stream, unless it is used.
fn still_used(stream: Arc<CudaStream>) -> Option<Arc<CudaStream>> {
    let stream = match Arc::try_unwrap(stream) {
        Ok(stream) => stream,
        Err(shared) => return Some(shared),
    };
    // A stream that does not answer may have work.
    if !driver::is_done(&stream).unwrap_or(false) {
        return Some(Arc::new(stream));
    }
    // SAFETY: nothing else has it. A failure repeats an earlier one, which was reported.
    let _ = unsafe { sys::cuStreamDestroy_v2(stream.cu_stream()) };
    None
}
