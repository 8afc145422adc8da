//! Tests large PTX images, which are compiled in pieces if their kernels share nothing.

mod child;
mod serial;

use std::error::Error;
use std::ffi::CStr;
use std::ptr;
use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaContext, sys};
use kernel_registry::{
    Cause, DynArg, KernelInfo, Late, LaunchConfig, MachineCode, Warm, WarmError, Warmup, launch_dyn,
};
use kernel_registry_sim::{Config, Fault};
use pieces::{counter, factor, refused, separate};
use serial::Turn;
use sys::CUresult;

type Outcome = Result<(), Box<dyn Error>>;

/// Creates a context of the simulated device.
fn context() -> Result<(Turn, Arc<CudaContext>), Box<dyn Error>> {
    let turn = serial::take();
    Config::default().contained(true).install()?;
    kernel_registry::context(0)?;
    let device = 0;
    // SAFETY: the context is new, and belongs to the `CudaContext` from here on.
    let context = unsafe {
        let mut context = ptr::null_mut();
        sys::cuCtxCreate_v4(&mut context, ptr::null_mut(), 0, device).result()?;
        CudaContext::from_raw_context(0, device, context)?
    };
    Ok((turn, context))
}

fn only(kernels: &'static [&'static KernelInfo]) -> Warmup<'static> {
    Warmup::new().only(|kernel| kernels.contains(&kernel)).threads(4)
}

/// Warms kernels. Returns also how many libraries were loaded.
fn warm(warmup: Warmup<'_>, context: &Arc<CudaContext>) -> Result<(Warm, usize), WarmError> {
    let recording = kernel_registry_sim::record_calls();
    let warm = warmup.warm(context)?;
    Ok((warm, recording.calls().iter().filter(|call| call.name == "cuLibraryLoadData").count()))
}

/// Runs a kernel on a number, and returns the result.
fn run(kernel: &'static KernelInfo, context: &Arc<CudaContext>, number: u32) -> Result<u32, Box<dyn Error>> {
    let stream = context.new_stream()?;
    let mut numbers = stream.clone_htod(&[number])?;
    // SAFETY: each kernel reads and writes the number that its only parameter points to.
    unsafe {
        launch_dyn(kernel, &stream, LaunchConfig::new([1; 3], [1; 3]), [DynArg::slice_mut(&mut numbers)])?
    };
    Ok(stream.clone_dtoh(&numbers)?[0])
}

/// Returns the address of a variable in the module of a kernel.
fn global(
    kernel: &'static KernelInfo,
    context: &Arc<CudaContext>,
    name: &CStr,
) -> Result<u64, Box<dyn Error>> {
    let function = kernel.cu_function(context)?;
    let (mut module, mut address, mut bytes) = (ptr::null_mut(), 0, 0);
    // SAFETY: the function is warm, and the name ends with a zero byte.
    unsafe {
        sys::cuFuncGetModule(&mut module, function).result()?;
        sys::cuModuleGetGlobal_v2(&mut address, &mut bytes, module, name.as_ptr()).result()?;
    }
    assert_eq!(bytes, 4);
    Ok(address)
}

const SEPARATE: &[&KernelInfo] = &[separate::increment::INFO, separate::double::INFO, separate::square::INFO];

fn separate_results(context: &Arc<CudaContext>) -> Outcome {
    let results: Result<Vec<_>, _> = SEPARATE.iter().map(|kernel| run(kernel, context, 7)).collect();
    assert_eq!(results?, [8, 14, 49]);
    Ok(())
}

#[test]
fn kernels_that_share_nothing_are_compiled_apart() -> Outcome {
    let (_turn, context) = context()?;
    let (warm_up, libraries) = warm(only(&SEPARATE[1..]), &context)?;
    assert_eq!(libraries, 2);
    let report = warm_up.report();
    assert!(report.verified && report.images_loaded == 1, "{report}");
    assert!(report.kernels.iter().all(|kernel| kernel.code == MachineCode::Compiled));
    // A kernel that was not warmed is compiled on its own.
    Warmup::new().only(|_| false).late(Late::Allow).warm(&context)?;
    let recording = kernel_registry_sim::record_calls();
    assert_eq!(run(SEPARATE[0], &context, 7)?, 8);
    let late = recording.calls().iter().filter(|call| call.name == "cuLibraryLoadData").count();
    assert_eq!(late, 1);
    separate_results(&context)?;
    // A library is loaded once for all contexts.
    let device = context.cu_device();
    drop(_turn);
    let (_turn, other) = self::context()?;
    assert_eq!(device, other.cu_device());
    let (warm_up, libraries) = warm(only(SEPARATE), &other)?;
    assert_eq!((libraries, warm_up.report().images_loaded), (0, 0));
    separate_results(&other)
}

/// Runs in its own process, because libraries belong to the process.
#[test]
fn an_application_can_have_whole_images() {
    let words = child::run("whole_images", &[]);
    assert!(words.contains("one library"), "{words}");
}

#[test]
#[ignore = "run by another test"]
fn whole_images() -> Outcome {
    let (_turn, context) = context()?;
    let (_, libraries) = warm(only(&SEPARATE[..1]).whole_images(), &context)?;
    assert_eq!(libraries, 1);
    // Late loads use whole images too, and an image that is loaded is not cut.
    separate_results(&context)?;
    let (_, libraries) = warm(only(SEPARATE), &context)?;
    assert_eq!(libraries, 0);
    println!("one library");
    Ok(())
}

#[test]
fn kernels_that_share_a_variable_stay_together() -> Outcome {
    let (_turn, context) = context()?;
    let kernels = const { &[counter::count::INFO, counter::counted::INFO] };
    let (_, libraries) = warm(only(kernels), &context)?;
    assert_eq!(libraries, 1);
    let [count, counted] = *kernels;
    assert_eq!((run(count, &context, 0)?, run(count, &context, 0)?), (1, 2));
    assert_eq!(run(counted, &context, 0)?, 2);
    let address = global(count, &context, c"counter")?;
    assert_eq!(address, global(counted, &context, c"counter")?);
    let mut value = 0_u32;
    // SAFETY: the variable has four bytes, and no kernel runs.
    unsafe {
        sys::cuMemcpyDtoH_v2(ptr::from_mut(&mut value).cast(), address, 4).result()?;
        sys::cuMemsetD32_v2(address, 40, 1).result()?;
    }
    assert_eq!((value, run(count, &context, 0)?, run(counted, &context, 0)?), (2, 41, 41));
    Ok(())
}

#[test]
fn a_constant_of_the_host_is_the_same_for_all_kernels() -> Outcome {
    let (_turn, context) = context()?;
    let kernels = const { &[factor::multiply::INFO, factor::multiply_again::INFO] };
    let (_, libraries) = warm(only(kernels), &context)?;
    assert_eq!(libraries, 1);
    let [multiply, again] = *kernels;
    assert_eq!((run(multiply, &context, 2)?, run(again, &context, 3)?), (6, 9));
    let address = global(multiply, &context, c"factor")?;
    assert_eq!(address, global(again, &context, c"factor")?);
    // SAFETY: the constant has four bytes, and no kernel runs.
    unsafe { sys::cuMemsetD32_v2(address, 10, 1).result()? };
    assert_eq!((run(multiply, &context, 2)?, run(again, &context, 3)?), (20, 30));
    Ok(())
}

#[test]
fn a_kernel_that_is_refused_leaves_other_pieces_alone() -> Outcome {
    let (_turn, context) = context()?;
    let kernels = const { &[refused::sound::INFO, refused::broken::INFO, refused::also_sound::INFO] };
    let (warm_up, _) = warm(only(kernels).allow_partial(), &context)?;
    let [failure] = &warm_up.report().failures[..] else { panic!("{}", warm_up.report()) };
    assert_eq!(failure.kernel, refused::broken::INFO.path());
    assert_eq!(failure.image, Some("$OUT_DIR/refused.ptx"));
    let Cause::Refused { log, .. } = &failure.cause else { panic!("{failure}") };
    // The log has the line in the image, and not the line in the piece.
    let text = std::str::from_utf8(refused::broken::INFO.image().ok_or("an image")?.bytes())?;
    let line = text.lines().position(|line| line.contains("add.u32 %r1, %r1, ;")).ok_or("a line")?;
    assert!(log.contains(&format!("line {}", line + 1)), "{log}");
    assert_eq!(run(refused::sound::INFO, &context, 7)?, 8);
    assert_eq!(run(refused::also_sound::INFO, &context, 7)?, 14);
    Ok(())
}

/// NVIDIA's driver may report only at this call that it does not compile a piece. If the driver accepts the whole
/// image, the whole image is used instead.
#[test]
fn the_whole_image_stands_in_for_a_piece_that_is_refused() -> Outcome {
    let (_turn, context) = context()?;
    let refusal = Fault::fails("cuLibraryGetKernel", CUresult::CUDA_ERROR_INVALID_PTX as u32).inject()?;
    let recording = kernel_registry_sim::record_calls();
    let warm_up = only(SEPARATE).warm(&context)?;
    assert!(warm_up.report().verified && refusal.hits() > 0);
    let modules = recording.calls().iter().filter(|call| call.name == "cuModuleLoadDataEx").count();
    // One module is of the image, and two are of kernel-registry's own kernels.
    assert!(modules <= 3, "{modules}");
    drop(refusal);
    separate_results(&context)
}

/// Drivers before 13.0 refuse the option `CU_JIT_SPLIT_COMPILE`, so they are not given the option.
#[test]
fn old_drivers_get_no_new_options() {
    for (driver, result) in [("12.4", "CUDA_ERROR_INVALID_VALUE"), ("13.0", "CUDA_SUCCESS")] {
        let words = child::run("load_with_option", &[("KERNEL_REGISTRY_SIM_DRIVER", driver)]);
        assert!(words.contains(&format!("with the option {result}")), "{words}");
    }
}

#[test]
#[ignore = "run by another test"]
fn load_with_option() -> Outcome {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    only(&[counter::count::INFO]).warm(&context)?;
    assert_eq!(run(counter::count::INFO, &context, 0)?, 1);
    let text = b".version 8.0 .target sm_75 .entry k() { ret; }\0";
    let (mut option, mut value, mut library) = (34_u32, ptr::without_provenance_mut(2), ptr::null_mut());
    let (option, none) = (ptr::from_mut(&mut option).cast(), ptr::null_mut());
    // SAFETY: the text ends with a zero byte, and there is one option with its value.
    let result: CUresult = unsafe {
        sys::cuLibraryLoadData(
            &mut library,
            text.as_ptr().cast(),
            option,
            &mut value,
            1,
            none,
            ptr::null_mut(),
            0,
        )
    };
    println!("with the option {result:?}");
    Ok(())
}
