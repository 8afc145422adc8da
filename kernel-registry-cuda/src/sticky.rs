//! Lists sticky errors: results of the driver after which a process can no longer use CUDA until it is
//! restarted.

/// Each sticky result of the driver, with what happened.
///
/// For all but two of these results, `cuda.h` says that the process "must be terminated and relaunched". The
/// first exception is a failed assertion: `cuda.h` says that only the context is lost, but NVIDIA's driver
/// also refuses every other context of the process. The second is an uncorrectable memory error: `cuda.h`
/// says nothing, and the driver ends the contexts of all processes that use the device.
pub const STICKY: [(u32, &str); 12] = [
    (214, "the device found a memory error that it could not correct"), // CUDA_ERROR_ECC_UNCORRECTABLE
    (226, "the device contained an error of its hardware or of a peer"), // CUDA_ERROR_CONTAINED
    (700, "a kernel used an illegal address"),                          // CUDA_ERROR_ILLEGAL_ADDRESS
    (702, "a kernel ran longer than the system allows"),                // CUDA_ERROR_LAUNCH_TIMEOUT
    (710, "an assertion of a kernel failed"),                           // CUDA_ERROR_ASSERT
    (714, "a kernel overran its call stack"),                           // CUDA_ERROR_HARDWARE_STACK_ERROR
    (715, "a kernel met an illegal instruction"),                       // CUDA_ERROR_ILLEGAL_INSTRUCTION
    (716, "a kernel used a misaligned address"),                        // CUDA_ERROR_MISALIGNED_ADDRESS
    (717, "a kernel used an address in a wrong space"),                 // CUDA_ERROR_INVALID_ADDRESS_SPACE
    (718, "a kernel's program counter left its code"),                  // CUDA_ERROR_INVALID_PC
    (719, "a kernel failed"),                                           // CUDA_ERROR_LAUNCH_FAILED
    (721, "a kernel ended without freeing its tensor memory"),          // CUDA_ERROR_TENSOR_MEMORY_LEAK
];

/// The smallest of these results.
pub const LEAST: u32 = STICKY[0].0;

/// Returns the reason for a sticky result of the driver, or `None` if the result is not sticky.
pub fn reason(result: u32) -> Option<&'static str> {
    STICKY.iter().find(|(sticky, _)| *sticky == result).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_kernels_and_devices_are_sticky_and_others_are_not() {
        assert!(STICKY.is_sorted());
        assert_eq!(reason(700), Some("a kernel used an illegal address"));
        assert!([214, 719].map(reason).iter().all(Option::is_some));
        // Success, out of memory, invalid image, not ready, and unknown error.
        assert!([0, 2, 200, 600, 999].map(reason).iter().all(Option::is_none));
    }
}
