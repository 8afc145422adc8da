//! A program frees memory while a worker is resident, and then gives the worker a task.
//!
//! With `--cold` the program never gives the task: `cuMemFree` waits until nothing runs, and the worker runs until it gets the task.
//! Without `--cold` the worker runs in a section, and the program has installed an audit. Then calls of `cuMemFree` are deferred until
//! the worker has ended.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use examples::{Ending, LIMIT, Outcome, Vectors, Worker, cold, patience, tell_watched};
use kernel_audit::Audit;
use kernel_registry::cudarc::driver::{CudaContext, result};
use kernel_registry::warm_all;

fn main() -> ExitCode {
    tell_watched(&Audit::new(), story)
}

const BUFFERS: usize = 1000;
const BYTES: usize = 1 << 20;

fn story(context: Arc<CudaContext>) -> Outcome<Ending> {
    let warm = warm_all(&context)?;
    let Vectors { task, x: _x, y: _y } = Vectors::new(&context.new_stream()?)?;
    // SAFETY: nothing uses the memory.
    let buffers: Vec<_> =
        (0..BUFFERS).map(|_| unsafe { result::malloc_sync(BYTES) }).collect::<Result<_, _>>()?;
    // SAFETY: as above.
    let free = || buffers.iter().try_for_each(|buffer| unsafe { result::free_sync(*buffer) });

    let begun = Instant::now();
    let mut worker =
        if cold() { Worker::start(&context, LIMIT)? } else { Worker::guarded(&warm, patience())? };
    free()?;
    let took = begun.elapsed();
    let (meanwhile, _) = context.mem_get_info()?;
    worker.submit(task)?;
    let is_done = worker.is_done();
    worker.stop()?;
    if !is_done {
        return Ok(Ending::Deadlock(format!(
            "`cuMemFree` waits for the worker, which waits for its next task, which the program gives it after `cuMemFree`. Only \
             the worker's limit of {LIMIT:?} ended that, after {took:.1?}"
        )));
    }
    let (after, _) = context.mem_get_info()?;
    if after < meanwhile + BUFFERS * BYTES {
        return Err(format!("only {} bytes were freed", after.saturating_sub(meanwhile)).into());
    }
    Ok(Ending::Completed(format!(
        "{BUFFERS} calls of `cuMemFree` returned beside the worker in {took:.1?}, and freed {} MiB when it had ended",
        (after - meanwhile) >> 20
    )))
}
