use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "$OUT_DIR/saxpy.ptx")]
pub unsafe fn saxpy(n: u32);

fn main() {}
