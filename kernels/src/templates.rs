//! Instances of C++ templates, one declaration each.

use kernel_registry::gpu_kernel;

/// The sum of each block, by blocks of 128
#[gpu_kernel(image = "images/reduce.ptx", name = "reduce<float, 128u>", block = 128)]
pub unsafe fn reduce_f32_128(x: &[f32], out: &mut [f32], n: u32);

/// The sum of each block, by blocks of 256
#[gpu_kernel(image = "images/reduce.ptx", name = "reduce<float, 256u>", block = 256)]
pub unsafe fn reduce_f32_256(x: &[f32], out: &mut [f32], n: u32);

/// The sum of each block, by blocks of 256
#[gpu_kernel(image = "images/reduce.ptx", name = "reduce<double, 256u>", block = 256)]
pub unsafe fn reduce_f64_256(x: &[f64], out: &mut [f64], n: u32);

/// `out[c][r]` = `matrix[r][c]`, in tiles of 32
#[gpu_kernel(image = "images/transpose.ptx", name = "transpose<float, 32u>", block = (32, 8))]
pub unsafe fn transpose_f32_32(matrix: &[f32], out: &mut [f32], rows: u32, columns: u32);

/// `out[c][r]` = `matrix[r][c]`, in tiles of 16
#[gpu_kernel(image = "images/transpose.ptx", name = "transpose<double, 16u>", block = (16, 8))]
pub unsafe fn transpose_f64_16(matrix: &[f64], out: &mut [f64], rows: u32, columns: u32);
