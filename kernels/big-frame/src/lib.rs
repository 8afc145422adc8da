//! One kernel with a local frame of 32 KiB, in a separate crate.
//!
//! As soon as the kernel is warmed or first launched, the driver reserves the frame for every thread that the device can run at once:
//! 8 GiB on an H200. A program that links the crate `kernels` should not lose that memory.

use kernel_registry::gpu_kernel;

/// The first card of a large deck shuffled by each seed; the deck is a frame of 32 KiB.
#[gpu_kernel(file = "cuda/large_deck.cu")]
pub unsafe fn shuffle_large(n: u32, seeds: &[u32], firsts: &mut [u32]);
