use kernel_registry::gpu_kernel;
use kernel_registry::types::{Float2, Float4, Int4, Uint2};

#[gpu_kernel(image = "images/vectors.ptx")]
pub unsafe fn move_all(positions: &mut [Int4], ids: &[Float2]);

#[gpu_kernel(image = "images/vectors.ptx", name = "move_all")]
pub unsafe fn right(positions: &mut [Float4], ids: &[Uint2]);

fn main() {}
