//! Resident kernels and kernels that wait. Each has a time limit, so that none occupies a device for ever.

use kernel_registry::{KernelParam, gpu_kernel};
use kernel_registry_resident::{Control, Queue};

/// One task of the persistent worker, y = a*x + y, with the same layout as `Task` in `cuda/worker.cu`.
#[derive(Clone, Copy, Debug, KernelParam)]
#[repr(C)]
pub struct Task {
    /// Device pointer to `n` floats.
    pub x: *const f32,
    /// Device pointer to `n` floats.
    pub y: *mut f32,
    /// The factor.
    pub a: f32,
    /// The number of elements.
    pub n: u32,
}

/// Runs until the host ends it, and does the tasks that the host pushes.
#[gpu_kernel(file = "cuda/worker.cu")]
pub unsafe fn worker(control: *mut Control, queue: *mut Queue<Task>);

/// Smooths a vector in sweeps, from `a` to `b` and back; all blocks of the grid wait for each other between sweeps.
#[gpu_kernel(file = "cuda/cooperative.cu", arch = ">=60")]
pub unsafe fn smooth(
    n: u32,
    sweeps: u32,
    a: &mut [f32],
    b: &mut [f32],
    arrivals: &mut [u32],
    status: &mut [u32],
    limit_ns: u64,
);

/// Runs until a flag is set, or the host ends it.
#[gpu_kernel(file = "cuda/spin.cu", block = 1)]
pub unsafe fn spin_until_flag(flag: *const u32, control: *mut Control);

/// First waits until all blocks have arrived, at most `limit_ns` nanoseconds. Then runs until the host ends it.
#[gpu_kernel(file = "cuda/spin.cu")]
pub unsafe fn stay_together(control: *mut Control, limit_ns: u64);

/// Sets a flag.
#[gpu_kernel(file = "cuda/spin.cu", block = 1)]
pub unsafe fn set_flag(flag: *mut u32, value: u32);

/// Adds one to a counter: the smallest proof of a launch.
#[gpu_kernel(file = "cuda/spin.cu", block = 1)]
pub unsafe fn touch(out: *mut u32);
