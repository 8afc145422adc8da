//! Another library loads code in the first call of some function, while a worker stays on the device.
//!
//! With `--cold` that call waits for the worker, and the worker for a task that comes afterwards. In a section, in a program that watches
//! itself, the call is refused at once. A `#[warmup]` function prevents it: a library whose first call was before has nothing to load.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use examples::{Ending, LIMIT, Outcome, Worker, another_library, cold, tell_watched};
use kernel_registry::cudarc::driver::{CudaContext, DevicePtr, DevicePtrMut};
use kernel_registry::{Queue, Resident, warm_all};
use kernel_registry_audit::{Audit, findings};
use kernels::waiting::{Task, worker};

fn main() -> ExitCode {
    tell_watched(&Audit::new(), story)
}

const N: u32 = 1000;

fn story(context: Arc<CudaContext>) -> Outcome<Ending> {
    let warm = warm_all(&context)?;
    let stream = context.new_stream()?;
    let x = stream.clone_htod(&[1.0_f32; N as usize])?;
    let mut y = stream.clone_htod(&[2.0_f32; N as usize])?;
    stream.synchronize()?;
    let (x_at, y_at) = (x.device_ptr(&stream).0, y.device_ptr_mut(&stream).0);
    let task = Task { x: x_at as *const f32, y: y_at as *mut f32, a: 3.0, n: N };

    let begun = Instant::now();
    if cold() {
        let mut worker = Worker::start(&context, LIMIT)?;
        another_library(&context)?;
        let took = begun.elapsed();
        worker.submit(task)?;
        let is_done = worker.is_done();
        worker.stop()?;
        if !is_done {
            return Ok(Ending::Deadlock(format!(
                "the library loads a module, which waits for the worker, which waits for its next task, which the program gives it \
                 after the library's call. Only the worker's limit of {LIMIT:?} ended that, after {took:.1?}"
            )));
        }
        return Err("nothing waited".into());
    }
    let mut queue = Queue::new(&context, 4)?;
    let resident = Resident::<worker>::new(worker::config(1).block(128)).limit(LIMIT).check(&warm)?;
    let stays = context.new_stream()?;
    // SAFETY: the queue is freed when no kernel stays any more, and the vectors are freed after the worker.
    let section = resident
        .launch(&stays, |launch| unsafe { worker::launch(&stays, launch, launch.control(), &queue) })?;
    let refused = another_library(&context).err().ok_or("the module was loaded beside the worker")?;
    let took = begun.elapsed();
    queue.push(task)?;
    queue.wait(section.control(), LIMIT)?;
    section.stop()?;
    another_library(&context)?;
    Ok(Ending::Completed(format!(
        "refused after {took:.1?}: {refused}; the worker did its task, and the module was loaded afterwards. The audit has {}",
        findings()?.len()
    )))
}
