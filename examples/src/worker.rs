//! `Worker`, a persistent kernel that takes tasks from a queue.

use std::sync::Arc;
use std::time::Duration;

use kernel_registry::Warm;
use kernel_registry::cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut};
use kernel_registry_resident::{Control, Queue, Resident, Section};
use kernels::waiting::{Task, worker};

use crate::Outcome;

/// The kernel `worker` while it runs. It takes tasks from a queue that the host fills, until the host stops it or its time limit is
/// over.
#[derive(Debug)]
pub struct Worker {
    stream: Arc<CudaStream>,
    launch: Launch,
    queue: Queue<Task>,
}

#[derive(Debug)]
enum Launch {
    /// The kernel was launched like any kernel: nothing was checked, and no calls are refused.
    Bare(Control),
    Guarded(Section),
}

/// The number of tasks that the queue has room for.
const CAPACITY: u32 = 4;

/// The number of threads of the worker.
const THREADS: u32 = 128;

impl Worker {
    /// Launches the worker like any kernel, without a section.
    pub fn start(context: &Arc<CudaContext>, limit: Duration) -> Outcome<Self> {
        let (stream, control) = (context.new_stream()?, Control::new(context, 1)?);
        let queue = Queue::new(context, CAPACITY)?;
        control.limit(limit);
        let config = worker::INFO.config(1).block(THREADS);
        // SAFETY: freeing the control block and the queue waits for the kernel.
        unsafe { worker::launch(&stream, config, &control, &queue)? };
        Ok(Worker { stream, launch: Launch::Bare(control), queue })
    }

    /// Launches the worker as a resident kernel, in a section.
    pub fn guarded(warm: &Warm, limit: Duration) -> Outcome<Self> {
        let (stream, queue) = (warm.context().new_stream()?, Queue::new(warm.context(), CAPACITY)?);
        let resident = Resident::<worker>::new(worker::config(1).block(THREADS)).limit(limit).check(warm)?;
        // SAFETY: the queue's memory is freed only when no resident kernel is left.
        let section = resident
            .launch(&stream, |launch| unsafe { worker::launch(&stream, launch, launch.control(), &queue) })?;
        Ok(Worker { stream, launch: Launch::Guarded(section), queue })
    }

    fn control(&self) -> &Control {
        match &self.launch {
            Launch::Bare(control) => control,
            Launch::Guarded(section) => section.control(),
        }
    }

    /// Adds a task to the queue, which has room for four.
    pub fn submit(&mut self, task: Task) -> Outcome {
        self.queue.push(task)?;
        Ok(())
    }

    /// Waits until all tasks are done. Returns false if the worker ended before that.
    pub fn is_done(&self) -> bool {
        self.queue.wait(self.control(), Duration::MAX).is_ok()
    }

    /// Tells the worker to stop, and waits until it has ended.
    pub fn stop(self) -> Outcome {
        match self.launch {
            Launch::Bare(control) => {
                control.stop();
                Ok(self.stream.synchronize()?)
            }
            Launch::Guarded(section) => Ok(section.stop()?),
        }
    }
}

/// The number of elements of a task's vectors.
pub const N: u32 = 1000;

/// A vector of ones, a vector of twos, and a task that adds three times the first to the second.
#[derive(Debug)]
pub struct Vectors {
    /// The vector of ones.
    pub x: CudaSlice<f32>,
    /// The vector of twos, to which the task adds.
    pub y: CudaSlice<f32>,
    /// The task. The vectors must exist until it is done.
    pub task: Task,
}

impl Vectors {
    /// Creates the vectors and the task. Waits until the vectors are on the device.
    pub fn new(stream: &Arc<CudaStream>) -> Outcome<Self> {
        let x = stream.clone_htod(&[1.0_f32; N as usize])?;
        let mut y = stream.clone_htod(&[2.0_f32; N as usize])?;
        stream.synchronize()?;
        let (x_at, y_at) = (x.device_ptr(stream).0, y.device_ptr_mut(stream).0);
        Ok(Vectors { x, y, task: Task { x: x_at as *const f32, y: y_at as *mut f32, a: 3.0, n: N } })
    }
}
