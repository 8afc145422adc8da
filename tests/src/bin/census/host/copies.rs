//! Rows for copies and for setting memory, with and without a stream: arrays, rectangles, and the other sizes
//! of words.

use kernel_registry::cudarc::driver::sys;

use crate::bench::Bench;
use crate::cuda::{self, Done, Handle, MIB, device_copy, driver, join_errors};
use crate::host::{arrays, with};
use crate::row::Row;

/// The size of one row of an array.
const BYTES: usize = 4096;

/// The sources and destinations of copies: two arrays, two buffers on the device, and one buffer on the host.
#[derive(Clone, Copy)]
struct Places {
    arrays: [Handle; 2],
    memory: [u64; 2],
    host: *mut u8,
}

fn places(bench: &Bench) -> Done<Places> {
    Ok(Places {
        arrays: [arrays::array(bench)?, arrays::array(bench)?],
        memory: [cuda::alloc(MIB)?, cuda::alloc(MIB)?],
        host: cuda::pageable(MIB).as_mut_ptr(),
    })
}

/// Describes the copy of a rectangle from one device buffer to another.
fn rectangle([to, from]: [u64; 2]) -> sys::CUDA_MEMCPY2D {
    let mut copy = device_copy!(CUDA_MEMCPY2D);
    (copy.srcDevice, copy.dstDevice) = (from, to);
    (copy.srcPitch, copy.dstPitch, copy.WidthInBytes, copy.Height) = (1024, 1024, 512, 64);
    copy
}

/// Describes the copy of a box from one device buffer to another.
fn block([to, from]: [u64; 2]) -> sys::CUDA_MEMCPY3D {
    let mut copy = device_copy!(CUDA_MEMCPY3D);
    (copy.srcDevice, copy.dstDevice) = (from, to);
    (copy.srcPitch, copy.dstPitch, copy.srcHeight, copy.dstHeight) = (1024, 1024, 64, 64);
    (copy.WidthInBytes, copy.Height, copy.Depth) = (512, 64, 4);
    copy
}

fn block_of_contexts(places: [u64; 2]) -> Done<sys::CUDA_MEMCPY3D_PEER> {
    let (mut copy, [to, from]) = (device_copy!(CUDA_MEMCPY3D_PEER), places);
    (copy.srcDevice, copy.dstDevice) = (from, to);
    (copy.srcPitch, copy.dstPitch, copy.srcHeight, copy.dstHeight) = (1024, 1024, 64, 64);
    (copy.WidthInBytes, copy.Height, copy.Depth) = (512, 64, 4);
    (copy.srcContext, copy.dstContext) = (cuda::current_context()?, cuda::current_context()?);
    Ok(copy)
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        with("array_copies", places, |_, Places { arrays: [to, from], memory: [memory, _], host }| {
            join_errors([
                driver!(cuMemcpyAtoA_v2(to, 0_usize, from, 0_usize, BYTES)),
                driver!(cuMemcpyAtoD_v2(memory, from, 0_usize, BYTES)),
                driver!(cuMemcpyDtoA_v2(to, 0_usize, memory, BYTES)),
                driver!(cuMemcpyAtoH_v2(host, from, 0_usize, BYTES)),
                driver!(cuMemcpyHtoA_v2(to, 0_usize, host, BYTES)),
            ])
        }),
        with("array_copies_async", places, |bench, Places { arrays: [to, from], host, .. }| {
            join_errors([
                driver!(cuMemcpyAtoHAsync_v2(host, from, 0_usize, BYTES, bench.tried_stream)),
                driver!(cuMemcpyHtoAAsync_v2(to, 0_usize, host, BYTES, bench.tried_stream)),
                cuda::synchronize_stream(bench.tried_stream),
            ])
        }),
        with("rectangle_copies", places, |_, Places { memory, .. }| {
            let (flat, deep, between) = (rectangle(memory), block(memory), block_of_contexts(memory)?);
            join_errors([
                driver!(cuMemcpy2D_v2(&raw const flat)),
                driver!(cuMemcpy2DUnaligned_v2(&raw const flat)),
                driver!(cuMemcpy3D_v2(&raw const deep)),
                driver!(cuMemcpy3DPeer(&raw const between)),
            ])
        }),
        with("rectangle_copies_async", places, |bench, Places { memory, .. }| {
            let (flat, deep, between) = (rectangle(memory), block(memory), block_of_contexts(memory)?);
            join_errors([
                driver!(cuMemcpy2DAsync_v2(&raw const flat, bench.tried_stream)),
                driver!(cuMemcpy3DAsync_v2(&raw const deep, bench.tried_stream)),
                driver!(cuMemcpy3DPeerAsync(&raw const between, bench.tried_stream)),
                cuda::synchronize_stream(bench.tried_stream),
            ])
        }),
        with("unified_copies", places, |_, Places { memory: [to, from], .. }| {
            let context = cuda::current_context()?;
            join_errors([
                driver!(cuMemcpy(to, from, BYTES)),
                driver!(cuMemcpyPeer(to, context, from, context, BYTES)),
            ])
        }),
        with("cuMemcpyAsync", places, |bench, Places { memory: [to, from], .. }| {
            driver!(cuMemcpyAsync(to, from, BYTES, bench.tried_stream))?;
            cuda::synchronize_stream(bench.tried_stream)
        }),
        with("cuMemcpyBatchAsync", places, |bench, Places { memory: [mut to, mut from], .. }| {
            // The attributes ask for stream order, without hints.
            let (mut attributes, mut index, mut bytes) = ([1_u64, 0, 0, 0], 0_usize, BYTES);
            driver!(cuMemcpyBatchAsync_v2(
                &raw mut to,
                &raw mut from,
                &raw mut bytes,
                1_usize,
                attributes.as_mut_ptr(),
                &raw mut index,
                1_usize,
                bench.tried_stream
            ))?;
            cuda::synchronize_stream(bench.tried_stream)
        }),
        with("fills", places, |_, Places { memory: [memory, _], .. }| {
            join_errors([
                driver!(cuMemsetD8_v2(memory, 1_u8, BYTES)),
                driver!(cuMemsetD16_v2(memory, 1_u16, BYTES)),
                driver!(cuMemsetD2D8_v2(memory, 1024_usize, 1_u8, 512_usize, 64_usize)),
                driver!(cuMemsetD2D16_v2(memory, 1024_usize, 1_u16, 256_usize, 64_usize)),
                driver!(cuMemsetD2D32_v2(memory, 1024_usize, 1_u32, 128_usize, 64_usize)),
            ])
        }),
        with("fills_async", places, |bench, Places { memory: [memory, _], .. }| {
            let stream = bench.tried_stream;
            join_errors([
                driver!(cuMemsetD8Async(memory, 1_u8, BYTES, stream)),
                driver!(cuMemsetD16Async(memory, 1_u16, BYTES, stream)),
                driver!(cuMemsetD2D8Async(memory, 1024_usize, 1_u8, 512_usize, 64_usize, stream)),
                driver!(cuMemsetD2D16Async(memory, 1024_usize, 1_u16, 256_usize, 64_usize, stream)),
                driver!(cuMemsetD2D32Async(memory, 1024_usize, 1_u32, 128_usize, 64_usize, stream)),
                cuda::synchronize_stream(stream),
            ])
        }),
    ]
}
