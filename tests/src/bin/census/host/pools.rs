//! Rows for memory pools.

use kernel_registry::cudarc::driver::sys;

use crate::bench::Bench;
use crate::cuda::{self, Done, Handle, MIB, create, driver, join_errors};
use crate::host::{row, with};
use crate::row::{Row, attempt};

/// The kind of a location that is a device.
const DEVICE: i32 = 1;

fn own_pool(bench: &Bench) -> Done<sys::CUmemoryPool> {
    cuda::new_pool(bench.device())
}

fn allocated(bench: &Bench, pool: sys::CUmemoryPool) -> Done<u64> {
    let mut memory = 0_u64;
    driver!(cuMemAllocFromPoolAsync(&raw mut memory, MIB, pool, bench.tried_stream))?;
    cuda::synchronize_stream(bench.tried_stream)?;
    Ok(memory)
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        with("cuMemAllocFromPoolAsync", own_pool, |bench, pool| allocated(bench, pool).map(drop)),
        with(
            "cuMemFree_from_pool",
            |bench| allocated(bench, own_pool(bench)?),
            |_, memory| cuda::free(memory),
        ),
        with(
            "cuMemPoolDestroy_used",
            |bench| {
                let pool = own_pool(bench)?;
                let memory = allocated(bench, pool)?;
                cuda::free_async(memory, bench.tried_stream)?;
                cuda::synchronize_stream(bench.tried_stream)?;
                Ok(pool)
            },
            |_, pool| cuda::destroy_pool(pool),
        ),
        with(
            "cuMemPoolDestroy_in_use",
            |bench| {
                let pool = own_pool(bench)?;
                allocated(bench, pool)?;
                Ok(pool)
            },
            |_, pool| cuda::destroy_pool(pool),
        ),
        with("pool_questions", own_pool, |bench, pool| {
            const RELEASE_THRESHOLD: u32 = 4;
            const READ_WRITE: i32 = 3;
            let (mut bytes, mut flags, mut location) = (0_u64, 0_u64, [DEVICE, bench.device()]);
            let access = [DEVICE, bench.device(), READ_WRITE];
            join_errors([
                driver!(cuMemPoolGetAttribute(pool, RELEASE_THRESHOLD, &raw mut bytes)),
                driver!(cuMemPoolSetAttribute(pool, RELEASE_THRESHOLD, &raw mut bytes)),
                driver!(cuMemPoolGetAccess(&raw mut flags, pool, location.as_mut_ptr())),
                driver!(cuMemPoolSetAccess(pool, access.as_ptr(), 1_usize)),
                create!(cuDeviceGetDefaultMemPool(bench.device())).map(drop),
                create!(cuDeviceGetMemPool(bench.device())).map(drop),
                driver!(cuDeviceSetMemPool(bench.device(), pool)),
            ])
        }),
        with("pool_questions_by_location", own_pool, |bench, pool| {
            const PINNED: u32 = 1;
            let mut location = [DEVICE, bench.device()];
            let location = location.as_mut_ptr();
            join_errors([
                create!(cuMemGetDefaultMemPool(location, PINNED)).map(drop),
                create!(cuMemGetMemPool(location, PINNED)).map(drop),
                driver!(cuMemSetMemPool(location, PINNED, pool)),
            ])
        }),
        row("pool_shared", |bench| {
            const FILE_DESCRIPTOR: u32 = 1;
            let mut properties = cuda::pool_properties(bench.device());
            properties.handleTypes = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
            let pool: Handle = create!(cuMemPoolCreate(&raw mut properties))?;
            let memory = allocated(bench, pool.cast())?;
            attempt(move || {
                let (mut descriptor, mut exported, mut imported) = (-1_i32, [0_u64; 8], 0_u64);
                driver!(cuMemPoolExportToShareableHandle(&raw mut descriptor, pool, FILE_DESCRIPTOR, 0_u64))?;
                driver!(cuMemPoolExportPointer(exported.as_mut_ptr(), memory))?;
                let descriptor = std::ptr::without_provenance_mut::<u8>(descriptor as usize);
                let other: Handle =
                    create!(cuMemPoolImportFromShareableHandle(descriptor, FILE_DESCRIPTOR, 0_u64))?;
                driver!(cuMemPoolImportPointer(&raw mut imported, other, exported.as_mut_ptr()))
            })
        }),
    ]
}
