use kernel_registry::KernelParam;

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Step {
    pub dt: &'static f32,
}

fn main() {}
