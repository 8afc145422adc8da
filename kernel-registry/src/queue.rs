//! A queue of values from the host to one block of a kernel that stays.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use cudarc::driver::CudaContext;
use cudarc::driver::sys::CUdeviceptr;

use crate::address::Sealed;
use crate::control::{Ended, Presence, poll};
use crate::mapped::Memory;
use crate::{Control, DriverUnavailable, KernelParam, PointerTo, PointerToMut};

/// A queue in mapped host memory: the host pushes values, and one block takes them in their order.
/// `kernel_registry::Queue<T>` of the [device header](crate::DEVICE_HEADER).
///
/// `T` is the same struct as in CUDA, with `#[derive(KernelParam)]`. If their sizes differ, the kernel ends, as
/// [`Ended::OtherType`].
///
/// ```no_run
/// # mod demo {
/// # use kernel_registry::gpu_kernel;
/// use kernel_registry::{Control, KernelParam, Queue};
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
/// # use kernel_registry::{Control, Queue};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let context = kernel_registry::context(0)?;
/// # let stream = context.new_stream()?;
/// let (control, mut queue) = (Control::new(&context, 1)?, Queue::<Task>::new(&context, 64)?);
/// control.limit(Duration::from_secs(60));
/// // SAFETY: dropping control block and queue waits for the kernel.
/// unsafe { consumer::launch(&stream, consumer::config(1).block(128), &control, &queue)? };
/// queue.push(Task { x: std::ptr::null(), n: 0 })?;
/// queue.wait(&control, Duration::from_secs(1))?;
/// control.stop();
/// # Ok(())
/// # }
/// ```
///
/// A kernel that is stopped first does what was pushed before. One block alone may take values from a queue: a grid of
/// workers has a queue for each.
pub struct Queue<T> {
    memory: Memory,
    capacity: u32,
    pushed: u64,
    /// Values go in, and do not come out again.
    values: PhantomData<fn(T)>,
}

/// `Queue` of the device header.
#[repr(C, align(64))]
struct Words {
    pushed: AtomicU64,
    capacity: AtomicU32,
    size: AtomicU32,
    done: Line<AtomicU64>,
}

/// A line of the cache: words of different writers lie apart.
#[repr(C, align(64))]
struct Line<T>(T);

/// The queue has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// How many values it holds.
    pub capacity: u32,
}

/// Not all values of a queue are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// How many values are done.
    pub done: u64,
    /// How many were pushed.
    pub pushed: u64,
    /// Why they will not be done, if the kernel has ended.
    pub ended: Option<Ended>,
}

impl<T: KernelParam> Queue<T> {
    /// Makes a queue with room for this many values, and for one at least. This does not wait for kernels that run. Dropping
    /// the queue does, but for those in a [`Section`](crate::Section): then it is freed later.
    ///
    /// # Errors
    ///
    /// The driver is unusable, or has no mapped memory left.
    pub fn new(context: &Arc<CudaContext>, capacity: u32) -> Result<Self, DriverUnavailable> {
        const { assert!(align_of::<T>() <= 64, "the slots are aligned to 64 bytes") };
        let capacity = capacity.max(1);
        let slots = (capacity as usize).saturating_mul(size_of::<T>());
        let memory = Memory::zeroed(context, slots.saturating_add(size_of::<Words>()))?;
        let queue = Queue { memory, capacity, pushed: 0, values: PhantomData };
        queue.words().capacity.store(capacity, Ordering::Relaxed);
        queue.words().size.store(size_of::<T>() as u32, Ordering::Relaxed);
        Ok(queue)
    }

    /// Adds a value.
    ///
    /// # Errors
    ///
    /// [`Full`], if as many values are unfinished as the queue has room for.
    pub fn push(&mut self, value: T) -> Result<(), Full> {
        if self.room() == 0 {
            return Err(Full { capacity: self.capacity });
        }
        let slot = (self.pushed % u64::from(self.capacity)) as usize;
        let place: *mut T = self.memory.at(size_of::<Words>() + slot * size_of::<T>());
        // SAFETY: the slot is in the memory, and aligned. The device is done with its former value, and does not read the new
        // one before it is counted.
        unsafe { place.write_volatile(value) };
        self.pushed += 1;
        self.words().pushed.store(self.pushed, Ordering::Release);
        Ok(())
    }

    /// How many values were pushed so far.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// How many values are done. What the kernel wrote for them can be read.
    pub fn done(&self) -> u64 {
        self.words().done.0.load(Ordering::Acquire)
    }

    /// How many values can be pushed now.
    pub fn room(&self) -> u32 {
        let unfinished = self.pushed.saturating_sub(self.done());
        u64::from(self.capacity).saturating_sub(unfinished) as u32
    }

    /// Waits until all values are done, but no longer than this, and not beyond the end of the kernel with this control
    /// block.
    ///
    /// # Errors
    ///
    /// [`Unfinished`], if some are not.
    pub fn wait(&self, control: &Control, limit: Duration) -> Result<(), Unfinished> {
        let is_done = || self.done() == self.pushed;
        poll(limit, || is_done() || matches!(control.presence(), Presence::Ended(_)));
        let ended = match control.presence() {
            Presence::Ended(ended) => Some(ended),
            _ => None,
        };
        // After the end: the last value may have been done since.
        if is_done() { Ok(()) } else { Err(Unfinished { done: self.done(), pushed: self.pushed, ended }) }
    }

    fn words(&self) -> &Words {
        // SAFETY: the memory begins with them, was zeroed, and stays as long as `self`, unless the program resets the context, by an
        // `unsafe` call. The device accesses aligned words as a whole.
        unsafe { &*self.memory.at(0) }
    }
}

impl<T> Sealed for &Queue<T> {}

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
            .field("capacity", &self.capacity)
            .field("pushed", &self.pushed)
            .field("done", &self.done())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the queue is full: {} values are unfinished; wait until the kernel has done some, or make it larger",
            self.capacity
        )
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfinished { done, pushed, ended } = self;
        write!(f, "{done} of {pushed} values are done")?;
        match ended {
            Some(ended) => write!(f, ", and the kernel has ended: {ended}"),
            None => f.write_str(", and the time to wait for them is over; `Control::presence` says whether the kernel is there"),
        }
    }
}

impl Error for Full {}
impl Error for Unfinished {}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn words_lie_as_in_the_header() {
        assert_eq!([offset_of!(Words, capacity), offset_of!(Words, size)], [8, 12]);
        assert_eq!([offset_of!(Words, done), size_of::<Words>()], [64, 128]);
    }

    #[test]
    fn errors_say_what_to_do() {
        let ended = Unfinished { done: 3, pushed: 4, ended: Some(Ended::Limit) };
        assert_eq!(ended.to_string(), "3 of 4 values are done, and the kernel has ended: its time was over");
        assert!(Full { capacity: 4 }.to_string().starts_with("the queue is full: 4 values are unfinished; "));
    }
}
