//! Measures how this machine's driver loads kernels: which call loads a kernel, and the three problems of lazy loading that NVIDIA's
//! guide lists. These are concurrency, programs that allocate all memory first, and wrong measurements.

use std::env;
use std::ffi::{CStr, CString, c_void};
use std::process::ExitCode;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use examples::{Ending, Loaded, Outcome, Resident, tell};
use kernel_registry::cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, result, sys,
};
use kernel_registry::{KernelInfo, warm_all};
use kernels::blas1::{dscal, sscal};
use kernels::memory::shuffle;
use kernels::waiting::spin_until_flag;

const N: u32 = 1000;

fn main() -> ExitCode {
    tell(|context| {
        mode()?;
        which_call_loads()?;
        // This must come before anything is warm in this context.
        memory_taken_first(&context)?;
        concurrency(&context)?;
        skewed_measurement(&context)?;
        Ok(Ending::Completed("all measured".to_owned()))
    })
}

fn mode() -> Outcome {
    let mut mode = sys::CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING;
    // SAFETY: the mode is written to a variable of its type.
    unsafe { sys::cuModuleGetLoadingMode(&mut mode).result()? };
    let mode = if mode == sys::CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING { "lazily" } else { "eagerly" };
    let variable = env::var("CUDA_MODULE_LOADING").map_or("not set".to_owned(), |value| format!("`{value}`"));
    println!("MODE: the driver loads {mode}; CUDA_MODULE_LOADING is {variable}\n");
    Ok(())
}

/// Makes the calls one by one, to find out which of them loads a kernel.
fn which_call_loads() -> Outcome {
    println!("WHICH CALL LOADS A KERNEL:");
    let mut image = sscal::INFO.image().ok_or("no image: build with a CUDA compiler")?.bytes().to_vec();
    image.push(0);
    let symbol = CString::new(sscal::INFO.symbol())?;
    let (mut library, mut module) = (ptr::null_mut(), ptr::null_mut());
    let (mut kernel, mut function, mut registers) = (ptr::null_mut(), ptr::null_mut(), 0);
    let none = ptr::null_mut();
    // SAFETY: the context of device 0 is current, the image ends with a zero, and each call gets the results of earlier calls. The
    // library stays loaded until the process ends.
    unsafe {
        sys::cuLibraryLoadData(
            &mut library,
            image.as_ptr().cast(),
            none,
            ptr::null_mut(),
            0,
            none.cast(),
            ptr::null_mut(),
            0,
        )
        .result()?;
        sys::cuLibraryGetModule(&mut module, library).result()?;
        count_loaded("cuLibraryLoadData, cuLibraryGetModule", module)?;
        sys::cuLibraryGetKernel(&mut kernel, library, symbol.as_ptr()).result()?;
        let asked = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
        sys::cuKernelGetAttribute(&mut registers, asked, kernel, 0).result()?;
        count_loaded("cuLibraryGetKernel, cuKernelGetAttribute", module)?;
        sys::cuKernelGetFunction(&mut function, kernel).result()?;
        count_loaded("cuKernelGetFunction", module)?;
    }
    println!();
    Ok(())
}

/// Counts the loaded kernels of a module with `cuFuncIsLoaded`.
///
/// # Safety
///
/// `module` is a module of the current context.
unsafe fn count_loaded(after: &str, module: sys::CUmodule) -> Outcome {
    type Count = unsafe extern "C" fn(*mut u32, sys::CUmodule) -> sys::CUresult;
    type Enumerate = unsafe extern "C" fn(*mut sys::CUfunction, u32, sys::CUmodule) -> sys::CUresult;
    type IsLoaded = unsafe extern "C" fn(*mut u32, sys::CUfunction) -> sys::CUresult;
    // SAFETY: the types are those of the functions; the vector has room for the counted kernels.
    unsafe {
        let (Some(count), Some(enumerate), Some(is_loaded)) = (
            since_12_4::<Count>(c"cuModuleGetFunctionCount"),
            since_12_4::<Enumerate>(c"cuModuleEnumerateFunctions"),
            since_12_4::<IsLoaded>(c"cuFuncIsLoaded"),
        ) else {
            println!("  {after:<42} unknown to drivers before CUDA 12.4");
            return Ok(());
        };
        let (mut kernels, mut loaded) = (0, 0);
        count(&mut kernels, module).result()?;
        let mut functions = vec![ptr::null_mut(); kernels as usize];
        enumerate(functions.as_mut_ptr(), kernels, module).result()?;
        for function in functions {
            let mut state = 0;
            is_loaded(&mut state, function).result()?;
            loaded += state;
        }
        println!("  {after:<42} {loaded} of {kernels} loaded");
    }
    Ok(())
}

/// Looks up a driver function of CUDA 12.4. Returns `None` if the driver lacks it.
///
/// # Safety
///
/// `F` is the type of the function.
unsafe fn since_12_4<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let mut address: *mut c_void = ptr::null_mut();
    // SAFETY: the name ends with a zero, and the status may be null.
    let found = unsafe { sys::cuGetProcAddress_v2(name.as_ptr(), &mut address, 12_040, 0, ptr::null_mut()) };
    let found = found == sys::CUresult::CUDA_SUCCESS && !address.is_null();
    // SAFETY: the caller promises that the function has this type.
    found.then(|| unsafe { std::mem::transmute_copy(&address) })
}

/// A way to get a kernel that is ready to launch: by loading it now, or by using the warmed kernel.
type Way = fn(&Arc<CudaContext>, &'static KernelInfo) -> Outcome<Loaded>;

const WAYS: [(&str, Way); 2] = [
    ("loaded at its launch", |context, kernel| Loaded::by_hand(context, kernel)),
    ("warmed before", |_, kernel| Ok(Loaded::Warm(kernel))),
];

/// Shows that loading fails if all memory is allocated: a kernel needs memory for its code, and for a frame of each thread of the
/// device.
fn memory_taken_first(context: &Arc<CudaContext>) -> Outcome {
    println!("MEMORY TAKEN FIRST: a kernel with a frame of 2 KiB, while an allocator holds all memory");
    let stream = context.new_stream()?;
    let mut vector = stream.alloc_zeros::<f32>(N as usize)?;
    let address = vector.device_ptr_mut(&stream).0;
    let launch = |kernel: Loaded| -> Outcome {
        // SAFETY: one thread reads an element of the vector and writes it.
        unsafe { kernel.launch(&stream, shuffle::INFO.over(1), &[1, address, address])? };
        Ok(stream.synchronize()?)
    };

    let everything = Everything::take()?;
    let by_hand = Loaded::by_hand(context, shuffle::INFO).and_then(launch);
    println!("  {:<30} {}", "loaded at its launch", said(by_hand));
    let warmed = warm_all(context).map(|_| ()).map_err(Into::into);
    println!("  {:<30} {}", "`warm_all` too late", said(warmed));
    drop(everything);

    warm_all(context)?;
    let _everything = Everything::take()?;
    println!("  {:<30} {}\n", "warmed before", said(launch(Loaded::Warm(shuffle::INFO))));
    Ok(())
}

fn said(outcome: Outcome) -> String {
    outcome.map_or_else(|error| error.to_string(), |()| "runs".to_owned())
}

/// All memory of the device, allocated as an allocator does that manages memory itself.
struct Everything(Vec<sys::CUdeviceptr>);

impl Everything {
    fn take() -> Outcome<Self> {
        let mut taken = Everything(Vec::new());
        for size in [1 << 30, 1 << 25, 1 << 21, 1 << 16] {
            loop {
                // SAFETY: the context is current.
                match unsafe { result::malloc_sync(size) } {
                    Ok(address) => taken.0.push(address),
                    Err(error) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(taken)
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        for address in &self.0 {
            // SAFETY: the memory was allocated by `take`, and is not in use. If freeing fails, the end of the process frees it.
            let _ = unsafe { result::free_sync(*address) };
        }
    }
}

/// Shows that loading a kernel waits for running kernels.
fn concurrency(context: &Arc<CudaContext>) -> Outcome {
    println!("CONCURRENCY: a kernel beside one that ends after 300 ms");
    let spin = Loaded::Warm(spin_until_flag::INFO);
    let (stream, vector) = vector(context)?;
    for (how, load) in WAYS {
        let resident = Resident::start(context, &spin, Duration::from_millis(300))?;
        let begun = Instant::now();
        scale(&load(context, sscal::INFO)?, &stream, &vector)?;
        let took = begun.elapsed();
        let other = if resident.is_running() { "still runs" } else { "has ended" };
        resident.release()?;
        println!("  {how:<30} {took:>9.1?}, and the other one {other}");
    }
    println!();
    Ok(())
}

/// Shows that the first measurement of a kernel includes loading it.
fn skewed_measurement(context: &Arc<CudaContext>) -> Outcome {
    println!("SKEWED MEASUREMENT: the same launch five times");
    let (stream, vector) = vector(context)?;
    for (how, load) in WAYS {
        let mut kernel = None;
        print!("  {how:<30}");
        for _ in 0..5 {
            let begun = Instant::now();
            let loaded = match kernel.take() {
                Some(loaded) => loaded,
                None => load(context, dscal::INFO)?,
            };
            scale(&loaded, &stream, &vector)?;
            print!(" {:>9.1?}", begun.elapsed());
            kernel = Some(loaded);
        }
        println!();
    }
    println!();
    Ok(())
}

fn vector(context: &Arc<CudaContext>) -> Outcome<(Arc<CudaStream>, CudaSlice<f64>)> {
    let stream = context.new_stream()?;
    let vector = stream.alloc_zeros(N as usize)?;
    stream.synchronize()?;
    Ok((stream, vector))
}

/// Launches `sscal` or `dscal`, and waits for it.
fn scale(kernel: &Loaded, stream: &Arc<CudaStream>, vector: &CudaSlice<f64>) -> Outcome {
    let (address, _used) = vector.device_ptr(stream);
    // SAFETY: the vector has this many elements. All are zero and stay zero.
    unsafe { kernel.launch(stream, dscal::over(N), &[N.into(), 0, address])? };
    Ok(stream.synchronize()?)
}
