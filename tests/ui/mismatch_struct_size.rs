use kernel_registry::{KernelParam, gpu_kernel};

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Pair {
    pub a: f32,
    pub b: u64,
}

#[derive(Clone, Copy, KernelParam)]
#[repr(C, align(16))]
pub struct Wide(pub [f32; 4]);

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn structs(pair: Pair, wide: Wide, mode: u32);

fn main() {}
