//! Types that no kernel takes.

mod fat_pointers {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub unsafe fn saxpy(a: *const [f32], b: *mut dyn Send, c: *const str, d: &[[f32]]);
}

mod not_by_value {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub unsafe fn saxpy(
        a: [f32; 4],
        b: (u32, f32),
        c: fn(u32) -> u32,
        d: impl Copy,
        e: [f32],
        f: _,
        g: !,
    );
}

mod optional {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/axpy.ptx", name = "saxpy")]
    pub unsafe fn refused(n: Option<u32>, a: Option<&f32>, x: Option<*const f32>, y: Option<&'static mut [f32]>);

    #[gpu_kernel(image = "images/vectors.ptx", name = "move_all")]
    pub unsafe fn compared(positions: Option<&[[f32; 4]]>, ids: std::option::Option<&[u32]>);
}

mod references {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub unsafe fn saxpy(
        a: &f32,
        b: &mut u32,
        c: &'static [f32],
        d: &[f32; 4],
        e: &str,
    );
}

fn main() {}
