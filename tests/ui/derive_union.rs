use kernel_registry::KernelParam;

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub union Bits {
    pub float: f32,
    pub bits: u32,
}

fn main() {}
