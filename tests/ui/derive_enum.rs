use kernel_registry::KernelParam;

#[derive(Clone, Copy, KernelParam)]
#[repr(u32)]
pub enum Mode {
    Fast,
    Safe,
}

fn main() {}
