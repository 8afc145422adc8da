//! One kernel with a local frame of 32 KiB.
//!
//! The driver reserves the frame for every thread that the device can hold: 8 GiB on an H200, as soon as the kernel
//! is made ready or first launched. A program should not pay that because a library of kernels is linked into it, so
//! the kernel has a crate of its own.

use kernel_registry::gpu_kernel;

/// The first card of a large deck shuffled by each seed; the deck is a frame of 32 KiB.
#[gpu_kernel(file = "cuda/large_deck.cu")]
pub unsafe fn shuffle_large(n: u32, seeds: &[u32], firsts: &mut [u32]);
