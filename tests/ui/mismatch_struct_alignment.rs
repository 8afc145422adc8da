use kernel_registry::{KernelParam, gpu_kernel};

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Pair {
    pub a: f32,
    pub b: u32,
}

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Wide(pub [f32; 4]);

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn structs(pair: Pair, wide: Wide, mode: u32);

fn main() {}
