//! Tests many host threads at once, which warm, launch, load and unload while contexts are created and destroyed.

mod serial;

use std::error::Error;
use std::ptr;
use std::sync::{Arc, Barrier};
use std::thread;

use kernel_registry::cudarc::driver::{CudaContext, CudaStream, sys};
use kernel_registry::warm_all;
use kernel_registry_sim::Config;
use kernels::blas1::saxpy;
use serial::Turn;

kernel_registry::link_kernels!(kernels);

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;
type Contexts = (Turn, Vec<Arc<CudaContext>>);

const THREADS: usize = 64;
const DEVICES: usize = 3;

/// Returns contexts and a turn. Tests take turns, because a receipt cannot be checked while another test warms, and
/// because a test counts memory that another test's contexts would take.
fn contexts() -> Result<Contexts, Box<dyn Error + Send + Sync>> {
    let turn = serial::take();
    Config::default().devices(DEVICES).install()?;
    Ok((turn, kernel_registry::contexts()?))
}

/// Runs the body in `THREADS` threads, which begin at the same time.
fn in_threads(body: impl Fn(usize) -> Outcome + Sync) {
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (barrier, body) = (&barrier, &body);
                scope.spawn(move || {
                    barrier.wait();
                    body(thread)
                })
            })
            .collect();
        for (thread, joined) in threads.into_iter().enumerate() {
            joined.join().unwrap().unwrap_or_else(|error| panic!("thread {thread}: {error}"));
        }
    });
}

/// Adds twice `x` to a vector of zeros `times` times, and checks the result.
fn launches(stream: &Arc<CudaStream>, thread: usize, times: usize) -> Outcome {
    const N: u32 = 300;
    let x: Vec<f32> = (0..N).map(|i| (i as usize + thread) as f32).collect();
    let device_x = stream.clone_htod(&x)?;
    let mut device_y = stream.alloc_zeros::<f32>(N as usize)?;
    for _ in 0..times {
        // SAFETY: both vectors have `N` elements.
        unsafe { saxpy::launch(stream, saxpy::over(N), N, 2.0, &device_x, &mut device_y)? };
    }
    let expected: Vec<f32> = x.iter().map(|x| x * 2.0 * times as f32).collect();
    if stream.clone_dtoh(&device_y)? == expected { Ok(()) } else { Err("another result".into()) }
}

#[test]
fn warming_in_all_threads_on_one_device_and_on_several() -> Outcome {
    let (_turn, contexts) = contexts()?;
    in_threads(|_| {
        assert!(warm_all(&contexts[0])?.report().verified);
        Ok(())
    });
    in_threads(|thread| {
        for context in &contexts {
            assert!(warm_all(context)?.report().verified);
        }
        launches(&contexts[thread % DEVICES].new_stream()?, thread, 3)
    });
    for context in &contexts {
        warm_all(context)?.recheck()?;
    }
    Ok(())
}

#[test]
fn launches_on_streams_of_their_own_and_on_shared_ones() -> Outcome {
    let (_turn, contexts) = contexts()?;
    contexts.iter().try_for_each(|context| warm_all(context).map(drop))?;
    let shared: Vec<_> = contexts.iter().map(|context| context.new_stream()).collect::<Result<_, _>>()?;
    in_threads(|thread| {
        let context = &contexts[thread % DEVICES];
        launches(&shared[thread % DEVICES], thread, 10)?;
        launches(&context.default_stream(), thread, 5)?;
        launches(&context.new_stream()?, thread, 10)
    });
    Ok(())
}

/// A thread's calls in its own contexts do not affect other threads.
#[test]
fn contexts_and_modules_are_created_and_destroyed_meanwhile() -> Outcome {
    let (_turn, contexts) = contexts()?;
    contexts.iter().try_for_each(|context| warm_all(context).map(drop))?;
    let free: Vec<_> = contexts.iter().map(|context| context.mem_get_info()).collect::<Result<_, _>>()?;
    let image = saxpy::INFO.image().ok_or("no image")?;
    let text = [image.bytes(), &[0]].concat();
    in_threads(|thread| {
        let device = thread % DEVICES;
        if thread % 2 == 0 {
            return launches(&contexts[device].new_stream()?, thread, 20);
        }
        for _ in 0..3 {
            // SAFETY: the image ends with a zero byte, null is allowed where it is passed, and only this thread has
            // these handles.
            unsafe {
                let mut context = ptr::null_mut();
                sys::cuCtxCreate_v4(&mut context, ptr::null_mut(), 0, device as i32).result()?;
                let mut module = ptr::null_mut();
                sys::cuModuleLoadData(&mut module, text.as_ptr().cast()).result()?;
                let (mut stream, mut function) = (ptr::null_mut(), ptr::null_mut());
                sys::cuStreamCreate(&mut stream, 1).result()?;
                let name = std::ffi::CString::new(saxpy::INFO.symbol())?;
                sys::cuModuleGetFunction(&mut function, module, name.as_ptr()).result()?;
                // With `n` = 0, no thread of the kernel accesses memory.
                let (mut n, mut a, mut nothing) = (0_u32, 1_f32, ptr::null_mut::<f32>());
                let mut arguments = [
                    (&raw mut n).cast(),
                    (&raw mut a).cast(),
                    (&raw mut nothing).cast(),
                    (&raw mut nothing).cast(),
                ];
                let arguments = arguments.as_mut_ptr();
                sys::cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, ptr::null_mut())
                    .result()?;
                if thread % 4 == 1 {
                    sys::cuModuleUnload(module).result()?;
                }
                sys::cuCtxDestroy_v2(context).result()?;
            }
        }
        Ok(())
    });
    for (context, free) in contexts.iter().zip(free) {
        warm_all(context)?.recheck()?;
        context.synchronize()?;
        let now = context.mem_get_info()?;
        assert_eq!(now, free, "bytes that are free, and all");
    }
    Ok(())
}
