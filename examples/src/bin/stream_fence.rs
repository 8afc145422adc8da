//! A stream waits for a word in memory, and another thread then submits the work that writes it: how programs order streams
//! among threads and processes.
//!
//! With `--cold` the kernel that writes it is loaded, by cudarc and to the last byte, but nothing has run in the context
//! yet. The first launch of a context waits for streams that wait. `CUDA_MODULE_LOADING=EAGER` changes nothing about that;
//! `warm_all` has a first launch behind it.

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use examples::{Ending, Fence, LIMIT, Loaded, Mapped, Outcome, cold, tell};
use kernel_registry::cudarc::driver::CudaContext;
use kernel_registry::warm_all;
use kernels::waiting::set_flag;

fn main() -> ExitCode {
    tell(story)
}

fn story(context: Arc<CudaContext>) -> Outcome<Ending> {
    let word = Mapped::zeroed(&context, 1)?;
    let [waits, submits] = [context.new_stream()?, context.new_stream()?];
    // Not by `Warmup` in either case: even for one kernel it launches something first.
    let writes = match cold() {
        true => Loaded::by_hand(&context, set_flag::INFO)?,
        false => {
            warm_all(&context)?;
            Loaded::Warm(set_flag::INFO)
        }
    };
    context.synchronize()?;

    let fence = Fence::start(waits, word, LIMIT)?;
    println!("a stream waits for a word");
    let begun = Instant::now();
    let word = fence.word().expose_provenance() as u64;
    let other = thread::spawn(move || {
        // SAFETY: its parameters are a pointer and a word; and the word stays until this thread was joined.
        let launched = unsafe { writes.launch(&submits, set_flag::over(1), &[word, 1]) };
        launched.and_then(|()| Ok(submits.synchronize()?)).map_err(|error| error.to_string())
    });
    other.join().map_err(|_| "the thread panicked")??;
    let was_the_watchdog = fence.pass()?;
    let took = begun.elapsed();
    if was_the_watchdog {
        return Ok(Ending::Deadlock(format!(
            "the stream waits for the word, which a kernel will write; the kernel, though loaded, waits for the stream, \
             because it is the first that is launched in this context. A watchdog wrote the word, {took:.1?} later"
        )));
    }
    Ok(Ending::Completed(format!("another thread launched the kernel that writes the word: {took:.1?}")))
}
