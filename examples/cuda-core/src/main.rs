//! The quickstart's kernel in the context, on the stream and on the memory of NVIDIA's `cuda-core`, and the same kernel as cuda-core loads
//! and launches it. `cargo xtask cuda-core` builds this program, and runs it on the simulated driver.

use std::ffi::c_void;
use std::sync::OnceLock;

use cuda_core::{Context, DeviceBuffer, Function, launch_kernel_on_stream};
use kernel_registry::{
    DeviceAddress, LoadError, MainError, WarmContext, borrow_context, gpu_kernel, warm_all, warmup,
};

/// y = a*x + y. The parameters are pointers, because cuda-core's buffers are not cudarc's slices.
#[gpu_kernel(image = "../../cargo-kernels/template/prebuilt/cuda__saxpy.cu.ptx", block = 256)]
pub unsafe fn saxpy(n: u32, a: f32, x: *const f32, y: *mut f32);

const PTX: &str = include_str!("../../../cargo-kernels/template/prebuilt/cuda__saxpy.cu.ptx");

/// The kernel that cuda-core loads. It keeps its module loaded.
static OWN: OnceLock<Function> = OnceLock::new();

/// Makes cuda-core's kernel ready with the registered ones.
#[warmup]
fn own(warm: &WarmContext<'_>) -> Result<(), LoadError> {
    let Some(function) = OWN.get() else { return Ok(()) };
    // SAFETY: `OWN` keeps the module loaded until the program ends.
    unsafe { warm.load_raw(function.cu_function().cast()) }
}

fn main() -> Result<(), MainError> {
    let cuda = Context::new(0)?;
    let module = cuda.load_module_from_ptx_src(PTX)?;
    let function = module.load_function(saxpy::INFO.symbol())?;
    let own = OWN.get_or_init(|| function);

    // SAFETY: it is the device's primary context, which both libraries retain.
    let context = unsafe { borrow_context(cuda.cu_ctx().cast()) }?;
    println!("{}", warm_all(&context)?.report());

    let (mut n, mut a) = (1_u32 << 20, 3.0_f32);
    let stream = cuda.new_stream()?;
    let x = DeviceBuffer::from_host(&stream, &vec![1.0_f32; n as usize])?;
    let y = DeviceBuffer::from_host(&stream, &vec![2.0_f32; n as usize])?;
    let (mut from, mut to) = (x.cu_deviceptr(), y.cu_deviceptr());

    // SAFETY: the stream belongs to this context, and is dropped after `borrowed`.
    let borrowed = unsafe { context.wrap_borrowed_stream(stream.cu_stream().cast()) };
    // SAFETY: both buffers have `n` elements, and are used on this one stream.
    unsafe { saxpy::launch(&borrowed, saxpy::over(n), n, a, DeviceAddress(from), DeviceAddress(to))? };

    let mut args: [*mut c_void; 4] =
        [(&raw mut n).cast(), (&raw mut a).cast(), (&raw mut from).cast(), (&raw mut to).cast()];
    // SAFETY: as above, and these are the arguments that the kernel takes.
    unsafe { launch_kernel_on_stream(own, (n.div_ceil(256), 1, 1), (256, 1, 1), 0, &stream, &mut args)? };

    // Copies on the stream, and waits for it.
    let y = y.to_host_vec(&stream)?;
    assert!(y.iter().all(|y| *y == 8.0));
    println!("computed {n} elements twice, all of them right");
    Ok(())
}
