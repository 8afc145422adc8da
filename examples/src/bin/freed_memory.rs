//! A program frees memory while a worker stays on the device, and then gives it a task.
//!
//! With `--cold` the program never gets there: `cuMemFree` waits until nothing runs. In a section, in a program that watches itself, such
//! calls are put off until the worker has ended.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use examples::{Ending, LIMIT, Outcome, Worker, cold, tell_watched};
use kernel_registry::cudarc::driver::{CudaContext, DevicePtr, DevicePtrMut, result};
use kernel_registry::{Queue, Resident, warm_all};
use kernel_registry_audit::Audit;
use kernels::waiting::{Task, worker};

fn main() -> ExitCode {
    tell_watched(&Audit::new(), story)
}

const N: u32 = 1000;
const BUFFERS: usize = 1000;
const BYTES: usize = 1 << 20;

fn story(context: Arc<CudaContext>) -> Outcome<Ending> {
    let warm = warm_all(&context)?;
    let stream = context.new_stream()?;
    let x = stream.clone_htod(&[1.0_f32; N as usize])?;
    let mut y = stream.clone_htod(&[2.0_f32; N as usize])?;
    stream.synchronize()?;
    let (x_at, y_at) = (x.device_ptr(&stream).0, y.device_ptr_mut(&stream).0);
    let task = Task { x: x_at as *const f32, y: y_at as *mut f32, a: 3.0, n: N };
    // SAFETY: nothing uses it.
    let buffers: Vec<_> =
        (0..BUFFERS).map(|_| unsafe { result::malloc_sync(BYTES) }).collect::<Result<_, _>>()?;
    // SAFETY: as above.
    let free = || buffers.iter().try_for_each(|buffer| unsafe { result::free_sync(*buffer) });

    let begun = Instant::now();
    if cold() {
        let mut worker = Worker::start(&context, LIMIT)?;
        free()?;
        let took = begun.elapsed();
        worker.submit(task)?;
        let is_done = worker.is_done();
        worker.stop()?;
        if !is_done {
            return Ok(Ending::Deadlock(format!(
                "`cuMemFree` waits for the worker, which waits for its next task, which the program gives it after `cuMemFree`. Only \
                 the worker's limit of {LIMIT:?} ended that, after {took:.1?}"
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
    free()?;
    let took = begun.elapsed();
    queue.push(task)?;
    queue.wait(section.control(), LIMIT)?;
    let (meanwhile, _) = context.mem_get_info()?;
    section.stop()?;
    let (after, _) = context.mem_get_info()?;
    if after < meanwhile + BUFFERS * BYTES {
        return Err(format!("only {} bytes were freed", after.saturating_sub(meanwhile)).into());
    }
    Ok(Ending::Completed(format!(
        "{BUFFERS} calls of `cuMemFree` returned beside the worker in {took:.1?}, and freed {} MiB when it had ended",
        (after - meanwhile) >> 20
    )))
}
