//! Tests `Deadlock::Fail`: a driver call that would never return fails instead.

use std::error::Error;
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry::Warmup;
use kernel_registry::cudarc::driver::sys::{self, CUresult};
use kernel_registry_resident::{Control, Mapped};
use kernel_registry_sim::{Config, Deadlock};
use kernels::waiting::{set_flag, spin_until_flag};

#[test]
fn a_call_that_waits_for_a_spinning_kernel_fails() -> Result<(), Box<dyn Error>> {
    Config::default().deadlock(Deadlock::Fail).install()?;
    let context = kernel_registry::context(0)?;
    let _warm = Warmup::new().only(|kernel| kernel == spin_until_flag::INFO).warm(&context)?;
    let stays = context.new_stream()?;
    let (flag, control) = (Mapped::<AtomicU32>::zeroed(&context, 1)?, Control::new(&context, 1)?);
    control.limit(Duration::from_secs(20));
    // SAFETY: freeing the flag and the control block waits for the kernel.
    unsafe { spin_until_flag::launch(&stays, spin_until_flag::over(1), &flag, &control)? };

    // A call of another thread waits for the lock that the load holds, and continues when the load has failed.
    let theirs = context.clone();
    let other = thread::spawn(move || {
        theirs.bind_to_thread().expect("the context is there");
        thread::sleep(Duration::from_millis(50));
        let (mut address, begun) = (0, Instant::now());
        // SAFETY: `address` has room for the result.
        (unsafe { sys::cuMemAlloc_v2(&mut address, 4) }, begun.elapsed())
    });
    let begun = Instant::now();
    let image = set_flag::INFO.image().ok_or("no image")?;
    let mut bytes = image.bytes().to_vec();
    bytes.push(0);
    let mut module = std::ptr::null_mut();
    // SAFETY: the image ends with a zero byte.
    let loaded = unsafe { sys::cuModuleLoadData(&mut module, bytes.as_ptr().cast()) };
    assert_eq!(loaded, CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
    assert!(begun.elapsed().as_secs() < 10, "it waited for the kernel's limit");

    let (allocated, time) = other.join().expect("it does not panic");
    assert_eq!(allocated, CUresult::CUDA_SUCCESS);
    assert!(time > Duration::from_millis(50), "it did not wait: {time:?}");

    control.stop();
    stays.synchronize()?;
    Ok(())
}
