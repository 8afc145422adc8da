//! Rows for virtual memory, for other ways to allocate memory, and for questions about memory.

use std::ffi::c_void;
use std::ptr;

use crate::bench::Bench;
use crate::cuda::{self, Done, Handle, MAPPED, MIB, create, driver, join_errors};
use crate::host::{call, row, with};
use crate::row::{Row, attempt};

pub(crate) fn rows() -> Vec<Row> {
    [mappings(), allocations(), questions()].into_iter().flatten().collect()
}

fn released(bench: &Bench) -> Done<u64> {
    let address = cuda::map(bench.device())?;
    let mut memory = 0_u64;
    driver!(cuMemRetainAllocationHandle(&raw mut memory, address))?;
    // Releases the handle of `map`. The row itself releases the retained handle, which is the last one.
    driver!(cuMemRelease(memory))?;
    driver!(cuMemUnmap(address, MAPPED))?;
    Ok(memory)
}

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const FILE_DESCRIPTOR: u32 = 1;

/// Allocates memory that other processes may use.
fn shareable(bench: &Bench) -> Done<u64> {
    let (mut memory, mut properties) = (0_u64, cuda::shareable(bench.device()));
    driver!(cuMemCreate(&raw mut memory, MAPPED, &raw mut properties, 0_u64))?;
    Ok(memory)
}

fn exported(memory: u64) -> Done<i32> {
    let mut descriptor = -1_i32;
    driver!(cuMemExportToShareableHandle(&raw mut descriptor, memory, FILE_DESCRIPTOR, 0_u64))?;
    Ok(descriptor)
}

fn mappings() -> Vec<Row> {
    vec![
        with(
            "cuMemCreate",
            |bench| Ok(cuda::pinned(bench.device())),
            |_, mut properties| {
                let mut memory = 0_u64;
                driver!(cuMemCreate(&raw mut memory, MAPPED, &raw mut properties, 0_u64))
            },
        ),
        with("cuMemRelease", released, |_, memory| driver!(cuMemRelease(memory))),
        with(
            "cuMemUnmap_and_release",
            |bench| cuda::map(bench.device()),
            |_, address| {
                let mut memory = 0_u64;
                driver!(cuMemRetainAllocationHandle(&raw mut memory, address))?;
                join_errors([
                    driver!(cuMemUnmap(address, MAPPED)),
                    driver!(cuMemRelease(memory)),
                    driver!(cuMemRelease(memory)),
                    driver!(cuMemAddressFree(address, MAPPED)),
                ])
            },
        ),
        with(
            "virtual_memory_questions",
            |bench| cuda::map(bench.device()),
            |bench, address| {
                let mut properties = cuda::pinned(bench.device());
                let (mut memory, mut size, mut flags) = (0_u64, 0_usize, 0_u64);
                driver!(cuMemRetainAllocationHandle(&raw mut memory, address))?;
                let location = &raw mut properties.location;
                join_errors([
                    driver!(cuMemGetAllocationGranularity(&raw mut size, &raw const properties, 0_u32)),
                    driver!(cuMemGetAccess(&raw mut flags, location, address)),
                    driver!(cuMemGetAllocationPropertiesFromHandle(&raw mut properties, memory)),
                ])
            },
        ),
        with("cuMemExportToShareableHandle", shareable, |_, memory| exported(memory).map(drop)),
        with(
            "cuMemImportFromShareableHandle",
            |bench| shareable(bench).and_then(exported),
            |_, descriptor| {
                let (mut memory, descriptor) =
                    (0_u64, ptr::without_provenance_mut::<c_void>(descriptor as usize));
                driver!(cuMemImportFromShareableHandle(&raw mut memory, descriptor, FILE_DESCRIPTOR))?;
                driver!(cuMemRelease(memory))
            },
        ),
    ]
}

fn allocations() -> Vec<Row> {
    vec![
        call("cuMemAllocPitch", |_| {
            let (mut address, mut pitch) = (0_u64, 0_usize);
            driver!(cuMemAllocPitch_v2(&raw mut address, &raw mut pitch, 1000_usize, 1000_usize, 4_u32))
        }),
        call("cuMemAllocHost", |_| create!(cuMemAllocHost_v2(MIB)).map(drop)),
        with(
            "cuMemFreeHost_of_cuMemAllocHost",
            |_| create!(cuMemAllocHost_v2(MIB)),
            |_, memory: Handle| driver!(cuMemFreeHost(memory)),
        ),
        row("cuMemFreeAsync_managed", |bench| {
            let memory = cuda::alloc_managed(MIB)?;
            attempt(move || cuda::free_async(memory, bench.tried_stream))
        })
        .refused(),
    ]
}

fn questions() -> Vec<Row> {
    vec![
        with(
            "memory_questions",
            |_| Ok((cuda::alloc(MIB)?, cuda::alloc_host(MIB)?)),
            |_, (memory, host)| {
                let (mut base, mut size, mut flags) = (0_u64, 0_usize, 0_u32);
                const MEMORY_TYPE: u32 = 2;
                const SYNCHRONOUS: u32 = 6;
                let (mut attribute, mut kind, on) = (MEMORY_TYPE, 0_u32, 1_u32);
                let mut places = [(&raw mut kind).cast::<c_void>()];
                join_errors([
                    driver!(cuMemGetAddressRange_v2(&raw mut base, &raw mut size, memory)),
                    driver!(cuMemHostGetFlags(&raw mut flags, host)),
                    driver!(cuMemHostGetDevicePointer_v2(&raw mut base, host, 0_u32)),
                    driver!(cuPointerGetAttributes(1_u32, &raw mut attribute, places.as_mut_ptr(), memory)),
                    driver!(cuPointerSetAttribute(&raw const on, SYNCHRONOUS, memory)),
                ])
            },
        ),
        with(
            "cuMemGetHandleForAddressRange",
            |bench| cuda::map(bench.device()),
            |_, memory| {
                const DMA_BUF: u32 = 1;
                let mut descriptor = -1_i32;
                driver!(cuMemGetHandleForAddressRange(&raw mut descriptor, memory, MAPPED, DMA_BUF, 0_u64))
            },
        ),
        with(
            "managed_memory_questions",
            |_| cuda::alloc_managed(MIB),
            |_, memory| {
                const READ_MOSTLY: u32 = 1;
                let (mut answer, mut size, mut attribute) = (0_u32, 4_usize, READ_MOSTLY);
                let mut places = [(&raw mut answer).cast::<c_void>()];
                let place = &raw mut answer;
                join_errors([
                    driver!(cuMemRangeGetAttribute(place, size, READ_MOSTLY, memory, MIB)),
                    driver!(cuMemRangeGetAttributes(
                        places.as_mut_ptr(),
                        &raw mut size,
                        &raw mut attribute,
                        1_usize,
                        memory,
                        MIB
                    )),
                ])
            },
        ),
        row("managed_memory_in_batches", |bench| {
            let memory = cuda::alloc_managed(MIB)?;
            attempt(move || {
                let (mut address, mut size, mut index) = (memory, MIB, 0_usize);
                let mut location: [i32; 2] = [1, bench.device()];
                let (address, size, index) = (&raw mut address, &raw mut size, &raw mut index);
                let (location, stream) = (location.as_mut_ptr(), bench.tried_stream);
                join_errors([
                    driver!(cuMemPrefetchBatchAsync(
                        address, size, 1_usize, location, index, 1_usize, 0_u64, stream
                    )),
                    driver!(cuMemDiscardBatchAsync(address, size, 1_usize, 0_u64, stream)),
                    driver!(cuMemDiscardAndPrefetchBatchAsync(
                        address, size, 1_usize, location, index, 1_usize, 0_u64, stream
                    )),
                    cuda::synchronize_stream(stream),
                ])
            })
        }),
        row("cuStreamAttachMemAsync", |bench| {
            let memory = cuda::alloc_managed(MIB)?;
            attempt(move || {
                driver!(cuStreamAttachMemAsync(bench.tried_stream, memory, 0_usize, 4_u32))?;
                cuda::synchronize_stream(bench.tried_stream)
            })
        }),
    ]
}
