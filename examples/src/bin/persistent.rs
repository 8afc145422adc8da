//! A persistent worker runs, and the program launches another kernel for the first time. The worker's next task needs the result of
//! that kernel.
//!
//! With `--cold` the other kernel was not warmed. The kernel's first launch loads it, and loading waits for everything that runs on
//! the device. But the worker runs until it gets its next task, and the program gives the worker that task only after the launch.
//! Without a time limit in the worker, this would never end.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use examples::{Ending, LIMIT, N, Outcome, Vectors, Worker, cold, patience, pretend_to_be_ready, tell};
use kernel_registry::Warmup;
use kernel_registry::cudarc::driver::CudaContext;
use kernels::blas1::sscal;
use kernels::waiting::worker;

fn main() -> ExitCode {
    tell(story)
}

fn story(context: Arc<CudaContext>) -> Outcome<Ending> {
    // By default, a kernel that is not warm is loaded at its launch, and this is reported.
    let warm = Warmup::new().only(|kernel| !cold() || kernel == worker::INFO).warm(&context)?;
    if !cold() {
        // From here on no kernel may be loaded.
        warm.seal();
    }
    println!("{} of {} kernels are warm", warm.report().kernels.len(), kernel_registry::kernels()?.len());

    let stream = context.new_stream()?;
    let Vectors { mut x, y, task } = Vectors::new(&stream)?;

    let mut worker = Worker::start(&context, patience())?;
    worker.submit(task)?;
    if !worker.is_done() {
        return Err("the worker did not do its first task".into());
    }
    println!("the worker runs, and has done its first task: y = 3x + y");
    if cold() {
        pretend_to_be_ready();
    }

    // The next task is the same, but the kernel `sscal` scales its vector first.
    let begun = Instant::now();
    // SAFETY: the vector has `N` elements, and the worker does not use it now.
    unsafe { sscal::launch(&stream, sscal::over(N), N, 2.0, &mut x)? };
    stream.synchronize()?;
    worker.submit(task)?;
    let is_done = worker.is_done();
    let took = begun.elapsed();
    worker.stop()?;
    if !is_done {
        return Ok(Ending::Deadlock(format!(
            "the program waits {took:.1?} for the first launch of `sscal`; the driver loads it only once nothing else runs \
             on the device; and the worker runs, waiting for its next task, which needs what `sscal` computes. \
             Only the worker's limit of {LIMIT:?} ended that"
        )));
    }
    let y = stream.clone_dtoh(&y)?;
    match y.iter().find(|y| **y != 3.0 * 2.0 + (3.0 * 1.0 + 2.0)) {
        Some(y) => Err(format!("an element is {y} and not 11").into()),
        None => Ok(Ending::Completed(format!(
            "launched `sscal` for the first time beside the worker, and the worker did the task that needs it: {took:.1?}"
        ))),
    }
}
