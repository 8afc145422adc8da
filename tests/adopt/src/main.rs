//! Loads images with cudarc, as candle does, and says `adopted` if those that are warm were not loaded again. `cargo xtask adopt`
//! links it with stubs of the driver, and runs it on the simulated one.

mod images;

use std::error::Error;
use std::ffi::CString;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use images::{COUNTING, CUT, SMALL, counting, cut, small};
use kernel_registry::cudarc::driver::{CudaContext, CudaFunction, LaunchConfig, PushKernelArg, result, sys};
use kernel_registry::cudarc::nvrtc::Ptx;
use kernel_registry::{KernelInfo, Late, RuntimeImage, Warmup, warm_all};
use sys::{CUjit_option, CUmodule, CUresult};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    kernel_registry::context(0)?;
    let context = CudaContext::new(0)?;
    let kernels = small_image(&context)?;
    unloads(&context, &kernels)?;
    options(&context)?;
    other_context(&kernels)?;
    pieces(&context)?;
    whole(&other()?)?;
    variables(&context)?;
    panics(&other()?)?;
    println!("adopted");
    Ok(())
}

/// Returns a context of the device.
fn other() -> Outcome<Arc<CudaContext>> {
    let device = result::device::get(0)?;
    let mut context = ptr::null_mut();
    // SAFETY: the context is new, and the `CudaContext` owns it from here on.
    unsafe {
        sys::cuCtxCreate_v4(&mut context, ptr::null_mut(), 0, device).result()?;
        Ok(CudaContext::from_raw_context(0, device, context)?)
    }
}

/// Loads an image as others do, and takes one of its kernels.
fn load(context: &Arc<CudaContext>, image: &str, kernel: &str) -> Outcome<CudaFunction> {
    Ok(context.load_module(Ptx::from_src(image))?.load_function(kernel)?)
}

/// Launches a kernel, which writes the number by which it is called.
fn run(context: &Arc<CudaContext>, function: &CudaFunction) -> Outcome<u32> {
    let stream = context.new_stream()?;
    let mut numbers = stream.alloc_zeros::<u32>(1)?;
    let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: each kernel writes the number that its only parameter points to.
    unsafe { stream.launch_builder(function).arg(&mut numbers).launch(one)? };
    Ok(stream.clone_dtoh(&numbers)?[0])
}

/// Loads an image, and returns its module.
fn module(context: &Arc<CudaContext>, image: &str) -> Outcome<CUmodule> {
    context.bind_to_thread()?;
    let text = CString::new(image)?;
    // SAFETY: PTX ends with a zero.
    Ok(unsafe { result::module::load_data(text.as_ptr().cast())? })
}

/// Returns whether the function is that of the registry.
fn is_adopted(
    context: &Arc<CudaContext>,
    function: &CudaFunction,
    kernel: &'static KernelInfo,
) -> Outcome<bool> {
    Ok(function.cu_function() == kernel.cu_function(context)?)
}

fn small_image(context: &Arc<CudaContext>) -> Outcome<Vec<&'static KernelInfo>> {
    let image = small(1);
    let early = load(context, &image, "k0")?;
    let kernels = RuntimeImage::new(SMALL, &*image).adopt().register()?;
    let before = load(context, &image, "k0")?;
    warm_all(context)?;
    for before in [&early, &before] {
        assert!(!is_adopted(context, before, kernels[0])?, "loaded before the warm-up");
        assert_eq!(run(context, before)?, 1000);
    }
    for (number, kernel) in kernels.iter().enumerate() {
        let function = load(context, &image, &format!("k{number}"))?;
        assert!(is_adopted(context, &function, kernel)?);
        assert_eq!(run(context, &function)?, 1000 + number as u32);
    }
    assert!(load(context, &image, "k9").is_err(), "no such kernel");
    // An image that nobody has registered, of the same length.
    let other = small(2);
    assert_eq!(other.len(), image.len());
    assert_eq!(run(context, &load(context, &other, "k0")?)?, 2000);
    Ok(kernels)
}

fn unloads(context: &Arc<CudaContext>, kernels: &[&'static KernelInfo]) -> Outcome {
    let image = small(1);
    let handles = [module(context, &image)?, module(context, &image)?];
    assert_eq!(handles[0], handles[1]);
    // SAFETY: nobody uses a function of the module afterwards, and the last call is to fail.
    let results = [(); 3].map(|()| unsafe { sys::cuModuleUnload(handles[0]) });
    let success = CUresult::CUDA_SUCCESS;
    assert_eq!(results, [success, success, CUresult::CUDA_ERROR_INVALID_HANDLE]);
    let function = load(context, &image, "k1")?;
    assert!(is_adopted(context, &function, kernels[1])?);
    assert_eq!(run(context, &function)?, 1001);
    // The module of another image is really unloaded.
    let other = module(context, &small(2))?;
    // SAFETY: as above.
    let results = [(); 2].map(|()| unsafe { sys::cuModuleUnload(other) });
    assert!(results[0] == success && results[1] != success, "{results:?}");
    Ok(())
}

fn options(context: &Arc<CudaContext>) -> Outcome {
    let adopted = module(context, &small(1))?;
    let text = CString::new(small(1))?;
    let load = |options: &mut [CUjit_option], values: &mut [usize]| -> Outcome<CUmodule> {
        let (mut module, count) = (ptr::null_mut(), options.len() as u32);
        let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr().cast());
        // SAFETY: there are as many values as options, and PTX ends with a zero.
        unsafe { sys::cuModuleLoadDataEx(&mut module, text.as_ptr().cast(), count, options, values) }
            .result()?;
        Ok(module)
    };
    assert_eq!(load(&mut [], &mut [])?, adopted);
    let mut log = [1_u8; 64];
    let mut values = [log.as_mut_ptr().addr(), log.len()];
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    assert_eq!(load(&mut options, &mut values)?, adopted);
    assert_eq!(values[1], 0, "bytes of the log");
    assert_ne!(load(&mut [CUjit_option::CU_JIT_OPTIMIZATION_LEVEL], &mut [2])?, adopted);
    Ok(())
}

fn other_context(kernels: &[&'static KernelInfo]) -> Outcome {
    let image = small(1);
    for _ in 0..3 {
        let context = other()?;
        assert_eq!(run(&context, &load(&context, &image, "k2")?)?, 1002, "not warm there");
        warm_all(&context)?;
        let function = load(&context, &image, "k2")?;
        assert!(is_adopted(&context, &function, kernels[2])?);
        assert_eq!(run(&context, &function)?, 1002);
    }
    Ok(())
}

fn pieces(context: &Arc<CudaContext>) -> Outcome {
    let image = cut();
    let kernels = RuntimeImage::new(CUT, &*image).adopt().register()?;
    static LATE: AtomicUsize = AtomicUsize::new(0);
    let some = Warmup::new().only(|kernel| ["k0", "k1", "k2"].contains(&kernel.symbol())).threads(4);
    let warm = some.on_late(|_| _ = LATE.fetch_add(1, Ordering::Relaxed)).warm(context)?;
    assert!(warm.report().kernels.iter().any(|kernel| kernel.path == "cut.ptx::k2"));
    for (number, kernel) in kernels.iter().enumerate() {
        let function = load(context, &image, &format!("k{number}"))?;
        assert!(is_adopted(context, &function, kernel)?, "k{number}");
        assert_eq!(run(context, &function)?, 3000 + number as u32);
    }
    assert_eq!(LATE.load(Ordering::Relaxed), kernels.len() - 3, "late loads");
    Ok(())
}

/// A kernel that is not warm, where the policy forbids late loads: the image is loaded whole.
fn whole(context: &Arc<CudaContext>) -> Outcome {
    let image = cut();
    let kernels = RuntimeImage::new(CUT, &*image).adopt().register()?;
    Warmup::new().only(|kernel| kernel.path() == "cut.ptx::k0").late(Late::Deny).warm(context)?;
    assert!(is_adopted(context, &load(context, &image, "k0")?, kernels[0])?);
    for number in [1, 2, 1] {
        let function = load(context, &image, &format!("k{number}"))?;
        assert_eq!(run(context, &function)?, 3000 + number);
        assert!(kernels[number as usize].cu_function(context).is_err(), "it is not warm");
    }
    let (module, name) = (module(context, &image)?, CString::new("nowhere")?);
    let (mut address, mut bytes) = (0, 0);
    // SAFETY: the name ends with a zero.
    let result = unsafe { sys::cuModuleGetGlobal_v2(&mut address, &mut bytes, module, name.as_ptr()) };
    assert_eq!(result, CUresult::CUDA_ERROR_NOT_FOUND);
    Ok(())
}

/// Each load of an image has variables of its own, so an image with variables is loaded again.
fn variables(context: &Arc<CudaContext>) -> Outcome {
    let image = counting();
    RuntimeImage::new(COUNTING, &*image).adopt().register()?;
    let warm = warm_all(context)?;
    let [not_adopted] = &warm.report().not_adopted[..] else { panic!("{}", warm.report()) };
    assert_eq!((not_adopted.image, &*not_adopted.variable), (COUNTING, "counter"));
    assert!(warm.report().to_string().contains("NOT ADOPTED: `counting.ptx` has the variable `counter`"));
    let two = [load(context, &image, "k0")?, load(context, &image, "k0")?];
    let counts = [0, 0, 1].map(|module: usize| run(context, &two[module]));
    assert_eq!(counts.into_iter().collect::<Outcome<Vec<_>>>()?, [6, 7, 6]);
    drop(two);
    assert_eq!(run(context, &load(context, &image, "k0")?)?, 6, "loaded again");
    Ok(())
}

/// A panic in the function of `on_late` doesn't unwind into a function of C, which would abort.
fn panics(context: &Arc<CudaContext>) -> Outcome {
    let image = cut();
    RuntimeImage::new(CUT, &*image).adopt().register()?;
    let some = Warmup::new().only(|kernel| kernel.path() == "cut.ptx::k0");
    some.on_late(|late| panic!("late: {}", late.kernel.path())).warm(context)?;
    let function = load(context, &image, "k1")?;
    assert_eq!(run(context, &function)?, 3001);
    Ok(())
}
