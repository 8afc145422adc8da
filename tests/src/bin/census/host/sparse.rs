//! Rows for sparse arrays, whose tiles get memory one by one.

use kernel_registry::cudarc::driver::sys;

use crate::bench::Bench;
use crate::cuda::{self, Done, Handle, driver, made};
use crate::host::with;
use crate::row::Row;

/// What a tile is mapped by: kinds and numbers of CUDA's header.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Tile {
    resource_kind: u32,
    resource: u64,
    part_kind: u32,
    /// What follows is aligned to eight bytes, because another kind of part has a size of 64 bits there.
    padding: u32,
    level: u32,
    layer: u32,
    offset: [u32; 3],
    extent: [u32; 3],
    operation: u32,
    memory_kind: u32,
    memory: u64,
    memory_offset: u64,
    devices: u32,
    flags: u32,
    reserved: [u32; 2],
}

const MAP: u32 = 1;
const UNMAP: u32 = 2;

/// The first tile of a sparse array, not yet mapped.
fn tile(bench: &Bench) -> Done<Tile> {
    const SPARSE: u32 = 64;
    let description = sys::CUDA_ARRAY3D_DESCRIPTOR {
        Width: 2048,
        Height: 2048,
        Depth: 0,
        Format: sys::CUarray_format_enum::CU_AD_FORMAT_FLOAT,
        NumChannels: 1,
        Flags: SPARSE,
    };
    let array: Handle = made!(cuArray3DCreate_v2(&raw const description))?;
    // The tile's three sizes, and then others.
    let (mut properties, mut memory) = ([0_u32; 16], 0_u64);
    driver!(cuArrayGetSparseProperties(properties.as_mut_ptr(), array))?;
    let description = cuda::pinned_tile(bench.device());
    driver!(cuMemCreate(&raw mut memory, cuda::MAPPED, &raw const description, 0_u64))?;
    let [width, height, depth, ..] = properties;
    Ok(Tile {
        resource: array.addr() as u64,
        extent: [width, height, depth],
        operation: MAP,
        memory,
        devices: 1,
        ..Tile::default()
    })
}

fn apply(bench: &Bench, mut tile: Tile) -> Done {
    driver!(cuMemMapArrayAsync(&raw mut tile, 1_u32, bench.ours))?;
    cuda::synchronize_stream(bench.ours)
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        with("cuMemMapArrayAsync", tile, apply),
        with(
            "cuMemMapArrayAsync_unmapping",
            |bench| {
                let tile = tile(bench)?;
                apply(bench, tile)?;
                Ok(Tile { operation: UNMAP, memory: 0, ..tile })
            },
            apply,
        ),
    ]
}
