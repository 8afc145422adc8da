//! Rows about the stack: first launches of kernels with recursion, device launches or callees, and launches
//! after changes of the stack limit.

use census_kernels::callee::{frame_behind_pointer, frame_in_callee, large_parameters};
use census_kernels::earlier::earlier_nothing;
use census_kernels::plain::{frame_2k, small};
use census_kernels::recursive::{recurses_8k, recurses_800, recurses_1600};
use census_kernels::{launches_beside_frame, launches_frame_8k, launches_small, recurses_deep};
use kernel_registry::KernelInfo;
use kernel_registry::cudarc::driver::sys::CUlimit_enum as Limit;

use crate::cuda::{self, Done, FunctionAttribute};
use crate::first::{after, again, first};
use crate::resident::ResidentWork;
use crate::row::{Row, Subject, attempt};

const KIB: usize = 1024;

pub(crate) fn rows() -> Vec<Row> {
    [recursion(), device_launch(), callees(), up_and_down()].into_iter().flatten().collect()
}

fn set_stack(bytes: usize) -> Done {
    cuda::set_limit(Limit::CU_LIMIT_STACK_SIZE, bytes)
}

/// Returns a row for the first launch after the stack limit is set to `bytes`. A warmed row does not set the
/// limit.
fn limited(name: &str, kernel: &'static KernelInfo, bytes: usize) -> Row {
    Row::launch(Subject::FirstLaunch, name, move |bench| {
        let function = bench.loaded(kernel)?;
        if !bench.warmed {
            set_stack(bytes)?;
        }
        attempt(move || bench.launch(function))
    })
}

/// Returns a row for the first launch after the stack limit is set to the kernel's `LOCAL_SIZE_BYTES`. A
/// warmed row does not set the limit.
fn limited_as_told(name: &str, kernel: &'static KernelInfo) -> Row {
    Row::launch(Subject::FirstLaunch, name, move |bench| {
        let function = bench.loaded(kernel)?;
        let which = FunctionAttribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
        let told = cuda::function_attribute(function, which)?.unsigned_abs() as usize;
        if !bench.warmed {
            set_stack(told.max(KIB))?;
        }
        attempt(move || bench.launch(function))
    })
}

/// Returns rows for kernels with recursion, for which the driver reports that they need no stack.
fn recursion() -> Vec<Row> {
    vec![
        first("recursion/800", recurses_800::INFO),
        first("recursion/1600", recurses_1600::INFO),
        first("recursion/8k", recurses_8k::INFO),
        again("recursion/8k_again", recurses_8k::INFO),
        limited("recursion/1600_after_limit_4k", recurses_1600::INFO, 4 * KIB),
        limited("recursion/8k_after_limit_4k", recurses_8k::INFO, 4 * KIB),
        limited("recursion/8k_after_limit_12k", recurses_8k::INFO, 12 * KIB),
        limited_as_told("recursion/8k_after_attribute", recurses_8k::INFO),
        after("recursion/1600_after_8k", recurses_1600::INFO, |bench| {
            bench.launch_and_wait(bench.loaded(recurses_8k::INFO)?)
        }),
        after("recursion/frame_after_8k", frame_2k::INFO, |bench| {
            bench.launch_and_wait(bench.loaded(recurses_8k::INFO)?)
        }),
        // Without the limit, the kernel would overflow its stack.
        limited("recursion/declared", recurses_deep::INFO, 24 * KIB),
    ]
}

/// Returns rows for kernels that could launch other kernels, but never do here.
fn device_launch() -> Vec<Row> {
    vec![
        first("device_launch/small", launches_small::INFO),
        first("device_launch/child_frame_8k", launches_frame_8k::INFO),
        again("device_launch/child_frame_8k_again", launches_frame_8k::INFO),
        limited("device_launch/child_frame_8k_after_limit_2k", launches_frame_8k::INFO, 2 * KIB),
        limited("device_launch/child_frame_8k_after_limit_8k", launches_frame_8k::INFO, 8 * KIB),
        limited_as_told("device_launch/child_frame_8k_after_attribute", launches_frame_8k::INFO),
        first("device_launch/other_frame_12k", launches_beside_frame::INFO),
        limited("device_launch/other_frame_12k_after_limit_8k", launches_beside_frame::INFO, 8 * KIB),
        limited("device_launch/other_frame_12k_after_limit_12k", launches_beside_frame::INFO, 12 * KIB),
    ]
}

/// Returns rows for kernels whose whole stack the driver's attribute reports.
fn callees() -> Vec<Row> {
    vec![
        first("callee/frame_2k", frame_in_callee::INFO),
        limited_as_told("callee/frame_2k_after_attribute", frame_in_callee::INFO),
        first("callee/frame_2k_behind_pointer", frame_behind_pointer::INFO),
        limited_as_told("callee/frame_2k_behind_pointer_after_attribute", frame_behind_pointer::INFO),
        first("callee/large_parameters", large_parameters::INFO),
    ]
}

/// Returns rows for the first launch after the stack limit changed, while a stream waits. A resident kernel
/// can't be used here, because its own launch would be the first. After warming, none of these rows waits:
/// warming has loaded kernels that launch kernels, and then the driver does all its work when the limit is
/// set.
fn up_and_down() -> Vec<Row> {
    vec![
        next("stack/raised", &[7 * KIB]),
        next("stack/lowered_and_raised_again", &[7 * KIB, 0, 7 * KIB]),
        next("stack/lowered_and_raised_halfway", &[7 * KIB, 0, 3 * KIB]),
        next("stack/set_to_what_it_is", &[0]),
        with_device_launch("stack/raised_beside_device_launch", &[7 * KIB]),
        with_device_launch("stack/lowered_beside_device_launch", &[7 * KIB, 0]),
    ]
}

/// Returns a row that changes the stack limit while a kernel that launches kernels is loaded.
fn with_device_launch(name: &str, more: &'static [usize]) -> Row {
    let row = Row::launch(Subject::FirstLaunch, name, move |bench| {
        let function = bench.loaded(small::INFO)?;
        bench.loaded(launches_small::INFO)?;
        bench.run_earlier(earlier_nothing::INFO, false, bench.tried_stream)?;
        change_stack(more)?;
        attempt(move || bench.launch(function))
    });
    row.during(ResidentWork::PendingWait)
}

/// Sets the stack limit to each of these values in turn, given as bytes above the current limit.
fn change_stack(more: &[usize]) -> Done {
    let before = cuda::limit(Limit::CU_LIMIT_STACK_SIZE)?;
    more.iter().try_for_each(|bytes| set_stack(before + bytes))
}

/// Returns a row for the first launch after these changes of the limit.
fn next(name: &str, more: &'static [usize]) -> Row {
    let row = Row::launch(Subject::FirstLaunch, name, move |bench| {
        let function = bench.loaded(small::INFO)?;
        bench.run_earlier(earlier_nothing::INFO, false, bench.tried_stream)?;
        change_stack(more)?;
        attempt(move || bench.launch(function))
    });
    row.during(ResidentWork::PendingWait)
}
