//! The root of a library that needs no other: what the compiler expects of the C library and of the standard library.

#![no_std]
// The compiler would turn the loop of `memcmp` into a call of `memcmp`.
#![no_builtins]

use core::ffi::c_int;
use core::panic::PanicInfo;

/// Compares slices.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> c_int {
    for index in 0..count {
        // SAFETY: the compiler passes the addresses of so many bytes.
        let (one, other) = unsafe { (one.add(index).read(), other.add(index).read()) };
        if one != other {
            return c_int::from(one) - c_int::from(other);
        }
    }
    0
}

/// Core's tables for unwinding name this function. Nothing here unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// The library's code doesn't panic unless the loader's tables are wrong.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

