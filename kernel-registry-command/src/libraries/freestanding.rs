//! The root of a library without dependencies: everything that the compiler expects from the C library and std.

#![no_std]
// Otherwise the compiler would turn the loop in `memcmp` into a call of `memcmp`.
#![no_builtins]

use core::ffi::c_int;
use core::panic::PanicInfo;

/// Compares slices.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> c_int {
    for index in 0..count {
        // SAFETY: the compiler passes the addresses of `count` bytes.
        let (one, other) = unsafe { (one.add(index).read(), other.add(index).read()) };
        if one != other {
            return c_int::from(one) - c_int::from(other);
        }
    }
    0
}

/// Core's unwind tables refer to this function. Nothing here unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Called only if the loader's tables are corrupt.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

