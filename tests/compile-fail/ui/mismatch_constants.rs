//! Mismatches that only the compiler can find, in types that aliases stand for and in values of constants.

mod alias {
    use kernel_registry::gpu_kernel;

    type Real = f64;
    type Count = i32;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn floats(a: Real, b: Real);

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn one(n: Count);
}

mod alias_in_slice {
    use kernel_registry::gpu_kernel;

    type Number = u32;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn pointers(
        a: &[Number],
        out: &mut [f32],
        any: *mut u8,
        numbers: &[i32],
        pairs: *mut u8,
        rows: *mut *mut f32,
    );
}

mod block_of_image_constant {
    use kernel_registry::gpu_kernel;

    const THREADS: u32 = 256;

    #[gpu_kernel(image = "images/types.ptx", block = THREADS)]
    pub unsafe fn bounded(n: u32);
}

mod cuda_types {
    use kernel_registry::gpu_kernel;
    use kernel_registry::types::{Float2, Float4, Int4, Uint2};

    #[gpu_kernel(image = "images/vectors.ptx")]
    pub unsafe fn move_all(positions: &mut [Int4], ids: &[Float2]);

    #[gpu_kernel(image = "images/vectors.ptx", name = "move_all")]
    pub unsafe fn right(positions: &mut [Float4], ids: &[Uint2]);
}

mod shared_constant {
    use kernel_registry::gpu_kernel;

    const BINS: u32 = 25_000;

    #[gpu_kernel(image = "images/types.ptx", shared = 4 * BINS)]
    pub unsafe fn one(n: u32);
}

mod struct_alignment {
    use kernel_registry::{KernelParam, gpu_kernel};

    #[derive(Clone, Copy, KernelParam)]
    #[repr(C)]
    pub struct Pair {
        pub a: f32,
        pub b: u32,
    }

    #[derive(Clone, Copy, KernelParam)]
    #[repr(C)]
    pub struct Wide(pub [f32; 4]);

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn structs(pair: Pair, wide: Wide, mode: u32);
}

mod struct_for_number {
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
    pub unsafe fn floats(a: f32, b: Pair);
}

mod struct_size {
    use kernel_registry::{KernelParam, gpu_kernel};

    #[derive(Clone, Copy, KernelParam)]
    #[repr(C)]
    pub struct Pair {
        pub a: f32,
        pub b: u64,
    }

    #[derive(Clone, Copy, KernelParam)]
    #[repr(C, align(16))]
    pub struct Wide(pub [f32; 4]);

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn structs(pair: Pair, wide: Wide, mode: u32);
}

mod block_constant {
    use kernel_registry::gpu_kernel;

    const BLOCK: u32 = 4096;

    #[gpu_kernel(image = "images/saxpy.ptx", block = BLOCK)]
    pub unsafe fn saxpy(n: u32);
}

mod stack_constant {
    use kernel_registry::gpu_kernel;

    const DEPTH: u32 = 1000;

    #[gpu_kernel(image = "images/types.ptx", stack = 1024 * DEPTH)]
    pub unsafe fn one(n: u32);
}

fn main() {}
