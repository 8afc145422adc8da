//! Copies handles, and drops streams and contexts while kernels run: nothing is released early, and nothing is loaded twice.
//!
//! A kernel's code exists as an image in the program, and as loaded code in each context. `INFO`, a handle or a stream only refers to
//! this code, so it can be copied and dropped freely.

use std::process::ExitCode;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use examples::{Ending, LIMIT, Outcome, tell};
use kernel_registry::cudarc::driver::{CudaContext, CudaStream, sys};
use kernel_registry::{Prepared, Warm, warm_all};
use kernel_registry_resident::{Control, Mapped};
use kernel_registry_resident::{Ended, Presence};
use kernels::waiting::{set_flag, spin_until_flag, touch};

fn main() -> ExitCode {
    tell(|context| {
        let warm = warm_all(&context)?;
        images();
        handles(&warm)?;
        streams(&context)?;
        contexts(context, warm)?;
        Ok(Ending::Completed("nothing was released early, and nothing was loaded twice".to_owned()))
    })
}

fn ensure(is_so: bool, words: String) -> Outcome {
    println!("{} {words}", if is_so { "ok  " } else { "FAIL" });
    if is_so { Ok(()) } else { Err("this check failed".into()) }
}

/// Prints that kernels of one file share one image.
fn images() {
    if let (Some(one), Some(other)) = (touch::INFO.image(), set_flag::INFO.image()) {
        let shared = if ptr::eq(one.bytes(), other.bytes()) { "one image" } else { "two images" };
        println!("     `touch` and `set_flag` have {shared} in this program, of {} bytes", one.bytes().len());
    }
}

/// Checks that copies of a handle are the same kernel, and that a second `CudaContext` of the device is the same context.
fn handles(warm: &Warm) -> Outcome {
    let again = kernel_registry::context(0)?;
    let handle = touch::INFO.cu_function(warm.context())?;
    ensure(handle == touch::INFO.cu_function(&again)?, "another `CudaContext`, the same handle".to_owned())?;
    let loaded = warm_all(&again)?.report().images_loaded;
    ensure(
        loaded == 0,
        format!("warmed again: {loaded} images loaded, after {}", warm.report().images_loaded),
    )?;

    let count = Mapped::<AtomicU32>::zeroed(&again, 1)?;
    let prepared = Prepared::<touch>::new(warm.context(), touch::over(1))?;
    let copy = prepared.clone();
    drop(prepared);
    let stream = again.new_stream()?;
    // SAFETY: the word exists until the kernel has ended.
    unsafe { touch::launch(&stream, &copy, &count)? };
    stream.synchronize()?;
    ensure(
        count[0].load(Ordering::Acquire) == 1,
        "a copy of a prepared launch, its original dropped".to_owned(),
    )
}

/// The memory of two kernels: `spin_until_flag`, which waits, and `touch`, which counts.
struct Words {
    flag: Mapped<AtomicU32>,
    count: Mapped<AtomicU32>,
    control: Control,
}

impl Words {
    fn new(context: &Arc<CudaContext>) -> Outcome<Self> {
        let word = || Mapped::<AtomicU32>::zeroed(context, 1);
        Ok(Words { flag: word()?, count: word()?, control: Control::new(context, 1)? })
    }
}

/// Launches a kernel that waits, and after it, in the same stream, a kernel that counts.
fn launch_both(stream: &Arc<CudaStream>, Words { flag, count, control }: &Words) -> Outcome {
    control.limit(LIMIT);
    // SAFETY: freeing the words waits for the kernels.
    unsafe {
        spin_until_flag::launch(stream, spin_until_flag::over(1), flag, control)?;
        touch::launch(stream, touch::over(1), count)?;
    }
    Ok(())
}

/// Sets the flag. Returns whether the kernels had not ended before, and then both completed.
fn complete_both(Words { flag, count, control }: &Words) -> bool {
    let had_not_ended = !matches!(control.presence(), Presence::Ended(_));
    flag[0].store(1, Ordering::Release);
    for _ in 0..1000 {
        if count[0].load(Ordering::Acquire) == 1 {
            return had_not_ended && control.presence() == Presence::Ended(Ended::ByItself);
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

fn streams(context: &Arc<CudaContext>) -> Outcome {
    let (stream, words) = (context.new_stream()?, Words::new(context)?);
    launch_both(&stream, &words)?;
    drop(stream);
    ensure(complete_both(&words), "a stream dropped while it works: its kernels completed".to_owned())
}

/// Checks that a context exists as long as any object that was created in it.
fn contexts(context: Arc<CudaContext>, warm: Warm) -> Outcome {
    let (loaded, former) = (warm.report().images_loaded, id(&context)?);
    let (stream, words) = (context.new_stream()?, Words::new(&context)?);
    let watched = Arc::downgrade(&context);
    launch_both(&stream, &words)?;
    drop((context, warm, stream));
    ensure(
        watched.upgrade().is_some(),
        "a context dropped while it works: its memory keeps it alive".to_owned(),
    )?;
    ensure(complete_both(&words), "its kernels completed".to_owned())?;
    drop(words);
    ensure(watched.upgrade().is_none(), "dropped with the last object made in it".to_owned())?;

    let context = kernel_registry::context(0)?;
    ensure(id(&context)? != former, "the device's next context is another one".to_owned())?;
    let again = warm_all(&context)?.report().images_loaded;
    println!(
        "     {again} of {loaded} images are loaded again there; images that the driver compiled belong to the process"
    );
    Ok(())
}

/// Returns the context's id. The address does not identify a context, because the next context often has the same address.
fn id(context: &CudaContext) -> Outcome<u64> {
    let mut id = 0;
    // SAFETY: the context exists.
    unsafe { sys::cuCtxGetId(context.cu_ctx(), &mut id).result()? };
    Ok(id)
}
