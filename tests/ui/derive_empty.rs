use kernel_registry::KernelParam;

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Nothing;

fn main() {}
