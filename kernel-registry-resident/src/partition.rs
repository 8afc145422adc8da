//! Splits a device's multiprocessors into parts, so that a resident kernel leaves room for others.

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

/// Splits the multiprocessors (SMs) of a device into [parts](Part), whose streams run kernels only there. A resident
/// kernel in one part leaves the other parts free, even if it fills its own.
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
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A part is a green context of the driver. Only its multiprocessors and streams are its own:
///
/// - A kernel that is warm in the context is warm in every part. Memory, events and limits are the context's.
/// - Only streams of [`Part::stream`] belong to a part. Others use the whole device, also those that
///   `stream.context().new_stream()` and `stream.fork()` make.
///
/// It needs a driver of CUDA 12.4 or newer. While there are parts, the driver does not reset the device.
///
/// # What it does not promise
///
/// - Calls that wait for the device still wait for kernels in every part: loading, `cuMemFree`, a larger stack,
///   synchronizing the context. So warm kernels first, and split before a resident kernel starts, because splitting waits too.
/// - Memory, its bandwidth, the L2 cache and copy engines are shared.
/// - Parts of two splits overlap. So do a part and the streams that use the whole device: a kernel there that fills every
///   multiprocessor keeps those of a part busy.
/// - According to NVIDIA's documentation, kernels in parts may have to wait for each other for other reasons, such as the
///   number of hardware queues (`CUDA_DEVICE_MAX_CONNECTIONS`). On sm_90 they may use 2 more multiprocessors, which parts share,
///   once a module is loaded whose kernels launch others.
/// - cudarc's occupancy functions answer for the whole device. [`Part::blocks_at_once`] answers for a part.
#[derive(Clone, Debug)]
pub struct Partition {
    context: Arc<CudaContext>,
}

impl Partition {
    /// In the place of a size: all multiprocessors that are left.
    pub const REST: u32 = sizes::REST;

    /// The device of a context, which must be its primary one: see [`context`](kernel_registry::context).
    pub fn new(context: &Arc<CudaContext>) -> Self {
        Partition { context: context.clone() }
    }

    /// Splits the device into a part for each size. The driver rounds sizes up, on sm_90 to multiples of 8:
    /// [`Part::sms`] is the real one. [`REST`](Self::REST) stands for what is left.
    ///
    /// It waits until nothing runs on the device, or for the [timeout](kernel_registry::Warmup::timeout) of the context's warm-ups.
    ///
    /// # Errors
    ///
    /// The driver or the device cannot do it, the sizes are too large, or the device is busy.
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

    /// The multiprocessors that kernels in a stream can use, if it belongs to a part. Otherwise they can use all.
    ///
    /// # Errors
    ///
    /// The driver does not answer.
    pub fn sms_of(stream: &CudaStream) -> Result<Option<u32>, PartitionError> {
        Ok(find_part(stream, Driver::get()?)?.map(|(_, part)| part.count()))
    }

    /// Makes the parts in a separate thread, because that waits for the device.
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
            // Until the parts are there, so that no resident kernel comes in between.
            let _making = making;
            // cudarc lets streams wait for each other's work on a slice only while it has a stream of its own making.
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

/// The part that a stream belongs to, if it belongs to one.
pub(crate) fn find_part(
    stream: &CudaStream,
    driver: &Driver,
) -> Result<Option<(GreenId, Multiprocessors)>, DriverCallError> {
    let Some(calls) = GreenCalls::look_up(driver)? else { return Ok(None) };
    // The handle of the default stream stands for that of the current context.
    bind(stream.context())?;
    calls.query_stream(stream)
}

/// Divides a device's multiprocessors: for each size the driver's groups that make it up.
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
    // All groups of a split have one size: the largest of which all parts are multiples.
    let unit = fixed.clone().fold(0, |unit, size| gcd(unit, size.next_multiple_of(alignment)));
    let unit = unit.min(has);
    let (first, _) = calls.split(all, 1, unit)?;
    // The driver rounds it up.
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
