//! A stream waits for a word in memory, and another thread launches the kernel that writes the word. Programs use this to order the
//! work of streams in several threads or processes.
//!
//! With `--cold` the other thread loads the kernel at its launch. Loading waits for all work on the device, including the waiting
//! stream, and that stream waits for the kernel: a deadlock.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::Instant;

use examples::{Ending, Fence, LIMIT, Loaded, Outcome, cold, patience, tell};
use kernel_registry::cudarc::driver::{CudaContext, CudaStream};
use kernel_registry::{PointerTo, warm_all};
use kernel_registry_resident::Mapped;
use kernels::waiting::set_flag;

fn main() -> ExitCode {
    tell(story)
}

fn story(context: Arc<CudaContext>) -> Outcome<Ending> {
    if !cold() {
        warm_all(&context)?.seal();
    }
    let word = Mapped::<AtomicU32>::zeroed(&context, 1)?;
    let [waits, submits] = [context.new_stream()?, context.new_stream()?];

    let fence = Fence::start(waits, word, patience())?;
    println!("a stream waits for a word");
    let begun = Instant::now();
    let word = PointerTo::<u32>::address(fence.word());
    let other = thread::spawn(move || submit(&submits, word).map_err(|error| error.to_string()));
    // A real program would wait for the stream here. The thread is joined first, because the word must outlive the thread.
    other.join().map_err(|_| "the thread panicked")??;
    let was_the_watchdog = fence.pass()?;
    let took = begun.elapsed();
    if was_the_watchdog {
        return Ok(Ending::Deadlock(format!(
            "the stream waits for the word, which a kernel will write; the kernel waits for the stream, because the driver \
             loads a kernel only once nothing is under way on the device, and a stream that waits is. \
             A watchdog wrote the word, after {LIMIT:?}, or nothing would have moved any more"
        )));
    }
    Ok(Ending::Completed(format!("another thread launched the kernel that writes the word: {took:.1?}")))
}

/// Launches the kernel that writes the word, and waits for it.
fn submit(stream: &Arc<CudaStream>, word: u64) -> Outcome {
    let set_flag = match cold() {
        // This is what programs without this library do.
        true => Loaded::by_hand(stream.context(), set_flag::INFO)?,
        false => Loaded::Warm(set_flag::INFO),
    };
    // SAFETY: the kernel's parameters are a pointer and a number, and the word exists until this thread is joined.
    unsafe { set_flag.launch(stream, set_flag::over(1), &[word, 1])? };
    Ok(stream.synchronize()?)
}
