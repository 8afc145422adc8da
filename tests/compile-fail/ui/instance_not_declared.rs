use kernel_registry::{Kernel, gpu_kernel};

#[gpu_kernel(image = "images/types.ptx", instances(<f32, 32>, <f64, 64>))]
pub unsafe fn instance<T, const N: u32>(x: &mut [T]);

fn path<const N: u32>() -> &'static str
where
    instance<f32, N>: Kernel,
{
    <instance<f32, N> as Kernel>::INFO.path()
}

fn main() {
    let _ = instance::<f64, 32>::INFO;
    path::<33>();
}
