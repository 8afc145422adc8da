//! Tests fork. A child that is forked before `cuInit` gets its own driver. A child that is forked later has no driver,
//! as with NVIDIA's. Nothing in a child waits for a lock that another thread held.

mod device;
mod saxpy_check;
#[path = "arguments/signatures.rs"]
#[expect(dead_code, reason = "these tests use only the names of functions")]
mod signatures;

use std::error::Error;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use std::{fs::File, thread};

use kernel_registry::cudarc::driver::{CudaContext, CudaSlice};
use kernel_registry::{DriverUnavailable, LaunchError, RecheckError, Warm, WarmError, warm_all};
use kernel_registry_resident::{Mapped, Resident};
use kernel_registry_sim::{Live, leave_memory, live};
use kernels::blas1::saxpy;
use kernels::waiting::spin_until_flag;

kernel_registry::link_kernels!(kernels);

type Outcome = Result<(), Box<dyn Error>>;

/// Runs `body` in a forked child, and returns what went wrong there. An empty text means success.
fn in_child(body: impl FnOnce() -> Outcome) -> String {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both ends of the pipe. After the fork the child only uses what is fork-safe in
    // glibc, Rust's allocator and the driver under test, and it never returns.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let child = libc::fork();
        assert!(child >= 0);
        let [mut from, mut to] = ends.map(|end| File::from_raw_fd(end));
        if child == 0 {
            libc::alarm(30);
            // Printing a panic would wait for locks of the standard library, so nothing is printed.
            panic::set_hook(Box::new(|_| {}));
            let words = match panic::catch_unwind(AssertUnwindSafe(body)) {
                Ok(Ok(())) => String::new(),
                Ok(Err(error)) => error.to_string(),
                Err(payload) => format!("a panic: {:?}", payload.downcast_ref::<String>()),
            };
            let written = to.write_all(words.as_bytes());
            libc::_exit(written.is_err().into());
        }
        drop(to);
        let (mut words, mut status) = (String::new(), 0);
        from.read_to_string(&mut words).unwrap();
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        if status == 0 { words } else { format!("the child ended with status {status:#x}") }
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("{found:?}, not {expected:?}").into()) }
}

/// Checks that the library returns its errors for a forked child.
fn is_told(context: &Arc<CudaContext>, warm: &Warm, x: &CudaSlice<f32>, y: &mut CudaSlice<f32>) -> Outcome {
    expect(kernel_registry::context(0).err(), Some(DriverUnavailable::Forked))?;
    expect(warm_all(context).err(), Some(WarmError::DriverUnavailable(DriverUnavailable::Forked)))?;
    expect(warm.recheck().err(), Some(RecheckError::DriverUnavailable(DriverUnavailable::Forked)))?;
    let stream = context.default_stream();
    // SAFETY: both vectors have an element.
    let launched = unsafe { saxpy::launch(&stream, saxpy::over(1), 1, 3.0, x, y) };
    let kernel = saxpy::INFO;
    expect(launched.err(), Some(LaunchError::DriverUnavailable { kernel, error: DriverUnavailable::Forked }))
}

const NOT_INITIALIZED: u32 = 3;

/// Calls every function with null pointers. Some functions check for null first, others for the fork.
fn every_function_refuses() -> Outcome {
    let mut refused = 0;
    let simulated = signatures::simulated().into_iter().map(|function| function.name);
    for name in simulated.chain(signatures::lacking()) {
        let code = device::call(&name, &[]);
        if code == NOT_INITIALIZED {
            refused += 1;
        } else if code != device::INVALID_VALUE {
            return Err(format!("{name} returned {code}").into());
        }
    }
    if refused > 200 { Ok(()) } else { Err(format!("only {refused} functions refused").into()) }
}

#[test]
fn children_forked_before_and_after_initialisation() -> Outcome {
    kernel_registry_sim::install()?;
    // The child behaves like a new process, and the parent is not affected.
    let child = || {
        kernel_registry_sim::install()?;
        let context = kernel_registry::context(0)?;
        warm_all(&context)?.recheck()?;
        saxpy_check::saxpy(&context, 100)
    };
    for _ in 0..3 {
        assert_eq!(in_child(child), "");
    }
    let pressure = leave_memory(0, 1 << 30);
    let leaves = move || {
        drop(pressure);
        Ok(())
    };
    assert_eq!(in_child(leaves), "");

    let context = kernel_registry::context(0)?;
    let warm = warm_all(&context)?;
    let stream = context.default_stream();
    let (x, mut y) = (stream.alloc_zeros(1)?, stream.alloc_zeros(1)?);
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        // These threads make it likely that some thread holds the lock when a child is forked.
        for _ in 0..3 {
            scope.spawn(|| {
                context.bind_to_thread().unwrap();
                while !ends.load(Ordering::Relaxed) {
                    saxpy_check::saxpy(&context, 100).unwrap();
                }
            });
        }
        let mut children = (0..20).map(|_| {
            thread::sleep(Duration::from_millis(1));
            in_child(|| {
                is_told(&context, &warm, &x, &mut y)?;
                drop(leave_memory(0, 1 << 30));
                expect(live(), Live::default())?;
                every_function_refuses()
            })
        });
        let wrong = children.find(|words| !words.is_empty());
        // The threads are told to end before any assertion, because otherwise they would never end.
        ends.store(true, Ordering::Relaxed);
        assert_eq!(wrong, None);
    });
    warm.recheck()?;
    saxpy_check::saxpy(&context, 100)?;

    // If a child drops a section, the kernel of its parent continues.
    let (stream, flag) = (context.new_stream()?, Mapped::<AtomicU32>::zeroed(&context, 1)?);
    let checked = Resident::<spin_until_flag>::new(spin_until_flag::config(1).block(1)).check(&warm)?;
    // SAFETY: the flag outlives the kernel.
    let mut section = checked.launch(&stream, |launch| unsafe {
        spin_until_flag::launch(&stream, launch, &flag, launch.control())
    })?;
    let is_told = Arc::new(AtomicBool::new(false));
    let tell = is_told.clone();
    section.on_stop(move || tell.store(true, Ordering::Relaxed));
    let mut section = Some(section);
    let drops = || {
        drop(section.take());
        expect(is_told.load(Ordering::Relaxed), false)
    };
    assert_eq!(in_child(drops), "");
    let section = section.ok_or("the child has dropped its own")?;
    assert!(section.is_running());
    Ok(section.stop()?)
}
