//! Splits a device's multiprocessors into parts, so that a resident kernel leaves multiprocessors for other
//! kernels.

mod error;
mod part;
mod sizes;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::{CudaContext, CudaStream, sys};
use kernel_registry::__private_0_1::resident::{
    ContextId, Driver, Family, Loading, Unfinished, bind, driver_error, loading, version, watched,
};
use kernel_registry::DriverCallError;
use kernel_registry_cuda::rules;

use crate::driver::{GreenCalls, GreenId, Multiprocessors};

pub use error::PartitionError;
pub use part::Part;

/// Splits the multiprocessors (SMs) of a device into [parts](Part). Kernels in the streams of a part only run
/// on its multiprocessors. A resident kernel in one part leaves the other parts free, even if it fills its
/// own.
///
/// ```no_run
/// use kernel_registry::warm_all;
/// use kernel_registry_resident::Partition;
///
/// let context = kernel_registry::context(0)?;
/// let warm = warm_all(&context)?;
/// let [small, rest] = Partition::new(&context).sms([8, Partition::REST])?;
/// println!("{} multiprocessors for the resident kernel, {} for others", small.sms(), rest.sms());
///
/// let (residents, others) = (small.stream()?, rest.stream()?);
/// # Ok::<(), kernel_registry::MainError>(())
/// ```
///
/// A part is a green context of the driver. It has its own multiprocessors and streams, and shares everything
/// else:
///
/// - A kernel that is warm in the context is warm in every part. Memory, events and limits are those of the
///   context.
/// - Only streams of [`Part::stream`] belong to a part. All others use the whole device, including those of
///   `stream.context().new_stream()` and `stream.fork()`.
///
/// Splitting needs a driver of CUDA 12.4 or newer. While parts exist, the driver does not reset the device.
///
/// # What parts do not promise
///
/// - Calls that wait for the device still wait for kernels in every part: loading, `cuMemFree`, a larger
///   stack, synchronizing the context. Splitting waits too. So warm kernels first, and split before a
///   resident kernel starts.
/// - Memory, its bandwidth, the L2 cache and copy engines are shared.
/// - Parts of two splits overlap. A part also overlaps with streams that use the whole device: if a kernel in
///   such a stream fills every multiprocessor, the part's are busy too.
/// - According to NVIDIA's documentation, kernels in different parts may have to wait for each other for
///   other reasons, such as the number of hardware queues (`CUDA_DEVICE_MAX_CONNECTIONS`). On sm_90, if a
///   module is loaded whose kernels launch kernels, kernels in every part may use 2 more multiprocessors,
///   which all parts share.
/// - cudarc's occupancy functions are about the whole device. [`Part::blocks_at_once`] is about a part.
#[derive(Clone, Debug)]
pub struct Partition {
    context: Arc<CudaContext>,
}

impl Partition {
    /// A size that means all multiprocessors that are left.
    pub const REST: u32 = sizes::REST;

    /// Creates the partition of a context's device. The context must be the device's primary context:
    /// [`context`](kernel_registry::context).
    pub fn new(context: &Arc<CudaContext>) -> Self {
        Partition { context: context.clone() }
    }

    /// Splits the device into parts, one for each size. The driver rounds sizes up, on sm_90 to multiples of
    /// 8: [`Part::sms`] returns the actual size. [`REST`](Self::REST) means all multiprocessors that are
    /// left.
    ///
    /// Waits until nothing runs on the device, but no longer than the
    /// [timeout](kernel_registry::Warmup::timeout) of the context's warm-ups.
    ///
    /// # Errors
    ///
    /// Fails if the driver or the device can't be split, the sizes are too large, or the device is busy.
    pub fn sms<const N: usize>(&self, sizes: [u32; N]) -> Result<[Part; N], PartitionError> {
        part::reap();
        let driver = Driver::get()?;
        let calls = GreenCalls::look_up(driver)?.ok_or(PartitionError::TooOld { driver: version(driver) })?;
        if !self.context.is_primary() {
            return Err(PartitionError::NotPrimary);
        }
        let device = self.context.cu_device();
        let unsupported = |error: DriverCallError| {
            let is_it = error.code == sys::CUresult::CUDA_ERROR_NOT_SUPPORTED as u32;
            if is_it { PartitionError::Unsupported { device: self.context.ordinal() } } else { error.into() }
        };
        let all = calls.query_device(device).map_err(unsupported)?;
        let shares = shares(&calls, &all, all.alignment(version(driver)), &sizes)?;
        let within = Family::new(&self.context, ContextId::query(&self.context)?);
        let making = loading(within, "cuGreenCtxCreate", &rules::CONTEXT);
        let parts = self.make(calls, shares, making.map_err(PartitionError::WouldWait)?)?;
        // There is a part for each size.
        <[Part; N]>::try_from(parts).map_err(|_| PartitionError::Sizes { sizes: sizes.to_vec() })
    }

    /// Returns how many multiprocessors the kernels of a stream can use, if it belongs to a part. `None`
    /// means all.
    ///
    /// # Errors
    ///
    /// Fails if a driver call does.
    pub fn sms_of(stream: &CudaStream) -> Result<Option<u32>, PartitionError> {
        Ok(find_part(stream, Driver::get()?)?.map(|(_, part)| part.count()))
    }

    /// Creates the parts in a separate thread, because that waits for the device.
    fn make(
        &self,
        calls: GreenCalls,
        shares: Vec<Vec<Multiprocessors>>,
        making: Loading,
    ) -> Result<Vec<Part>, PartitionError> {
        static SPLITS: AtomicU64 = AtomicU64::new(0);
        let split = SPLITS.fetch_add(1, Ordering::Relaxed);
        let context = self.context.clone();
        let make = move || {
            // `_making` is held until the parts exist, so that no resident kernel starts before that.
            let _making = making;
            // cudarc makes streams wait for each other's work on a slice only while a stream exists that
            // cudarc itself created.
            let tracking = context.new_stream();
            let tracking = tracking.map_err(|error| driver_error("CudaContext::new_stream", error.0))?;
            let shares = shares.into_iter();
            let parts = shares.map(|share| Part::new(&context, &calls, share, split, &tracking));
            parts.collect::<Result<_, _>>()
        };
        let made = watched(ContextId::query(&self.context)?, "cuGreenCtxCreate", make);
        let made: Result<_, DriverCallError> = made.map_err(|error| match error {
            Unfinished::Waiting(timeout) => PartitionError::Waiting { timeout },
            Unfinished::NoThread(reason) => PartitionError::NoThread { reason },
        })?;
        Ok(made?)
    }
}

/// Returns the part that a stream belongs to, if any.
pub(crate) fn find_part(
    stream: &CudaStream,
    driver: &Driver,
) -> Result<Option<(GreenId, Multiprocessors)>, DriverCallError> {
    let Some(calls) = GreenCalls::look_up(driver)? else { return Ok(None) };
    // The handle of the default stream refers to the current context, so the stream's context must be
    // current.
    bind(stream.context())?;
    calls.query_stream(stream)
}

/// Divides a device's multiprocessors. Returns the driver's groups that make up each part, one list for each
/// size.
fn shares(
    calls: &GreenCalls,
    all: &Multiprocessors,
    alignment: u32,
    sizes: &[u32],
) -> Result<Vec<Vec<Multiprocessors>>, PartitionError> {
    let fixed = sizes.iter().filter(|size| **size != Partition::REST);
    let has_rest = fixed.clone().count() < sizes.len();
    if sizes.contains(&0) || fixed.clone().count() == 0 || fixed.clone().count() + 1 < sizes.len() {
        return Err(PartitionError::Sizes { sizes: sizes.to_vec() });
    }
    let (has, asked) = (all.count(), fixed.clone().fold(0, |sum: u32, size| sum.saturating_add(*size)));
    let too_few = |group, groups| PartitionError::TooFew { sizes: sizes.to_vec(), group, groups, has };
    if asked > has {
        return Err(too_few(alignment, has / alignment));
    }
    // All groups of a split have the same size. It's the greatest common divisor of the parts' sizes, so that
    // each part is a whole number of groups.
    let unit = fixed.clone().fold(0, |unit, size| gcd(unit, size.next_multiple_of(alignment)));
    let unit = unit.min(has);
    let (first, _) = calls.split(all, 1, unit)?;
    // The driver rounds the size of a group up.
    let group = first.first().map_or(0, Multiprocessors::count).max(unit);
    let needed = |size: u32| size.div_ceil(group) as usize;
    let (groups, rest) = calls.split(all, fixed.map(|size| needed(*size)).sum(), group)?;
    let count = groups.len() as u32;
    let mut groups = groups.into_iter();
    let shares = sizes.iter().map(|size| match *size {
        Partition::REST => vec![rest],
        size => groups.by_ref().take(needed(size)).collect(),
    });
    let shares: Vec<Vec<_>> = shares.collect();
    let is_whole = |(share, size): (&Vec<_>, &u32)| *size == Partition::REST || share.len() == needed(*size);
    if shares.iter().zip(sizes).all(is_whole) && !(has_rest && rest.count() == 0) {
        Ok(shares)
    } else {
        Err(too_few(group, count))
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
