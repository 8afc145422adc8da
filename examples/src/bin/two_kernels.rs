//! One kernel spins until another kernel sets its flag. The device has room for both.
//!
//! With `--cold` the second kernel was not warmed. Its launch loads the kernel, and loading waits for the first kernel. The first
//! kernel waits for the second.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use examples::{Ending, LIMIT, Loaded, Outcome, Resident, cold, patience, pretend_to_be_ready, tell};
use kernel_registry::Warmup;
use kernel_registry::cudarc::driver::CudaContext;
use kernels::waiting::{set_flag, spin_until_flag};

fn main() -> ExitCode {
    tell(story)
}

fn story(context: Arc<CudaContext>) -> Outcome<Ending> {
    // By default, a kernel that is not warm is loaded at its launch, and this is reported.
    let warm = Warmup::new().only(|kernel| !cold() || kernel == spin_until_flag::INFO).warm(&context)?;
    if !cold() {
        // From here on no kernel may be loaded.
        warm.seal();
    }
    println!("{} of {} kernels are warm", warm.report().kernels.len(), kernel_registry::kernels()?.len());

    let spins = Resident::start(&context, &Loaded::Warm(spin_until_flag::INFO), patience())?;
    println!("`spin_until_flag` runs");
    if cold() {
        pretend_to_be_ready();
    }

    let stream = context.new_stream()?;
    let begun = Instant::now();
    // SAFETY: the flag exists until both kernels have ended.
    unsafe { set_flag::launch(&stream, set_flag::over(1), spins.flag(), 1)? };
    let gave_up = spins.gave_up()?;
    let took = begun.elapsed();
    stream.synchronize()?;
    if gave_up {
        return Ok(Ending::Deadlock(format!(
            "`set_flag` waits for `spin_until_flag`, because the driver loads a kernel at its first launch, and only once \
             nothing else runs on the device; `spin_until_flag` waits for the flag that `set_flag` sets. \
             Only its limit of {LIMIT:?} ended that, {took:.1?} after the launch"
        )));
    }
    Ok(Ending::Completed(format!(
        "`set_flag` was launched for the first time beside it, and released it: {took:.1?}"
    )))
}
