//! A persistent worker: one kernel that takes tasks from a queue.

use std::sync::Arc;
use std::time::Duration;

use kernel_registry::cudarc::driver::{CudaContext, CudaStream};
use kernel_registry::{Control, Queue};
use kernels::waiting::{Task, worker};

use crate::Outcome;

/// The kernel `worker` while it runs. It takes tasks from a queue that the host fills, until it is told to stop or
/// its time limit is over.
#[derive(Debug)]
pub struct Worker {
    stream: Arc<CudaStream>,
    control: Control,
    queue: Queue<Task>,
}

impl Worker {
    /// Launches the worker.
    pub fn start(context: &Arc<CudaContext>, limit: Duration) -> Outcome<Self> {
        let worker = Worker {
            stream: context.new_stream()?,
            control: Control::new(context, 1)?,
            queue: Queue::new(context, 4)?,
        };
        worker.control.limit(limit);
        let config = worker::INFO.config(1).block(128);
        // SAFETY: freeing the control block and the queue waits for the kernel.
        unsafe { worker::launch(&worker.stream, config, &worker.control, &worker.queue)? };
        Ok(worker)
    }

    /// Adds a task to the queue, which has room for four.
    pub fn submit(&mut self, task: Task) -> Outcome {
        Ok(self.queue.push(task)?)
    }

    /// Waits until all tasks are done. Returns false if the worker ended before.
    pub fn is_done(&self) -> bool {
        self.queue.wait(&self.control, Duration::MAX).is_ok()
    }

    /// Tells the worker to stop, and waits until it has.
    pub fn stop(self) -> Outcome {
        self.control.stop();
        Ok(self.stream.synchronize()?)
    }
}
