//! The main function of the generated programs of the benchmark `warm`. A program creates a context, then
//! loads its own kernels in the given way, and prints how long that took.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::env;
use std::ffi::{CString, c_void};
use std::process::ExitCode;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use kernel_registry::cudarc::driver::{CudaContext, sys};
use kernel_registry::cudarc::nvrtc::Ptx;
use kernel_registry::{Warmup, kernels, warm_all};

use super::KERNELS;
use crate::Result;

/// An image, and the names of its kernels.
struct Image {
    /// The bytes of the image, with a zero at the end if it's text.
    bytes: Cow<'static, [u8]>,
    kernels: Vec<CString>,
}

/// Prints milliseconds: the total time, and further times of the given way.
pub fn main() -> ExitCode {
    let way = env::args().nth(1).unwrap_or_default();
    match measure(&way) {
        Ok(times) => {
            println!("{}", times.iter().map(|time| format!("{time:.3}")).collect::<Vec<_>>().join(" "));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(way: &str) -> Result<Vec<f64>> {
    let context = kernel_registry::context(0)?;
    match way {
        "ours" => {
            let begun = Instant::now();
            let warm = warm_all(&context)?;
            let first = milliseconds(begun);
            let begun = Instant::now();
            warm_all(&context)?;
            let second = milliseconds(begun);
            let report = warm.report();
            if report.kernels.len() != KERNELS {
                return Err(format!("{} kernels are warm, and not {KERNELS}", report.kernels.len()).into());
            }
            eprintln!("{}", report.to_string().lines().last().unwrap_or_default());
            Ok(vec![first, second])
        }
        "whole" => {
            let begun = Instant::now();
            Warmup::new().whole_images().warm(&context)?;
            Ok(vec![milliseconds(begun)])
        }
        "modules" => modules(&images()?),
        "thread" => {
            let images = images()?;
            let begun = Instant::now();
            let work = || -> Result<_> { context.bind_to_thread().map(|()| modules(&images))? };
            let work = || work().map_err(|error| error.to_string());
            thread::scope(|scope| scope.spawn(work).join()).map_err(|_| "the thread panicked")??;
            Ok(vec![milliseconds(begun)])
        }
        "libraries" => libraries(&context, &images()?),
        "cudarc" => cudarc(&context, &images()?),
        _ => Err("usage: ours | whole | modules | thread | libraries | cudarc".into()),
    }
}

/// Returns the images as a program without kernel-registry would have them.
fn images() -> Result<Vec<Image>> {
    let mut images = BTreeMap::new();
    for kernel in kernels()? {
        let bytes = kernel.image().ok_or("a kernel has no image")?.bytes();
        let image = images.entry(bytes.as_ptr()).or_insert_with(|| Image {
            bytes: if bytes.starts_with(b"\x7fELF") { bytes.into() } else { [bytes, &[0]].concat().into() },
            kernels: Vec::new(),
        });
        image.kernels.push(CString::new(kernel.symbol())?);
    }
    Ok(images.into_values().collect())
}

/// Loads with the module functions, in one thread.
fn modules(images: &[Image]) -> Result<Vec<f64>> {
    let begun = Instant::now();
    for image in images {
        let mut module = ptr::null_mut();
        // SAFETY: the image is whole, and text ends with a zero.
        unsafe { sys::cuModuleLoadData(&mut module, image.code()).result()? };
        for kernel in &image.kernels {
            let mut function = ptr::null_mut();
            // SAFETY: the module stays loaded, and the name ends with a zero.
            unsafe { sys::cuModuleGetFunction(&mut function, module, kernel.as_ptr()).result()? };
        }
    }
    Ok(vec![milliseconds(begun)])
}

/// Loads with the library functions, which compile in parallel. Returns the time of loading, and that of
/// loading and finding the kernels.
fn libraries(context: &CudaContext, images: &[Image]) -> Result<Vec<f64>> {
    let begun = Instant::now();
    let (next, libraries) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let load = || -> Result<()> {
        context.bind_to_thread()?;
        while let Some(image) = images.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (mut library, none) = (ptr::null_mut(), ptr::null_mut());
            let nothing = ptr::null_mut();
            // SAFETY: the image is whole, and text ends with a zero; there are no options.
            unsafe {
                sys::cuLibraryLoadData(
                    &mut library,
                    image.code(),
                    none,
                    nothing,
                    0,
                    ptr::null_mut(),
                    nothing,
                    0,
                )
                .result()?;
            }
            libraries.lock().map_err(|_| "a thread panicked")?.push((image, library.expose_provenance()));
        }
        Ok(())
    };
    let threads = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| load().map_err(|error| error.to_string()))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
    })?;
    let loaded = milliseconds(begun);
    for (image, library) in libraries.into_inner().map_err(|_| "a thread panicked")? {
        for name in &image.kernels {
            let (mut kernel, mut function) = (ptr::null_mut(), ptr::null_mut());
            let library = ptr::with_exposed_provenance_mut(library);
            // SAFETY: libraries stay loaded, and the name ends with a zero.
            unsafe {
                sys::cuLibraryGetKernel(&mut kernel, library, name.as_ptr()).result()?;
                sys::cuKernelGetFunction(&mut function, kernel).result()?;
            }
        }
    }
    Ok(vec![loaded, milliseconds(begun)])
}

/// Loads with cudarc.
fn cudarc(context: &std::sync::Arc<CudaContext>, images: &[Image]) -> Result<Vec<f64>> {
    let begun = Instant::now();
    for image in images {
        let module = context.load_module(Ptx::from_binary(image.bytes.to_vec()))?;
        for kernel in &image.kernels {
            module.load_function(kernel.to_str()?)?;
        }
        // Unloading isn't part of loading, so it isn't measured.
        std::mem::forget(module);
    }
    Ok(vec![milliseconds(begun)])
}

impl Image {
    fn code(&self) -> *const c_void {
        self.bytes.as_ptr().cast()
    }
}

fn milliseconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}
