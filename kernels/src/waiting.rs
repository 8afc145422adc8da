//! Kernels that stay or wait. Each gives up after `limit_ns`, so that none holds a device for ever.

use kernel_registry::gpu_kernel;

/// One task of the persistent worker: y = a*x + y, laid out as `Task` in `cuda/worker.cu`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Task {
    /// Device pointer to `n` floats.
    pub x: *const f32,
    /// Device pointer to `n` floats.
    pub y: *mut f32,
    /// The factor.
    pub a: f32,
    /// Number of elements.
    pub n: u32,
}

/// The queue of the persistent worker, in mapped host memory, laid out as `Queue` in `cuda/worker.cu`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Queue {
    /// Written by the host: tasks published so far.
    pub published: u32,
    /// Written by the host: not 0 to end the worker once the queue is empty.
    pub stop: u32,
    /// Written by the worker: tasks done so far.
    pub finished: u32,
    /// Written by the worker: 0 running, 1 stopped, 2 gave up.
    pub status: u32,
}

/// Stays on the device, and does the tasks that the host puts into a queue in mapped memory.
#[gpu_kernel(file = "cuda/worker.cu")]
pub unsafe fn worker(queue: *mut Queue, tasks: *const Task, capacity: u32, limit_ns: u64);

/// Smooths a vector in rounds; all blocks of the grid wait for each other between rounds.
#[gpu_kernel(file = "cuda/cooperative.cu", arch = ">=60")]
pub unsafe fn smooth(
    n: u32,
    rounds: u32,
    x: &mut [f32],
    scratch: &mut [f32],
    arrivals: &mut [u32],
    status: &mut [u32],
    limit_ns: u64,
);

/// Spins until a flag is set. `status` is 0 until then, 1 if the flag was set and 2 if the kernel gave up.
#[gpu_kernel(file = "cuda/spin.cu", block = 1)]
pub unsafe fn spin_until_flag(flag: *const u32, status: *mut u32, limit_ns: u64);

/// Sets a flag.
#[gpu_kernel(file = "cuda/spin.cu", block = 1)]
pub unsafe fn set_flag(flag: *mut u32, value: u32);

/// Adds one to a counter: the smallest proof of a launch.
#[gpu_kernel(file = "cuda/spin.cu", block = 1)]
pub unsafe fn touch(out: *mut u32);
