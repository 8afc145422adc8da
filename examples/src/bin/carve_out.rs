//! A kernel is resident on every multiprocessor, and uses almost no resources. Another kernel, `histogram`, needs much shared memory.
//!
//! A multiprocessor divides its memory between shared memory and cache (the carve-out) when its first block starts, and keeps that
//! carve-out while a block runs. So with `--cold`, `histogram` waits for the resident kernel. Without `--cold`, `Resident::check` finds
//! that out, and makes the resident kernel prefer a large carve-out.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use examples::{ARRIVAL_TIMEOUT, Ending, LIMIT, Outcome, cold, patience, tell};
use kernel_registry::cudarc::driver::CudaContext;
use kernel_registry::warm_all;
use kernel_registry_resident::{Control, Mapped, Resident};
use kernel_registry_resident::{Ended, Presence};
use kernels::memory::histogram;
use kernels::waiting::spin_until_flag;

fn main() -> ExitCode {
    tell(story)
}

const BINS: u32 = 25_000;
const VALUES: u32 = 1000;

fn story(context: Arc<CudaContext>) -> Outcome<Ending> {
    let warm = warm_all(&context)?;
    let (residents, passes) = (context.new_stream()?, context.new_stream()?);
    let values = passes.clone_htod(&[7; VALUES as usize])?;
    let mut bins = passes.alloc_zeros::<u32>(BINS as usize)?;
    passes.synchronize()?;
    let flag = Mapped::<AtomicU32>::zeroed(&context, 1)?;
    let resident = Resident::<spin_until_flag>::new(spin_until_flag::config(1)).check(&warm)?;
    let config = spin_until_flag::config(resident.fit().processors);

    let begun = Instant::now();
    // SAFETY: `values` and `bins` have these numbers of elements.
    let mut count =
        || unsafe { histogram::launch(&passes, histogram::config(1), VALUES, &values, BINS, &mut bins) };
    if cold() {
        let control = Control::new(&context, config.grid[0])?;
        control.limit(LIMIT);
        // SAFETY: freeing the flag and the control block waits for the kernel.
        unsafe { spin_until_flag::launch(&residents, config, &flag, &control)? };
        control.wait_for_blocks(ARRIVAL_TIMEOUT)?;
        count()?;
        passes.synchronize()?;
        let took = begun.elapsed();
        let gave_up = control.presence() == Presence::Ended(Ended::Limit);
        control.stop();
        residents.synchronize()?;
        if gave_up {
            return Ok(Ending::Deadlock(format!(
                "`histogram` waits for `spin_until_flag`, which has a block on every multiprocessor: each keeps a carve-out that \
                 has no room for the shared memory of `histogram`. Only the limit of {LIMIT:?} ended that, after {took:.1?}"
            )));
        }
    } else {
        let resident = Resident::<spin_until_flag>::new(config)
            .limit(patience())
            .beside(histogram::INFO, histogram::config(1));
        let resident = resident.check(&warm)?;
        println!("{}", resident.fit());
        // SAFETY: the flag's memory is freed only when no resident kernel is left.
        let section = resident.launch(&residents, |launch| unsafe {
            spin_until_flag::launch(&residents, launch, &flag, launch.control())
        })?;
        section.wait_for_blocks(ARRIVAL_TIMEOUT)?;
        count()?;
        passes.synchronize()?;
        if !section.is_running() {
            return Err("the kernel ended too soon".into());
        }
        section.stop()?;
    }
    let took = begun.elapsed();
    match passes.clone_dtoh(&bins)?[7] {
        VALUES => Ok(Ending::Completed(format!(
            "`histogram` ran beside a kernel on every multiprocessor: {took:.1?}"
        ))),
        other => Err(format!("a bin has {other} and not {VALUES}").into()),
    }
}
