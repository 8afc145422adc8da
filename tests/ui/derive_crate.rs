use kernel_registry::KernelParam;

#[derive(Clone, Copy, KernelParam)]
#[kernel_param(krate = ::kernel_registry)]
#[repr(C)]
pub struct Step {
    pub dt: f32,
}

fn main() {}
