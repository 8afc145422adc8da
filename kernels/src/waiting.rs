//! Kernels that stay or wait. Each gives up after `limit_ns`, so that none can hold a device for ever.

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
    /// How many elements there are.
    pub n: u32,
}

/// The queue of the persistent worker, in mapped host memory, laid out as `Queue` in `cuda/worker.cu`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Queue {
    /// Written by the host: tasks there are so far.
    pub published: u32,
    /// Written by the host: not 0 to end the worker once the queue is empty.
    pub stop: u32,
    /// Written by the worker: tasks done so far.
    pub finished: u32,
    /// Written by the worker: 0 running, 1 stopped, 2 gave up.
    pub status: u32,
}

/// Stays, and does the tasks of a queue in mapped host memory as they come.
#[gpu_kernel(file = "cuda/worker.cu")]
pub unsafe fn worker(queue: *mut Queue, tasks: *const Task, capacity: u32, limit_ns: u64);

/// Smooths a vector in rounds, between which all blocks of the grid wait for each other.
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

/// Stays until a flag is set; `status` is 0 meanwhile, then 1 if it was set and 2 if the kernel gave up.
#[gpu_kernel(file = "cuda/spin.cu", block = 1)]
pub unsafe fn spin_until_flag(flag: *const u32, status: *mut u32, limit_ns: u64);

/// Sets a flag.
#[gpu_kernel(file = "cuda/spin.cu", block = 1)]
pub unsafe fn set_flag(flag: *mut u32, value: u32);

/// Counts one more: the smallest sign that a launch took place.
#[gpu_kernel(file = "cuda/spin.cu", block = 1)]
pub unsafe fn touch(out: *mut u32);
