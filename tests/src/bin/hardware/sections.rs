//! Checks resident kernels: a kernel that should fit does, nothing in kernel-registry waits while it runs,
//! and it ends.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::sys::CUdevice_attribute;
use kernel_registry::cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};
use kernel_registry::{Warm, warm_all};
use kernel_registry_resident::{
    Mapped, Part, Partition, PartitionError, Queue, Resident, ResidentError, Section,
};
use kernels::blas1::saxpy;
use kernels::waiting::{Task, stay_together, touch, worker};

use crate::checked::Checked;
use crate::checks::ensure;

/// Returns the time after which a resident kernel ends by itself. The simulated device is slow, so it gets
/// more.
fn limit() -> Duration {
    Duration::from_secs(if crate::checked::is_simulated() { 60 } else { 2 })
}

/// The dynamic shared memory of a block, which is large so that few blocks and threads fill a multiprocessor.
const SHARED: u32 = 48 << 10;

fn resident(blocks: u32) -> Resident<stay_together> {
    Resident::new(stay_together::config(blocks).block(32).shared(SHARED)).limit(limit()).carveout(100)
}

fn launch(
    resident: Resident<stay_together>,
    warm: &Warm,
    stream: &Arc<CudaStream>,
) -> Result<Section, Box<dyn Error>> {
    // SAFETY: the section keeps its control block.
    let section = resident.check(warm)?.launch(stream, |launch| unsafe {
        stay_together::launch(stream, launch, launch.control(), limit().as_nanos() as u64)
    })?;
    section.wait_for_blocks(limit() / 4)?;
    Ok(section)
}

/// Returns how many blocks there is room for, and checks that one more is refused.
fn room(warm: &Warm, part: Option<&Part>) -> Result<u32, Box<dyn Error>> {
    let most =
        |blocks| part.iter().fold(resident(blocks), |resident, part| resident.within(part)).check(warm);
    match most(1 << 20) {
        Err(ResidentError::GridTooLarge { capacity, .. }) => Ok(u32::try_from(capacity)?),
        Err(error) => Err(error.into()),
        Ok(_) => Err("a million blocks have room".into()),
    }
}

pub(crate) fn sections(warm: &Warm, _: Duration) -> Checked {
    let context = warm.context();
    let (stays, other, passes) = (context.new_stream()?, context.new_stream()?, context.new_stream()?);
    let begun = Instant::now();
    // The kernel takes a quarter of the room, to leave enough for large kernels.
    let blocks = room(warm, None)? / 4;
    let section = launch(resident(blocks).beside_all(), warm, &stays)?;

    // Checks that a kernel that fits runs, that a call that would wait is refused, and that dropped memory is
    // freed later.
    let out = Mapped::<AtomicU32>::zeroed(context, 1)?;
    // SAFETY: the word is freed only when no resident kernel runs any more.
    let add = |stream: &Arc<CudaStream>| unsafe { touch::launch(stream, touch::over(1), &out) };
    add(&passes)?;
    passes.synchronize()?;
    ensure(out[0].load(Ordering::Acquire) == 1, "another kernel did not run")?;
    let error = add(&stays).expect_err("it would wait");
    warm_all(context)?;
    for _ in 0..100 {
        drop(Mapped::<AtomicU32>::zeroed(context, 1)?);
    }
    ensure(section.is_running(), "the kernel has ended, so something waited")?;

    // A second resident kernel takes exactly the room that should be left.
    let left = room(warm, None)?;
    let second = launch(resident(left), warm, &other)?;
    ensure(section.is_running() && room(warm, None)? == 0, "both do not stay")?;
    second.stop()?;
    section.stop()?;
    let took = begun.elapsed();
    ensure(took < limit(), "something waited for a kernel")?;
    let part = in_a_part(warm)?;
    Ok(format!(
        "{blocks} blocks stay, then {left} next to them, in {took:.1?}; {part}; {}; {error}",
        check_time(warm)?
    ))
}

/// Checks that a resident kernel that fills its part leaves the rest of the device to another kernel.
fn in_a_part(warm: &Warm) -> Checked {
    let [small, rest] = match Partition::new(warm.context()).sms([8, Partition::REST]) {
        Ok(parts) => parts,
        Err(PartitionError::TooOld { .. }) => return Ok("no parts: the driver is too old".into()),
        Err(error) => return Err(error.into()),
    };
    let (few, many) = (room(warm, Some(&small))?, room(warm, Some(&rest))?);
    let first = launch(resident(few).within(&small), warm, &small.stream()?)?;
    let second = launch(resident(many).within(&rest), warm, &rest.stream()?)?;
    ensure(first.is_running() && second.is_running(), "both do not stay")?;
    second.stop()?;
    first.stop()?;
    Ok(format!("parts are filled by {few} and {many}"))
}

/// Checks that one block, and then a block on each multiprocessor, take tasks from a queue.
pub(crate) fn workers(warm: &Warm, _: Duration) -> Checked {
    let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    let all = warm.context().attribute(attribute)?.unsigned_abs();
    Ok(format!("{}; {}", workers_of(warm, 1)?, workers_of(warm, all)?))
}

fn workers_of(warm: &Warm, blocks: u32) -> Checked {
    let tasks: u32 = if crate::checked::is_simulated() { 500 } else { 100_000 };
    let (stays, copies) = (warm.context().new_stream()?, warm.context().new_stream()?);
    let x = copies.clone_htod(&vec![1.0_f32; tasks as usize])?;
    let mut y = copies.clone_htod(&vec![0.0_f32; tasks as usize])?;
    let (x_at, y_at) = (x.device_ptr(&copies).0 as *const f32, y.device_ptr_mut(&copies).0 as *mut f32);
    copies.synchronize()?;

    let mut queue = Queue::for_blocks(warm.context(), blocks, 2)?;
    let resident = Resident::<worker>::new(worker::config(blocks).block(32)).limit(limit()).check(warm)?;
    // SAFETY: the vectors outlive the kernel, and the queue is freed only when no resident kernel runs any
    // more.
    let section = resident
        .launch(&stays, |launch| unsafe { worker::launch(&stays, launch, launch.control(), &queue) })?;
    section.wait_for_blocks(limit() / 4)?;

    let begun = Instant::now();
    let mut of_each = vec![0_u32; blocks as usize];
    for place in 0..tasks as usize {
        // Each task has a separate element, because blocks run at the same time.
        let (x, y) = (x_at.wrapping_add(place), y_at.wrapping_add(place));
        let task = Task { x, y, a: 1.0 + place as f32, n: 1 };
        let pushed = loop {
            match queue.push(task) {
                Ok(pushed) => break pushed,
                Err(full) => ensure(begun.elapsed() < limit(), full.to_string())?,
            }
        };
        of_each[pushed.lane as usize] += 1;
    }
    queue.wait(section.control(), limit())?;
    let took = begun.elapsed();
    section.stop()?;
    let wrong = copies
        .clone_dtoh(&y)?
        .iter()
        .zip(0..)
        .filter(|&(y, place): &(_, u32)| *y != 1.0 + place as f32)
        .count();
    ensure(wrong == 0, format!("{wrong} of {tasks} tasks have wrong results"))?;
    let (least, most) = (of_each.iter().min().unwrap_or(&0), of_each.iter().max().unwrap_or(&0));
    Ok(format!("{tasks} tasks for {blocks} blocks, {least} to {most} each, one every {:.1?}", took / tasks))
}

/// Checks that the check before a section takes at most a millisecond with 100 other kernels.
fn check_time(warm: &Warm) -> Checked {
    let check = || -> Result<Duration, Box<dyn Error>> {
        let beside = |resident: Resident<_>, n| resident.beside(saxpy::INFO, saxpy::over(n));
        let begun = Instant::now();
        let checked = (0..100).fold(resident(1), beside).check(warm)?;
        let took = begun.elapsed();
        ensure(checked.fit().beside.len() == 100, "not all were checked")?;
        Ok(took)
    };
    let mut times = (0..51).map(|_| check()).collect::<Result<Vec<_>, _>>()?;
    times.sort_unstable();
    let bound = Duration::from_millis(if crate::checked::is_simulated() { 20 } else { 1 });
    ensure(times[25] < bound, format!("a check takes {:?}", times[25]))?;
    Ok(format!("a check of 100 kernels takes {:.0?}", times[25]))
}
