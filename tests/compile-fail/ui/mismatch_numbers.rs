//! Numbers that are not those of the image.

mod integer_for_bool {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn integers(
        a: u8,
        b: i8,
        c: i8,
        d: u8,
        e: i16,
        f: u16,
        g: i32,
        h: u32,
        i: i64,
        j: u64,
        k: i64,
        l: u64,
    );
}

mod double_for_float {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn floats(a: f64, b: f64);
}

mod of_enum {
    use kernel_registry::{KernelParam, gpu_kernel};

    #[derive(Clone, Copy, KernelParam)]
    #[repr(C)]
    pub struct Pair {
        pub a: f32,
        pub b: u32,
    }

    #[derive(Clone, Copy, KernelParam)]
    #[repr(C, align(16))]
    pub struct Wide(pub [f32; 4]);

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn structs(pair: Pair, wide: Wide, mode: u8);
}

mod float_for_double {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn floats(a: f32, b: f32);
}

mod floats {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn floats(a: f64, b: f32);
}

mod integer_for_float {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn floats(a: u32, b: f64);
}

mod integer_for_pointer {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn pointers(
        a: u64,
        out: &mut [f32],
        any: *mut u8,
        numbers: &[i32],
        pairs: *mut u8,
        rows: *mut *mut f32,
    );
}

mod integers {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn integers(
        a: u8,
        b: u16,
        c: u8,
        d: i8,
        e: u16,
        f: i16,
        g: u32,
        h: i32,
        i: u64,
        j: i64,
        k: f64,
        l: i64,
    );
}

mod narrow_integer {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn integers(
        a: bool,
        b: i8,
        c: i8,
        d: u8,
        e: i16,
        f: u16,
        g: i32,
        h: u32,
        i: i32,
        j: u64,
        k: i64,
        l: u64,
    );
}

mod pointer_for_integer {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn one(n: *const u32);
}

mod signed_for_unsigned {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn integers(
        a: bool,
        b: i8,
        c: i8,
        d: u8,
        e: i16,
        f: u16,
        g: i32,
        h: u32,
        i: i64,
        j: i64,
        k: i64,
        l: u64,
    );
}

mod unsigned_for_signed {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn integers(
        a: bool,
        b: i8,
        c: i8,
        d: u8,
        e: i16,
        f: u16,
        g: u32,
        h: u32,
        i: i64,
        j: u64,
        k: i64,
        l: u64,
    );
}

mod vector {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/vectors.ptx")]
    pub unsafe fn move_all(positions: &mut [[f32; 4]], ids: &[u32]);
}

mod wide_integer {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn integers(
        a: bool,
        b: i8,
        c: i8,
        d: u8,
        e: i16,
        f: u16,
        g: i32,
        h: usize,
        i: i64,
        j: u64,
        k: i64,
        l: u64,
    );
}

fn main() {}
