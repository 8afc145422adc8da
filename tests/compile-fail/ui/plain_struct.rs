use kernel_registry::gpu_kernel;

pub struct Step {
    pub dt: f32,
}

#[gpu_kernel(image = "images/saxpy.ptx")]
pub unsafe fn advance(step: Step);

fn main() {}
