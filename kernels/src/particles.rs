//! A struct passed by value.

use kernel_registry::{KernelParam, gpu_kernel};

/// One step of a simulation, laid out as `Step` in `cuda/particles.cu`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Step {
    /// Duration.
    pub dt: f32,
    /// What is left of the velocity afterwards.
    pub damping: f32,
    /// How many particles there are.
    pub n: u32,
}

/// CUDA's `float4`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(16))]
pub struct Float4(pub [f32; 4]);

// SAFETY: three fields of four bytes, in C's order and without padding, as in `cuda/particles.cu`.
unsafe impl KernelParam for Step {}

// SAFETY: four floats, aligned to 16 bytes, as CUDA's vector type is.
unsafe impl KernelParam for Float4 {}

/// Moves each particle by its velocity, and slows it down.
#[gpu_kernel(image = "images/particles.ptx", block = 256)]
pub unsafe fn advance(step: Step, positions: &mut [Float4], velocities: &mut [Float4]);
