//! Images with kernels that do nothing: `cuda/*.cu`. Launching them makes the driver set up what first launches wait for. Each takes one `int`, and does
//! nothing with 0.
//!
//! They have machine code for sm_70, sm_80 and sm_90, and PTX for others. Compiling the smallest takes the driver 10 ms, and 75 ms in the
//! first process after boot.

use core::ffi::CStr;

/// Kernels that contain printf and assert: [`PRINTF`] and [`ASSERT`].
pub static OUTPUT: &[u8] = include_bytes!("../cuda/output.fatbin");

/// The same, and one that contains malloc: [`MALLOC`]. Loading it takes memory for the heap.
pub static SPECIAL: &[u8] = include_bytes!("../cuda/prime.fatbin");

/// A kernel that contains none of these: [`FIRST`].
pub static PLAIN: &[u8] = include_bytes!("../cuda/first.fatbin");

/// The kernel with printf.
pub const PRINTF: &CStr = c"prime_printf";
/// The kernel with assert.
pub const ASSERT: &CStr = c"prime_assert";
/// The kernel with malloc.
pub const MALLOC: &CStr = c"prime_malloc";
/// The kernel of the plain image.
pub const FIRST: &CStr = c"first";
