use kernel_registry::KernelParam;

#[derive(KernelParam)]
#[repr(C)]
pub struct Step {
    pub dt: f32,
}

fn main() {}
