//! Rows for copies and for setting memory, with and without a stream: arrays, rectangles, and the other sizes of words.

use kernel_registry::cudarc::driver::sys;

use crate::bench::Bench;
use crate::cuda::{self, Done, Handle, MIB, all, device_copy, driver};
use crate::host::{arrays, with};
use crate::row::Row;

/// A row of an array.
const BYTES: usize = 4096;

/// Two arrays, two places on the device, and two on the host.
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

/// A rectangle of one place on the device to be copied to another.
fn rectangle([to, from]: [u64; 2]) -> sys::CUDA_MEMCPY2D {
    let mut copy = device_copy!(CUDA_MEMCPY2D);
    (copy.srcDevice, copy.dstDevice) = (from, to);
    (copy.srcPitch, copy.dstPitch, copy.WidthInBytes, copy.Height) = (1024, 1024, 512, 64);
    copy
}

/// A box of one place on the device to be copied to another.
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
            all([
                driver!(cuMemcpyAtoA_v2(to, 0_usize, from, 0_usize, BYTES)),
                driver!(cuMemcpyAtoD_v2(memory, from, 0_usize, BYTES)),
                driver!(cuMemcpyDtoA_v2(to, 0_usize, memory, BYTES)),
                driver!(cuMemcpyAtoH_v2(host, from, 0_usize, BYTES)),
                driver!(cuMemcpyHtoA_v2(to, 0_usize, host, BYTES)),
            ])
        }),
        with("array_copies_async", places, |bench, Places { arrays: [to, from], host, .. }| {
            all([
                driver!(cuMemcpyAtoHAsync_v2(host, from, 0_usize, BYTES, bench.ours)),
                driver!(cuMemcpyHtoAAsync_v2(to, 0_usize, host, BYTES, bench.ours)),
                cuda::synchronize_stream(bench.ours),
            ])
        }),
        with("rectangle_copies", places, |_, Places { memory, .. }| {
            let (flat, deep, between) = (rectangle(memory), block(memory), block_of_contexts(memory)?);
            all([
                driver!(cuMemcpy2D_v2(&raw const flat)),
                driver!(cuMemcpy2DUnaligned_v2(&raw const flat)),
                driver!(cuMemcpy3D_v2(&raw const deep)),
                driver!(cuMemcpy3DPeer(&raw const between)),
            ])
        }),
        with("rectangle_copies_async", places, |bench, Places { memory, .. }| {
            let (flat, deep, between) = (rectangle(memory), block(memory), block_of_contexts(memory)?);
            all([
                driver!(cuMemcpy2DAsync_v2(&raw const flat, bench.ours)),
                driver!(cuMemcpy3DAsync_v2(&raw const deep, bench.ours)),
                driver!(cuMemcpy3DPeerAsync(&raw const between, bench.ours)),
                cuda::synchronize_stream(bench.ours),
            ])
        }),
        with("unified_copies", places, |_, Places { memory: [to, from], .. }| {
            let context = cuda::current_context()?;
            all([
                driver!(cuMemcpy(to, from, BYTES)),
                driver!(cuMemcpyPeer(to, context, from, context, BYTES)),
            ])
        }),
        with("cuMemcpyAsync", places, |bench, Places { memory: [to, from], .. }| {
            driver!(cuMemcpyAsync(to, from, BYTES, bench.ours))?;
            cuda::synchronize_stream(bench.ours)
        }),
        with("cuMemcpyBatchAsync", places, |bench, Places { memory: [mut to, mut from], .. }| {
            // In stream order, and no hints.
            let (mut attributes, mut index, mut bytes) = ([1_u64, 0, 0, 0], 0_usize, BYTES);
            driver!(cuMemcpyBatchAsync_v2(
                &raw mut to,
                &raw mut from,
                &raw mut bytes,
                1_usize,
                attributes.as_mut_ptr(),
                &raw mut index,
                1_usize,
                bench.ours
            ))?;
            cuda::synchronize_stream(bench.ours)
        }),
        with("fills", places, |_, Places { memory: [memory, _], .. }| {
            all([
                driver!(cuMemsetD8_v2(memory, 1_u8, BYTES)),
                driver!(cuMemsetD16_v2(memory, 1_u16, BYTES)),
                driver!(cuMemsetD2D8_v2(memory, 1024_usize, 1_u8, 512_usize, 64_usize)),
                driver!(cuMemsetD2D16_v2(memory, 1024_usize, 1_u16, 256_usize, 64_usize)),
                driver!(cuMemsetD2D32_v2(memory, 1024_usize, 1_u32, 128_usize, 64_usize)),
            ])
        }),
        with("fills_async", places, |bench, Places { memory: [memory, _], .. }| {
            let stream = bench.ours;
            all([
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
