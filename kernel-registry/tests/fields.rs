//! Tests the comparison of a Rust struct's fields with the struct in a CUDA source. The compiler evaluates it in constants; these tests
//! run it.

use std::panic::catch_unwind;

use kernel_registry::__private_0_1::checks::{CudaField, fields};
use kernel_registry::KernelParam;

/// The fields of `struct Step { float* x; int n; float a; char b; char c; };`.
const STEP: [CudaField; 5] = [
    ("x", "float* x", 0, 8, false),
    ("n", "int n", 8, 4, false),
    ("a", "float a", 12, 4, true),
    ("b", "char b", 16, 1, false),
    ("c", "char c", 17, 1, false),
];

/// Compares a Rust type with `Step`. Returns the part of the message that names the fields.
fn compared<T: KernelParam>() -> Result<(), String> {
    let compared = catch_unwind(|| fields::<T>(24, 8, &STEP, "wrong"));
    let rest = |message: &String| {
        let message = message.strip_prefix("wrong; ").expect("the message of the declaration");
        message
            .strip_suffix(" there: declare the fields in CUDA's order, with CUDA's types")
            .map(str::to_owned)
    };
    compared.map_err(|payload| payload.downcast_ref().and_then(rest).expect("the remedy"))
}

macro_rules! steps {
    ($($name:ident { $($field:ident: $ty:ty),+ $(,)? })+) => {
        $(
            #[derive(Clone, Copy, KernelParam)]
            #[repr(C)]
            struct $name {
                $($field: $ty),+
            }
        )+
    };
}

steps! {
    Same { x: *mut f32, n: i32, a: f32, b: i8, c: u8 }
    OtherNames { r#in: *const f32, count: i32, factor: f32, first: i8, second: i8 }
    Signs { x: u64, n: u32, a: f32, b: u8, c: bool }
    Padded { x: *mut f32, n: i32, a: f32, b: i8, c: i8, pad: [u8; 6] }
    Nested { x: *mut f32, rest: [Pair; 1], flags: [u8; 2] }
    Pair { n: i32, a: f32 }
    Empty { none: [u64; 0], x: *mut f32, n: i32, a: f32, b: i8, c: i8 }
    Swapped { x: *mut f32, a: f32, n: i32, b: i8, c: i8 }
    SwappedAlike { x: *mut f32, n: i32, a: f32, c: i8, b: i8 }
    Shorter { x: *mut f32, n: i16, a: f32, b: i8, c: i8 }
    Longer { x: *mut f32, n: i64, b: i8, c: i8 }
    NotFloat { x: *mut f32, n: i32, a: u32, b: i8, c: i8 }
    Missing { x: *mut f32, n: i32, a: f32, b: i8 }
}

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
struct Tuple<T>(T, i32, f32, i8, i8);

#[derive(Clone, Copy)]
#[repr(C)]
struct ByHand(u64, f32, f32, f32);

// SAFETY: no kernel is launched with this type.
unsafe impl KernelParam for ByHand {}

#[test]
fn fields_that_match_the_source_are_accepted() {
    assert_eq!(compared::<Same>(), Ok(()));
    assert_eq!(compared::<OtherNames>(), Ok(()));
    assert_eq!(compared::<Signs>(), Ok(()));
    assert_eq!(compared::<Padded>(), Ok(()));
    assert_eq!(compared::<Nested>(), Ok(()));
    assert_eq!(compared::<Empty>(), Ok(()));
    assert_eq!(compared::<Tuple<*mut f32>>(), Ok(()));
    assert_eq!(compared::<ByHand>(), Ok(()));
}

#[test]
fn fields_that_do_not_match_the_source_are_refused() {
    let refused = |compared: Result<(), String>, message: &str| assert_eq!(compared, Err(message.to_owned()));
    refused(compared::<Swapped>(), "`a: f32` is at byte 8 here, and `int n` at byte 8");
    refused(compared::<SwappedAlike>(), "`b: i8` is at byte 17 here, and `char b` at byte 16");
    refused(compared::<Shorter>(), "`n: i16` is at byte 8 here, and `int n` at byte 8");
    refused(compared::<Longer>(), "`n: i64` is at byte 8 here, and `int n` at byte 8");
    refused(compared::<NotFloat>(), "`a: u32` is at byte 12 here, and `float a` at byte 12");
    refused(compared::<Missing>(), "no field is there here for `char c` at byte 17");
    refused(compared::<Tuple<f64>>(), "`0: T` is at byte 0 here, and `float* x` at byte 0");
}
