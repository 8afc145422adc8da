use kernel_registry::KernelParam;

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Step {
    pub dt: f32,
    pub name: char,
    pub other: Option<u32>,
}

fn main() {}
