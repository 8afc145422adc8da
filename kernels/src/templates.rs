//! C++ templates, declared with the instances that the CUDA sources contain.

use kernel_registry::gpu_kernel;

/// The sum of each block, by blocks of `BLOCK` threads
#[gpu_kernel(
    file = "cuda/reduce.cu",
    instances(<f32, 128>, <f32, 256>, <f64, 256>),
    block = BLOCK
)]
pub unsafe fn reduce<T, const BLOCK: u32>(x: &[T], out: &mut [T], n: u32);

/// `out[c][r]` = `matrix[r][c]`, in tiles of `TILE` elements squared
#[gpu_kernel(
    file = "cuda/transpose.cu",
    instances(<f32, 32>, <f64, 16>),
    block = (TILE, 8)
)]
pub unsafe fn transpose<T, const TILE: u32>(matrix: &[T], out: &mut [T], rows: u32, columns: u32);
