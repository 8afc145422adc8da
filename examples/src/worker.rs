//! A persistent worker: one kernel that takes tasks from a queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use kernel_registry::cudarc::driver::{CudaContext, CudaStream};
use kernels::waiting::{Queue, Task, worker};

use crate::{Mapped, Outcome};

/// The kernel `worker` while it runs. It takes tasks from a queue that the host fills, until it is told to stop or
/// its time limit is over.
#[derive(Debug)]
pub struct Worker {
    stream: Arc<CudaStream>,
    /// The words of a `Queue`: published, stop, finished, status.
    queue: Mapped,
    /// Room for `CAPACITY` tasks.
    tasks: Mapped,
}

const CAPACITY: u32 = 4;
const PUBLISHED: usize = 0;
const STOP: usize = 1;
const FINISHED: usize = 2;
const STATUS: usize = 3;

impl Worker {
    /// Launches the worker.
    pub fn start(context: &Arc<CudaContext>, limit: Duration) -> Outcome<Self> {
        let words = CAPACITY as usize * size_of::<Task>() / 4;
        let worker = Worker {
            stream: context.new_stream()?,
            queue: Mapped::zeroed(context, size_of::<Queue>() / 4)?,
            tasks: Mapped::zeroed(context, words)?,
        };
        let (queue, tasks) = (worker.queue.address(0).cast(), worker.tasks.address(0).cast_const().cast());
        let config = worker::INFO.config(1).block(128);
        // SAFETY: the queue is empty. Freeing the queue and the tasks waits for the kernel.
        unsafe { worker::launch(&worker.stream, config, queue, tasks, CAPACITY, limit.as_nanos() as u64)? };
        Ok(worker)
    }

    /// Adds a task to the queue. At most `CAPACITY` may be unfinished.
    pub fn submit(&self, task: Task) {
        let published = self.queue[PUBLISHED].load(Ordering::Relaxed);
        let slot = self.tasks.address((published % CAPACITY) as usize * size_of::<Task>() / 4);
        // SAFETY: the slot has a task's size and alignment, and the worker does not read it before it is published.
        unsafe { slot.cast::<Task>().write(task) };
        self.queue[PUBLISHED].store(published + 1, Ordering::Release);
    }

    /// Waits until all tasks are done. Returns false if the worker gave up.
    pub fn is_done(&self) -> bool {
        let published = self.queue[PUBLISHED].load(Ordering::Relaxed);
        while self.queue[FINISHED].load(Ordering::Acquire) != published {
            if self.queue[STATUS].load(Ordering::Acquire) != 0 {
                return false;
            }
            thread::yield_now();
        }
        true
    }

    /// Tells the worker to stop, and waits until it has.
    pub fn stop(self) -> Outcome {
        self.queue[STOP].store(1, Ordering::Release);
        Ok(self.stream.synchronize()?)
    }
}
