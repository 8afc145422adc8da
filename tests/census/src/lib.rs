//! Declares the kernels that the census launches. Each tried kernel has two parameters: a word in mapped host memory, which the
//! kernel sets when it runs, and the number 100.
//!
//! The census itself is `tests/src/bin/census`, and its recordings are `tests/census/*.json`. docs/census.md explains the census.

use kernel_registry::{KernelParam, gpu_kernel};

/// The resident kernel, beside which an operation is tried.
#[gpu_kernel(file = "cuda/resident.cu")]
pub unsafe fn stay(flag: *const u32, status: *mut u32, limit_ns: u64);

/// Kernels of one image. For most of them the driver has to do more than load them.
#[gpu_kernel(file = "cuda/plain.cu")]
pub mod plain {
    /// Needs only to be loaded.
    pub unsafe fn small(done: *mut u32, n: u32);
    /// Needs only to be loaded, and is not launched itself.
    pub unsafe fn sibling(done: *mut u32, n: u32);
    /// Has a frame that fits the default stack of a context.
    pub unsafe fn frame_800(done: *mut u32, n: u32);
    /// Has a frame that does not fit the default stack.
    pub unsafe fn frame_2k(done: *mut u32, n: u32);
    /// Has a frame for which the driver allocates gigabytes of device memory.
    pub unsafe fn frame_32k(done: *mut u32, n: u32);
    /// Calls `printf`.
    pub unsafe fn prints(done: *mut u32, n: u32);
    /// Calls `malloc`.
    pub unsafe fn allocates(done: *mut u32, n: u32);
    /// Has shared memory whose size the launch sets.
    pub unsafe fn shared_dynamic(done: *mut u32, n: u32);
    /// Has 44,000 bytes of static shared memory.
    pub unsafe fn shared_static(done: *mut u32, n: u32);
}

/// Kernels with rare features.
#[gpu_kernel(file = "cuda/special.cu")]
pub mod special {
    /// Contains an `assert`.
    pub unsafe fn asserts(done: *mut u32, n: u32);
    /// Calls a recursive function.
    pub unsafe fn recurses(done: *mut u32, n: u32);
    /// Calls a function through a table.
    pub unsafe fn calls_pointer(done: *mut u32, n: u32);
}

/// Kernels that contain a call of a recursive function, which they do not make. Only `recurses_deep` below makes the call.
#[gpu_kernel(file = "cuda/recursive.cu")]
pub mod recursive {
    /// Has a frame that fits the default stack of a context.
    pub unsafe fn recurses_800(done: *mut u32, n: u32);
    /// Has a frame that does not fit the default stack.
    pub unsafe fn recurses_1600(done: *mut u32, n: u32);
    /// Has a larger frame.
    pub unsafe fn recurses_8k(done: *mut u32, n: u32);
}

/// Needs five frames of 4 KiB. Only the declaration tells this.
#[gpu_kernel(file = "cuda/recursive.cu", stack = 24 * 1024)]
pub unsafe fn recurses_deep(done: *mut u32, n: u32);

/// The large third parameter of `large_parameters`.
#[derive(Clone, Copy, Debug, KernelParam)]
#[repr(C)]
pub struct Words(pub [u32; 900]);

/// Kernels whose stack is not in their own frame, and one with large parameters.
#[gpu_kernel(file = "cuda/callee.cu")]
pub mod callee {
    /// Calls a function with a frame of 2 KiB.
    pub unsafe fn frame_in_callee(done: *mut u32, n: u32);
    /// Calls a function with a frame of 2 KiB through a table of functions.
    pub unsafe fn frame_behind_pointer(done: *mut u32, n: u32);
    /// Has 3.6 KB of parameters.
    pub unsafe fn large_parameters(done: *mut u32, n: u32, rest: super::Words);
}

/// Needs only to be loaded, and is alone in its image.
#[gpu_kernel(file = "cuda/bare.cu")]
pub unsafe fn bare(done: *mut u32, n: u32);

/// Is alone in its image, and has a frame that fits the default stack of a context.
#[gpu_kernel(file = "cuda/bare_frame.cu")]
pub unsafe fn bare_frame_800(done: *mut u32, n: u32);

/// Contains the launch of a kernel, in an image without large frames. The launch never happens here.
#[gpu_kernel(image = "device-launch/small.fatbin", arch = ">=80")]
pub unsafe fn launches_small(done: *mut u32, n: u32);

/// Contains the launch of a kernel with a frame of 8 KiB.
#[gpu_kernel(image = "device-launch/child_frame.fatbin", arch = ">=80")]
pub unsafe fn launches_frame_8k(done: *mut u32, n: u32);

/// Contains the launch of a kernel without a frame, in an image with one that has a frame of 12 KiB.
#[gpu_kernel(image = "device-launch/other_frame.fatbin", arch = ">=80")]
pub unsafe fn launches_beside_frame(done: *mut u32, n: u32);

/// Writes to a managed variable.
#[gpu_kernel(file = "cuda/managed.cu")]
pub unsafe fn uses_managed(done: *mut u32, n: u32);

/// Has blocks that all wait for each other.
#[gpu_kernel(file = "cuda/grid.cu", arch = ">=60")]
pub unsafe fn waits_for_grid(done: *mut u32, n: u32);

/// Kernels whose blocks form clusters.
#[gpu_kernel(file = "cuda/cluster.cu", arch = ">=90")]
pub mod cluster {
    /// Has clusters of two blocks, which the source fixes.
    pub unsafe fn clustered(done: *mut u32, n: u32);
    /// Has clusters whose size the launch sets.
    pub unsafe fn cluster_at_launch(done: *mut u32, n: u32);
}

/// Kernels to launch before the kernel under test. Called with 0 they do nothing.
#[gpu_kernel(file = "cuda/earlier.cu")]
pub mod earlier {
    /// Never does anything.
    pub unsafe fn earlier_nothing(really: u32);
    /// Contains a `printf`.
    pub unsafe fn earlier_printf(really: u32);
    /// Contains a `malloc`.
    pub unsafe fn earlier_malloc(really: u32);
    /// Has a frame of 32 KiB.
    pub unsafe fn earlier_frame_32k(really: u32);
}

/// The PTX of [`plain`], which is also there if the build compiled machine code.
pub const PLAIN_PTX: &str = include_str!("../prebuilt/cuda__plain.cu.ptx");
