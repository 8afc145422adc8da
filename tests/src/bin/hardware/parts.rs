//! Checks parts of the device: a resident kernel fills one part, and all other kernels run in the rest.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{CudaStream, sys};
use kernel_registry::{LaunchConfig, Warm};
use kernel_registry_resident::{Mapped, Part, Partition, PartitionError};
use kernels::waiting::{spin_until_flag, touch};

use crate::checked::Checked;
use crate::checks::ensure;
use crate::resident::{Resident, Status};
use crate::samples;

pub(crate) fn parts(warm: &Warm, _: Duration) -> Checked {
    let context = warm.context();
    let begun = Instant::now();
    let [small, rest] = match Partition::new(context).sms([8, Partition::REST]) {
        Err(error @ (PartitionError::TooOld { .. } | PartitionError::Unsupported { .. })) => {
            return Ok(format!("left out: {error}"));
        }
        parts => parts?,
    };
    let split = begun.elapsed();
    ensure(small.sms() >= 8, format!("8 multiprocessors were asked for, and {} are there", small.sms()))?;
    let whole = context.new_stream()?;
    let [stays, same_part, elsewhere] = [small.stream()?, small.stream()?, rest.stream()?];
    for (stream, sms) in [(&stays, Some(small.sms())), (&elsewhere, Some(rest.sms())), (&whole, None)] {
        ensure(Partition::sms_of(stream)? == sms, format!("a stream is not of {sms:?} multiprocessors"))?;
    }
    let slowest = in_the_rest(&small, stays.clone(), &elsewhere)?;
    waits_in_its_own_part(&small, stays.clone(), &same_part, &elsewhere, &whole)?;
    ends_while_a_kernel_runs(small, [stays, same_part])?;
    let (first, second) = (rest.sms(), "the parts are gone");
    drop((elsewhere, rest));
    // The parts are dropped here, because a later check resets the device, which the driver refuses while it
    // has parts.
    let [all] = Partition::new(context).sms([1])?;
    drop(all);
    Ok(format!(
        "split in {split:.1?}; {} kernels in {first} multiprocessors next to 8 full ones, the slowest {} with {:.1?}; {second}",
        samples::ALL.len(),
        slowest.1,
        slowest.0
    ))
}

/// Launches a resident kernel with as many blocks as the part has room for.
fn fill(part: &Part, stream: Arc<CudaStream>) -> Result<Resident, Box<dyn Error>> {
    let config = LaunchConfig::new([1, 1, 1], [1024, 1, 1]);
    let most = part.blocks_at_once(spin_until_flag::INFO, &config)?;
    Resident::on(stream, config.grid(most), Duration::from_secs(20))
}

/// Launches every kernel in the rest while a resident kernel fills the small part. Returns the slowest
/// launch.
fn in_the_rest(
    small: &Part,
    stays: Arc<CudaStream>,
    elsewhere: &Arc<CudaStream>,
) -> Result<(Duration, &'static str), Box<dyn Error>> {
    let resident = fill(small, stays)?;
    let mut slowest = (Duration::ZERO, "");
    for (name, launch) in samples::ALL {
        let begun = Instant::now();
        launch(elsewhere).map_err(|error| format!("{name}: {error}"))?;
        slowest = slowest.max((begun.elapsed(), name));
        ensure(resident.status() == Status::Spinning, format!("{name} waited for the other part"))?;
    }
    ensure(resident.release()? == Status::Released, "the resident kernel gave up")?;
    Ok(slowest)
}

/// Checks that a kernel in the full part waits, and that kernels elsewhere don't.
fn waits_in_its_own_part(
    small: &Part,
    stays: Arc<CudaStream>,
    same_part: &CudaStream,
    elsewhere: &CudaStream,
    whole: &CudaStream,
) -> Result<(), Box<dyn Error>> {
    let resident = fill(small, stays)?;
    ensure(runs(elsewhere)?, "a kernel in the other part waits")?;
    ensure(runs(whole)?, "a kernel that can use the whole device waits")?;
    ensure(!runs(same_part)?, "a kernel runs in a part that is full")?;
    ensure(resident.release()? == Status::Released, "the resident kernel gave up")?;
    Ok(same_part.synchronize()?)
}

/// Returns whether a small kernel in a stream finishes within a fifth of a second, or two seconds on the
/// slower simulated device.
fn runs(stream: &CudaStream) -> Result<bool, Box<dyn Error>> {
    // Never freed, because a kernel that waits writes to it later.
    let out = Box::leak(Box::new(Mapped::<AtomicU32>::zeroed(stream.context(), 1)?));
    // SAFETY: the kernel adds one to a word.
    unsafe { touch::launch(stream, touch::over(1), &*out)? };
    let window = Duration::from_millis(if crate::checked::is_simulated() { 2_000 } else { 200 });
    let begun = Instant::now();
    while begun.elapsed() < window {
        // SAFETY: the stream exists.
        if unsafe { sys::cuStreamQuery(stream.cu_stream()) } == sys::CUresult::CUDA_SUCCESS {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(false)
}

/// Drops a part and its streams while a kernel runs there. Checks that this neither waits for the kernel nor
/// ends it.
fn ends_while_a_kernel_runs(
    part: Part,
    [stays, same_part]: [Arc<CudaStream>; 2],
) -> Result<(), Box<dyn Error>> {
    let resident = fill(&part, stays)?;
    let begun = Instant::now();
    drop((part, same_part));
    ensure(begun.elapsed() < Duration::from_secs(5), "dropping the part waited for its kernel")?;
    ensure(resident.status() == Status::Spinning, "the kernel ended with its part")?;
    ensure(resident.release()? == Status::Released, "the resident kernel gave up")
}
