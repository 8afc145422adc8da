//! The kernels that the census launches. Each tried kernel has two parameters: a word in mapped host memory, which it
//! sets when it runs, and the number 100.
//!
//! The census program is `tests/src/bin/census`; `tests/census/*.json` are its recordings, and docs/census.md
//! explains it.

use kernel_registry::{KernelParam, gpu_kernel};

/// The resident kernel: it stays on the device while an operation is tried.
#[gpu_kernel(file = "cuda/resident.cu")]
pub unsafe fn stay(flag: *const u32, status: *mut u32, limit_ns: u64);

/// Kernels of one image. Most need more from the driver than loading.
#[gpu_kernel(file = "cuda/plain.cu")]
pub mod plain {
    /// Needs nothing.
    pub unsafe fn small(done: *mut u32, n: u32);
    /// Needs nothing, and is never launched itself.
    pub unsafe fn sibling(done: *mut u32, n: u32);
    /// Its frame fits the default stack of a context.
    pub unsafe fn frame_800(done: *mut u32, n: u32);
    /// Its frame does not fit.
    pub unsafe fn frame_2k(done: *mut u32, n: u32);
    /// Its frame takes gigabytes of device memory.
    pub unsafe fn frame_32k(done: *mut u32, n: u32);
    /// Calls `printf`.
    pub unsafe fn prints(done: *mut u32, n: u32);
    /// Calls `malloc`.
    pub unsafe fn allocates(done: *mut u32, n: u32);
    /// Its shared memory is sized by the launch.
    pub unsafe fn shared_dynamic(done: *mut u32, n: u32);
    /// 44,000 bytes of shared memory.
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

/// Kernels that may call a recursive function. Only the last one does.
#[gpu_kernel(file = "cuda/recursive.cu")]
pub mod recursive {
    /// Its frame fits the default stack of a context.
    pub unsafe fn recurses_800(done: *mut u32, n: u32);
    /// Its frame does not fit.
    pub unsafe fn recurses_1600(done: *mut u32, n: u32);
    /// Its frame is larger.
    pub unsafe fn recurses_8k(done: *mut u32, n: u32);
}

/// Needs five frames of 4 KiB, which only the declaration tells.
#[gpu_kernel(file = "cuda/recursive.cu", stack = 24 * 1024)]
pub unsafe fn recurses_deep(done: *mut u32, n: u32);

/// A third parameter, large.
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
    /// 3.6 KB of parameters.
    pub unsafe fn large_parameters(done: *mut u32, n: u32, rest: super::Words);
}

/// Needs nothing, and is alone in its image.
#[gpu_kernel(file = "cuda/bare.cu")]
pub unsafe fn bare(done: *mut u32, n: u32);

/// Alone in its image, with a frame that fits the default stack of a context.
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

/// Its blocks all wait for each other.
#[gpu_kernel(file = "cuda/grid.cu", arch = ">=60")]
pub unsafe fn waits_for_grid(done: *mut u32, n: u32);

/// Kernels whose blocks form clusters.
#[gpu_kernel(file = "cuda/cluster.cu", arch = ">=90")]
pub mod cluster {
    /// Clusters of two blocks, fixed in the source.
    pub unsafe fn clustered(done: *mut u32, n: u32);
    /// Clusters sized by the launch.
    pub unsafe fn cluster_at_launch(done: *mut u32, n: u32);
}

/// Kernels to launch before others. Called with 0 they do nothing.
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

/// The image of [`plain`] as PTX, even if the build made machine code.
pub const PLAIN_PTX: &str = include_str!("../prebuilt/cuda__plain.cu.ptx");
