//! Another library loads code in the first call of some function, while a worker is resident.
//!
//! With `--cold` that call waits for the worker, and the worker waits for a task that the program gives it after the call. Without
//! `--cold` the worker runs in a section, and the program has installed an audit, which refuses the call at once. A real program calls
//! the library's function in a `#[warmup]` function: then the library has nothing to load later.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use examples::{Ending, LIMIT, Outcome, Vectors, Worker, another_library, cold, patience, tell_watched};
use kernel_audit::{Audit, findings};
use kernel_registry::cudarc::driver::CudaContext;
use kernel_registry::warm_all;

fn main() -> ExitCode {
    tell_watched(&Audit::new(), story)
}

fn story(context: Arc<CudaContext>) -> Outcome<Ending> {
    let warm = warm_all(&context)?;
    let Vectors { task, x: _x, y: _y } = Vectors::new(&context.new_stream()?)?;
    let begun = Instant::now();
    let mut worker =
        if cold() { Worker::start(&context, LIMIT)? } else { Worker::guarded(&warm, patience())? };
    let called = another_library(&context);
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
    let refused = called.err().ok_or("the module was loaded beside the worker")?;
    another_library(&context)?;
    Ok(Ending::Completed(format!(
        "refused after {took:.1?}: {refused}; the worker did its task, and the module was loaded afterwards. The audit has {}",
        findings()?.len()
    )))
}
