//! Code of another library loads a module while a kernel runs that waits for this program. The program has installed an audit and is
//! sealed, so the load is refused at once, and the program continues.
//!
//! With `--cold` there is no audit. Loading the module waits for the kernel, and the kernel waits for the program.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use examples::{Ending, LIMIT, Loaded, Outcome, Resident, another_library, tell_watched};
use kernel_audit::{AfterReady, Audit, findings};
use kernel_registry::cudarc::driver::CudaContext;
use kernel_registry::warm_all;
use kernels::waiting::spin_until_flag;

fn main() -> ExitCode {
    tell_watched(&Audit::new().after_ready(AfterReady::Refuse), story)
}

fn story(context: Arc<CudaContext>) -> Outcome<Ending> {
    let warm = warm_all(&context)?;
    warm.seal();
    let spins = Resident::start(&context, &Loaded::Warm(spin_until_flag::INFO), LIMIT)?;
    println!("{} kernels are warm, and `spin_until_flag` runs", warm.report().kernels.len());

    let begun = Instant::now();
    let module = another_library(&context);
    let took = begun.elapsed();
    if !spins.is_running() {
        module?;
        return Ok(Ending::Deadlock(format!(
            "the module waits for `spin_until_flag`, because the driver loads a module only once nothing runs on the device; \
             `spin_until_flag` waits for this program, which waits for the module. Only its limit of {LIMIT:?} ended that, \
             {took:.1?} after the call"
        )));
    }
    let refused = module.err().ok_or("the module was loaded beside the kernel")?;
    spins.release()?;
    let late = findings()?;
    Ok(Ending::Completed(format!("refused after {took:.1?}: {refused}; the audit has {} of it", late.len())))
}
