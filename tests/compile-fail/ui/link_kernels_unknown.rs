kernel_registry::link_kernels!(nowhere);

fn main() {}
