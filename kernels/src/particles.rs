//! A kernel that takes a struct by value.

use kernel_registry::{KernelParam, gpu_kernel};

/// One step of a simulation, with the same layout as `Step` in `cuda/particles.cu`.
#[derive(Clone, Copy, Debug, KernelParam)]
#[repr(C)]
pub struct Step {
    /// The duration of the step.
    pub dt: f32,
    /// The factor by which each velocity is multiplied at the end of the step.
    pub damping: f32,
    /// The number of particles.
    pub n: u32,
}

/// CUDA's `float4`.
#[derive(Clone, Copy, Debug, Default, PartialEq, KernelParam)]
#[repr(C, align(16))]
pub struct Float4(pub [f32; 4]);

/// Moves each particle by its velocity, and slows it down.
#[gpu_kernel(file = "cuda/particles.cu", block = 256)]
pub unsafe fn advance(step: Step, positions: &mut [Float4], velocities: &mut [Float4]);
