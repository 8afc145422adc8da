//! Kernels with unusual memory needs: much shared memory, shared memory across a cluster, or a large frame.

use kernel_registry::gpu_kernel;

/// The number of bins of the histogram. Each bin has a counter in dynamic shared memory.
const BINS: u32 = 25_000;

/// `bins[v]` += how often `v` occurs in `values`
#[gpu_kernel(
    file = "cuda/shared.cu",
    arch = ">=80",
    block = 1024,
    shared = 4 * BINS
)]
pub unsafe fn histogram(n: u32, values: &[u32], bin_count: u32, bins: &mut [u32]);

/// One sum per pair of blocks, which exchange their parts as a cluster.
#[gpu_kernel(file = "cuda/cluster.cu", arch = ">=90", block = 256)]
pub unsafe fn pair_sum(n: u32, x: &[f32], out: &mut [f32]);

/// The first card of a deck shuffled by each seed; the deck is a frame of 2 KiB.
#[gpu_kernel(file = "cuda/frame.cu", block = 256)]
pub unsafe fn shuffle(n: u32, seeds: &[u32], firsts: &mut [u32]);
