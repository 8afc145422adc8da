//! Instances whose parameters are not those of the image.

mod instance_count {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(<f32, 32>))]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T], n: u32);
}

mod instance_direction {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(<f32, 32>, <f64, 64>))]
    pub unsafe fn instance<T, const N: u32>(x: &[T]);
}

mod instance_parameter {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(<f32, 32>, <f64, 64>))]
    pub unsafe fn instance<T, const N: u32>(x: &mut [f32]);
}

fn main() {}
