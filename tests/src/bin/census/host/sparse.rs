//! Rows for sparse arrays, whose tiles are mapped to memory one by one.

use kernel_registry::cudarc::driver::sys;

use crate::bench::Bench;
use crate::cuda::{self, Done, Handle, create, driver};
use crate::host::with;
use crate::row::Row;

/// The driver's structure that maps memory to a tile. Its kinds are numbers in CUDA's header.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Tile {
    resource_kind: u32,
    resource: u64,
    part_kind: u32,
    /// Aligns the next field to eight bytes, because that's in a union with a 64-bit field.
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

/// Returns the mapping of a sparse array's first tile, not applied yet.
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
    let array: Handle = create!(cuArray3DCreate_v2(&raw const description))?;
    // The first three properties are the sizes of a tile.
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
    driver!(cuMemMapArrayAsync(&raw mut tile, 1_u32, bench.tried_stream))?;
    cuda::synchronize_stream(bench.tried_stream)
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
