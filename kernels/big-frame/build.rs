//! Compiles the CUDA source of the kernel.

fn main() {
    kernel_registry_build::compile();
}
