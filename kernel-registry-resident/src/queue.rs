//! Defines `Queue`, which passes values from the host to the blocks of a resident kernel.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{CUcontext, CUdeviceptr};
use kernel_registry::__private_0_1::resident::{SealedPointer as Sealed, layout};
use kernel_registry::{DriverUnavailable, KernelParam, PointerTo, PointerToMut};

use crate::control::{Control, Ended, Presence, poll};
use crate::mapped::Memory;

/// A queue in mapped host memory: the host pushes values, and blocks of a kernel take the values. Kernels see
/// the queue as a `kernel_registry::Queue<T>` of the [device header](crate::DEVICE_HEADER).
///
/// Each block has a lane in the queue, and takes the values of this lane in order. The host pushes a value
/// into the lane with the fewest unfinished values. It has to choose the lane, because without atomic
/// operations across the bus, blocks couldn't agree who takes a value.
///
/// `T` is the same struct as in CUDA, with `#[derive(KernelParam)]`. If the sizes of both structs differ, the
/// kernel ends as [`Ended::OtherType`].
///
/// ```no_run
/// # mod demo {
/// # use kernel_registry::gpu_kernel;
/// use kernel_registry::KernelParam;
/// use kernel_registry_resident::{Control, Queue};
///
/// #[derive(Clone, Copy, KernelParam)]
/// #[repr(C)]
/// pub struct Task {
///     pub x: *const f32,
///     pub n: u32,
/// }
///
/// // __global__ void consumer(kernel_registry::Control* control, kernel_registry::Queue<Task>* queue)
/// #[gpu_kernel(image = "tests/images/resident.ptx")]
/// pub unsafe fn consumer(control: *mut Control, queue: *mut Queue<Task>);
/// # }
/// # use demo::{Task, consumer};
/// use std::time::Duration;
/// # use kernel_registry_resident::{Control, Queue};
///
/// # fn main() -> Result<(), kernel_registry::MainError> {
/// # let context = kernel_registry::context(0)?;
/// # let stream = context.new_stream()?;
/// let (control, mut queue) = (Control::new(&context, 132)?, Queue::<Task>::for_blocks(&context, 132, 2)?);
/// control.limit(Duration::from_secs(60));
/// // SAFETY: dropping control block and queue waits for the kernel.
/// unsafe { consumer::launch(&stream, consumer::config(132).block(128), &control, &queue)? };
/// let first = queue.push(Task { x: std::ptr::null(), n: 0 })?;
/// queue.push(Task { x: std::ptr::null(), n: 0 })?;
/// queue.wait_for(first, &control, Duration::from_secs(1))?;
/// queue.wait(&control, Duration::from_secs(1))?;
/// control.stop();
/// # Ok(())
/// # }
/// ```
///
/// After [`Control::stop`] the kernel still processes the values that were pushed before. If its grid has
/// another number of blocks than the queue was made for, it ends as [`Ended::OtherLanes`].
pub struct Queue<T> {
    memory: Memory,
    lanes: u32,
    /// The number of slots in a lane.
    per_block: u32,
    pushed: u64,
    /// The lane that is preferred for the next value (round robin).
    next: u32,
    /// The queue copies values of this type, but owns none.
    values: PhantomData<fn(T)>,
}

/// The layout of `Queue` in the device header. The lanes follow, and then their slots.
#[repr(C, align(64))]
struct Words {
    lanes: AtomicU32,
    capacity: AtomicU32,
    size: AtomicU32,
}

/// The layout of `Lane` in the device header.
#[repr(C, align(64))]
struct Lane {
    pushed: AtomicU64,
    done: Line<AtomicU64>,
}

/// A value in a separate cache line, so that words with different writers don't share one.
#[repr(C, align(64))]
struct Line<T>(T);

/// Identifies a value that was pushed into a queue, for [`Queue::is_done`] of that queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Pushed {
    /// The lane's number: the position of the lane's block in the grid, unless the kernel chooses lanes
    /// itself.
    pub lane: u32,
    /// How many values were pushed into this lane so far, including this value.
    pub count: u64,
}

/// The error for a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueFull {
    /// How many values the queue can hold, in all lanes.
    pub capacity: u64,
}

/// The error for a queue with unfinished values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueUnfinished {
    /// How many values are done.
    pub done: u64,
    /// How many values were pushed.
    pub pushed: u64,
    /// Why the kernel has ended, if it has. Then the other values will never be done.
    pub ended: Option<Ended>,
}

impl<T: KernelParam> Queue<T> {
    /// Creates a queue for one block, with room for `capacity` values, but at least one. Creating it doesn't
    /// wait for running kernels. Dropping it does, except for resident kernels in a
    /// [`Section`](crate::Section): then the memory is freed later.
    ///
    /// # Errors
    ///
    /// The driver is unusable, or has no mapped memory left.
    pub fn new(context: &Arc<CudaContext>, capacity: u32) -> Result<Self, DriverUnavailable> {
        Self::for_blocks(context, 1, capacity)
    }

    /// Creates a queue for a grid of `blocks` blocks, with room for `per_block` values for each. With two, a
    /// block finds its next value as soon as it's done with one. With more, the host can push in bursts, but
    /// a value stays in its block's lane even if other blocks are idle.
    ///
    /// A value waits until its block is on the device: see [`Control::wait_for_blocks`].
    ///
    /// # Errors
    ///
    /// The same errors as [`new`](Self::new).
    pub fn for_blocks(
        context: &Arc<CudaContext>,
        blocks: u32,
        per_block: u32,
    ) -> Result<Self, DriverUnavailable> {
        const { assert!(align_of::<T>() <= 64, "the slots are aligned to 64 bytes") };
        let (lanes, per_block) = (blocks.max(1), per_block.max(1));
        let lane = (per_block as usize).saturating_mul(size_of::<T>()).saturating_add(size_of::<Lane>());
        let bytes = (lanes as usize).saturating_mul(lane).saturating_add(size_of::<Words>());
        let memory = Memory::zeroed(context, bytes)?;
        let queue = Queue { memory, lanes, per_block, pushed: 0, next: 0, values: PhantomData };
        // SAFETY: the memory begins with these words, and was zeroed.
        let words: &Words = unsafe { &*queue.memory.at(0) };
        words.lanes.store(lanes, Ordering::Relaxed);
        words.capacity.store(per_block, Ordering::Relaxed);
        words.size.store(layout::<T>()[0], Ordering::Relaxed);
        Ok(queue)
    }

    /// Adds a value.
    ///
    /// # Errors
    ///
    /// Fails with [`QueueFull`] if no lane has room: as many values are unfinished as the queue can hold.
    pub fn push(&mut self, value: T) -> Result<Pushed, QueueFull> {
        let (lane, unfinished) = self.emptiest();
        if unfinished >= u64::from(self.per_block) {
            return Err(QueueFull { capacity: u64::from(self.lanes) * u64::from(self.per_block) });
        }
        let pushed = &self.lane(lane).pushed;
        let before = pushed.load(Ordering::Relaxed);
        let slot = (before % u64::from(self.per_block)) as usize;
        // SAFETY: the slot is in the memory, and aligned. The device has done the slot's former value, and
        // does not read the new value before `pushed` counts it.
        unsafe { self.slots(lane).wrapping_add(slot).write_volatile(value) };
        pushed.store(before + 1, Ordering::Release);
        self.pushed += 1;
        self.next = (lane + 1) % self.lanes;
        Ok(Pushed { lane, count: before + 1 })
    }

    /// Returns the lane with the fewest unfinished values, and their number. Of equal lanes, it's the first
    /// one from `next` on.
    fn emptiest(&self) -> (u32, u64) {
        let (mut emptiest, mut fewest) = (self.next, u64::MAX);
        for lane in (self.next..self.lanes).chain(0..self.next) {
            let unfinished = self.lane(lane).unfinished();
            if unfinished < fewest {
                (emptiest, fewest) = (lane, unfinished);
            }
            if unfinished == 0 {
                break;
            }
        }
        (emptiest, fewest)
    }

    /// Returns whether a value is done. Then the host can read the results that the kernel has written for
    /// it.
    ///
    /// # Panics
    ///
    /// Panics if the value was pushed into another queue with more lanes. (For a value of another queue, the
    /// result is meaningless.)
    pub fn is_done(&self, value: Pushed) -> bool {
        let Pushed { lane, count } = value;
        assert!(lane < self.lanes, "there is no lane {lane} among {}", self.lanes);
        self.lane(lane).done.0.load(Ordering::Acquire) >= count
    }

    /// Returns how many values were pushed so far.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Returns how many values are done, in all lanes. The host can read the results that the kernel has
    /// written for them.
    pub fn done(&self) -> u64 {
        (0..self.lanes).map(|lane| self.lane(lane).done.0.load(Ordering::Acquire)).sum()
    }

    /// Returns how many values can be pushed now.
    pub fn room(&self) -> u64 {
        let per_block = u64::from(self.per_block);
        (0..self.lanes).map(|lane| per_block.saturating_sub(self.lane(lane).unfinished())).sum()
    }

    /// Waits until all values are done, but no longer than `limit`, and not beyond the end of the kernel that
    /// uses this control block.
    ///
    /// # Errors
    ///
    /// Fails with [`QueueUnfinished`] if some values aren't done by then.
    pub fn wait(&self, control: &Control, limit: Duration) -> Result<(), QueueUnfinished> {
        self.wait_until(control, limit, || self.done() == self.pushed)
    }

    /// Waits until one value is done, as [`wait`](Self::wait) does for all.
    ///
    /// # Errors
    ///
    /// Fails with [`QueueUnfinished`] if the value isn't done by then.
    ///
    /// # Panics
    ///
    /// Panics if the value was pushed into another queue: see [`is_done`](Self::is_done).
    pub fn wait_for(&self, value: Pushed, control: &Control, limit: Duration) -> Result<(), QueueUnfinished> {
        self.wait_until(control, limit, || self.is_done(value))
    }

    fn wait_until(
        &self,
        control: &Control,
        limit: Duration,
        is_done: impl Fn() -> bool,
    ) -> Result<(), QueueUnfinished> {
        let mut ended = None;
        poll(limit, || {
            if is_done() {
                return true;
            }
            if let Presence::Ended(why) = control.presence() {
                ended = Some(why);
            }
            ended.is_some()
        });
        let done = self.done();
        // Asked once more, because the kernel may have done the last value just before its end.
        if is_done() { Ok(()) } else { Err(QueueUnfinished { done, pushed: self.pushed, ended }) }
    }

    fn lane(&self, lane: u32) -> &Lane {
        debug_assert!(lane < self.lanes);
        // SAFETY: the lanes follow `Words` in the memory. The memory was zeroed, and exists as long as
        // `self`, unless the program resets the context, by an `unsafe` call. The device accesses aligned
        // words as a whole.
        unsafe { &*self.memory.at(size_of::<Words>() + lane as usize * size_of::<Lane>()) }
    }

    /// Returns the address of a lane's first slot.
    fn slots(&self, lane: u32) -> *mut T {
        let lanes = size_of::<Words>() + self.lanes as usize * size_of::<Lane>();
        self.memory.at(lanes + lane as usize * self.per_block as usize * size_of::<T>())
    }
}

impl Lane {
    fn unfinished(&self) -> u64 {
        // `Relaxed` is enough for `pushed`, because only the host writes it.
        self.pushed.load(Ordering::Relaxed).saturating_sub(self.done.0.load(Ordering::Acquire))
    }
}

impl<T> Sealed for &Queue<T> {
    #[inline]
    fn owner(&self) -> CUcontext {
        self.memory.owner()
    }
}

#[diagnostic::do_not_recommend]
impl<T: KernelParam> PointerTo<Queue<T>> for &Queue<T> {
    #[inline]
    fn address(self) -> CUdeviceptr {
        self.memory.address()
    }
}

#[diagnostic::do_not_recommend]
impl<T: KernelParam> PointerToMut<Queue<T>> for &Queue<T> {}

impl<T: KernelParam> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("lanes", &self.lanes)
            .field("per_block", &self.per_block)
            .field("pushed", &self.pushed)
            .field("done", &self.done())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the queue is full: {} values are unfinished; push again when the kernel has done some",
            self.capacity
        )
    }
}

impl fmt::Display for QueueUnfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QueueUnfinished { done, pushed, ended } = self;
        write!(f, "{done} of {pushed} values are done")?;
        match ended {
            Some(ended) => write!(f, ", and the kernel has ended: {ended}"),
            None => f.write_str(", and the time to wait for them is over; `Control::arrived` says which blocks are not on the device"),
        }
    }
}

impl Error for QueueFull {}
impl Error for QueueUnfinished {}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn words_have_the_offsets_of_the_device_header() {
        assert_eq!([offset_of!(Words, capacity), offset_of!(Words, size), size_of::<Words>()], [4, 8, 64]);
        assert_eq!([offset_of!(Lane, done), size_of::<Lane>()], [64, 128]);
    }

    #[test]
    fn errors_say_what_to_do() {
        let ended = QueueUnfinished { done: 3, pushed: 4, ended: Some(Ended::Limit) };
        assert_eq!(ended.to_string(), "3 of 4 values are done, and the kernel has ended: its time was over");
        assert!(
            QueueFull { capacity: 4 }.to_string().starts_with("the queue is full: 4 values are unfinished; ")
        );
    }
}
