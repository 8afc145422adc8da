use kernel_registry::KernelParam;

#[derive(Clone, Copy, KernelParam)]
pub struct Step {
    pub dt: f32,
}

fn main() {}
