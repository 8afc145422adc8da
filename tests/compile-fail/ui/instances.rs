//! Lists of instances, and instances that the image does not have.

mod constant {
    use kernel_registry::gpu_kernel;

    const N: u32 = 32;

    #[gpu_kernel(image = "images/types.ptx", instances(<f32, N>))]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T]);
}

mod missing {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(<f32, 32>, <f32, 64>))]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T]);
}

mod name_missing {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(<f32, 32> = "instance<float, 33u>"))]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T]);
}

mod swapped {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(<32, f32>))]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T]);
}

mod too_few_arguments {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(<f32>))]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T]);
}

mod too_many_arguments {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(<f32, 32, 1>))]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T]);
}

mod twice {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(<f32, 32>, <f32, 32>))]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T]);
}

mod type_missing {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(<i32, 32>))]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T]);
}

mod instances_empty {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances())]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T]);
}

mod instances_none {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T]);
}

mod instances_not_generic {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(<f32>))]
    pub unsafe fn one(n: u32);
}

mod instances_of_no_template {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(<f32>))]
    pub unsafe fn one<T>(n: T);
}

mod instances_with_equals {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances = 3)]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T]);
}

mod instances_without_brackets {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", instances(f32))]
    pub unsafe fn instance<T, const N: u32>(x: &mut [T]);
}

fn main() {}
