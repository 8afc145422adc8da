//! One kernel with a local frame of 32 KiB, in its own crate.
//!
//! The driver reserves the frame for every thread that the device can hold: 8 GiB on an H200, as soon as the kernel
//! is warmed or first launched. A program should not pay that because it links a library of kernels.

use kernel_registry::gpu_kernel;

/// The first card of a large deck shuffled by each seed; the deck is a frame of 32 KiB.
#[gpu_kernel(file = "cuda/large_deck.cu")]
pub unsafe fn shuffle_large(n: u32, seeds: &[u32], firsts: &mut [u32]);
