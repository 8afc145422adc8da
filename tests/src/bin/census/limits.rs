//! Rows for limits that the driver refuses to set after the launch of a kernel that depends on them.

use census_kernels::plain::{allocates, prints, small};
use census_kernels::special::asserts;
use kernel_registry::KernelInfo;
use kernel_registry::cudarc::driver::sys::{CUlimit, CUlimit_enum as Limit};

use crate::cuda::{self, Done, MIB};
use crate::row::{Row, Subject, attempt};

pub(crate) fn rows() -> Vec<Row> {
    const PRINTF: CUlimit = Limit::CU_LIMIT_PRINTF_FIFO_SIZE;
    const HEAP: CUlimit = Limit::CU_LIMIT_MALLOC_HEAP_SIZE;
    vec![
        after("limit/printf_after_other", PRINTF, small::INFO),
        after("limit/printf_after_printf", PRINTF, prints::INFO).refused(),
        after("limit/printf_after_assert", PRINTF, asserts::INFO).refused(),
        after("limit/printf_after_malloc", PRINTF, allocates::INFO),
        after("limit/heap_after_other", HEAP, small::INFO),
        after("limit/heap_after_printf", HEAP, prints::INFO),
        after("limit/heap_after_malloc", HEAP, allocates::INFO).refused(),
    ]
}

/// Returns a row that sets a limit after the first launch of a kernel.
fn after(name: &str, limit: CUlimit, kernel: &'static KernelInfo) -> Row {
    Row::call(Subject::HostCall, name, move |bench| {
        bench.launch_and_wait(bench.loaded(kernel)?)?;
        attempt(move || set(limit))
    })
}

fn set(limit: CUlimit) -> Done {
    cuda::set_limit(limit, 16 * MIB)
}
