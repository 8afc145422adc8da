//! Tests on a GPU that kernels that the driver refuses are reported together, and that all other kernels are
//! warm.

use std::process::ExitCode;

use kernel_registry::{Cause, Failure, HookCause, WarmContext, WarmError, warm_all, warmup};

/// Kernels that cannot be warmed.
mod broken {
    use kernel_registry::gpu_kernel;

    /// A kernel in PTX that uses an undeclared register.
    #[gpu_kernel(image = "images/broken/undeclared_register.ptx", name = "garbled")]
    pub unsafe fn garbled(out: *mut u32);

    /// A kernel with machine code for sm_75 only.
    #[gpu_kernel(image = "images/broken/turing.sm_75.cubin")]
    pub unsafe fn touch(out: *mut u32);

    /// A kernel whose dynamic shared memory would fit the device, but not in addition to the kernel's static
    /// shared memory. The macro can't check this, because PTX doesn't have the total.
    #[gpu_kernel(image = "images/broken/shared.ptx", arch = ">=90", shared = 200 * 1024)]
    pub unsafe fn greedy(out: *mut u32);

    /// A kernel in PTX of a future CUDA version.
    #[gpu_kernel(image = "images/broken/newer.ptx")]
    pub unsafe fn newer(out: *mut u32);

    /// A kernel for a future architecture.
    #[gpu_kernel(image = "images/broken/turing.sm_75.cubin", arch = ">=999", name = "touch")]
    pub unsafe fn tomorrow(out: *mut u32);
}

/// A hook that fails in the same warm-up as the kernels.
#[warmup]
fn without_library(_: &WarmContext<'_>) -> Result<(), &'static str> {
    Err("libnothing.so is not there")
}

kernel_registry::link_kernels!(kernels);

fn main() -> ExitCode {
    tests::simulate_if_told();
    let context = match kernel_registry::context(0) {
        Ok(context) => context,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let error = match warm_all(&context) {
        Err(error) => error,
        Ok(warm) => {
            println!("FAIL everything is warm:\n{}", warm.report());
            return ExitCode::FAILURE;
        }
    };
    println!("{error}\n");
    let WarmError::Kernels { report } = error else { return ExitCode::FAILURE };
    let known = kernel_registry::kernels().map_or(0, <[_]>::len);
    let checks = [
        (
            "garbled",
            has(
                &report.failures,
                broken::garbled::INFO.path(),
                |cause| matches!(cause, Cause::Refused { log, .. } if log.contains("frobnicate")),
            ),
        ),
        (
            "touch",
            has(&report.failures, broken::touch::INFO.path(), |cause| {
                matches!(cause, Cause::NoVariant { .. })
            }),
        ),
        (
            "greedy",
            has(
                &report.failures,
                broken::greedy::INFO.path(),
                |cause| matches!(cause, Cause::Shared { dynamic, .. } if *dynamic == 200 * 1024),
            ),
        ),
        (
            "newer",
            has(&report.failures, broken::newer::INFO.path(), |cause| {
                matches!(cause, Cause::NewPtx { ptx: (9, 9), .. })
            }),
        ),
        ("tomorrow", report.unavailable.iter().any(|kernel| kernel.path == broken::tomorrow::INFO.path())),
        (
            "without_library",
            report.hook_failures.iter().any(|failure| {
                failure.path.ends_with("::without_library")
                    && matches!(&failure.cause, HookCause::Returned { error } if error.contains("libnothing"))
            }),
        ),
        ("the others", report.failures.len() == 4 && report.kernels.len() + 5 == known),
    ];
    for (name, passed) in checks {
        println!("{} {name}", if passed { "ok  " } else { "FAIL" });
    }
    ExitCode::from(u8::from(checks.iter().any(|(_, passed)| !passed)))
}

fn has(failures: &[Failure], path: &str, cause: impl Fn(&Cause) -> bool) -> bool {
    failures.iter().any(|failure| failure.kernel == path && cause(&failure.cause))
}
