//! A program launches two resident kernels, each with a grid whose blocks wait for each other. The device has room for one of the grids,
//! but not for both.
//!
//! Without `--cold`, `Resident::check` refuses the second grid. With `--cold` nothing is checked: some blocks of the second grid never
//! start, because the first grid runs until the program ends it, and the program waits for the second grid.

use std::process::ExitCode;
use std::sync::Arc;

use examples::{ARRIVAL_TIMEOUT, Ending, LIMIT, Outcome, cold, stay_limit, tell};
use kernel_registry::cudarc::driver::CudaContext;
use kernel_registry::warm_all;
use kernel_registry_resident::{Control, Resident, ResidentError};
use kernels::waiting::stay_together;

fn main() -> ExitCode {
    tell(story)
}

/// The number of threads of a block. A multiprocessor has room for two such blocks.
const THREADS: u32 = 1024;

fn story(context: Arc<CudaContext>) -> Outcome<Ending> {
    let warm = warm_all(&context)?;
    let grid = |blocks: u32| stay_together::config(blocks).block(THREADS);
    let room = u32::try_from(Resident::<stay_together>::new(grid(1)).check(&warm)?.fit().capacity)?;
    let blocks = room * 3 / 4;
    println!("the device has room for {room} blocks, and each grid has {blocks}");
    if cold() { unchecked(&context, blocks) } else { checked(&context, blocks) }
}

fn unchecked(context: &Arc<CudaContext>, blocks: u32) -> Outcome<Ending> {
    let limit = stay_limit(context)?;
    let launch = || {
        let (stream, control) = (context.new_stream()?, Control::new(context, blocks)?);
        control.limit(limit);
        let config = stay_together::config(blocks).block(THREADS);
        // SAFETY: freeing the control block waits for the kernel.
        unsafe { stay_together::launch(&stream, config, &control, limit.as_nanos() as u64)? };
        Outcome::Ok((stream, control))
    };
    let first = launch()?;
    first.1.wait_for_blocks(ARRIVAL_TIMEOUT)?;
    let second = launch()?;
    // Half of the limit: the first grid must still be resident when this wait ends.
    let missing = second.1.wait_for_blocks(LIMIT / 2);
    let is_there = first.1.presence();
    for (stream, control) in [first, second] {
        control.stop();
        stream.synchronize()?;
    }
    Ok(match missing {
        Err(missing) => Ending::Deadlock(format!(
            "of the second grid, {missing}. Its blocks wait for those that are missing, which wait for the first grid to end, and \
             that runs until the second is there. Only this program ended that"
        )),
        Ok(()) => Ending::Completed(format!("both grids had room ({is_there:?})")),
    })
}

fn checked(context: &Arc<CudaContext>, blocks: u32) -> Outcome<Ending> {
    let (warm, limit) = (warm_all(context)?, stay_limit(context)?);
    let resident = |blocks: u32| {
        Resident::<stay_together>::new(stay_together::config(blocks).block(THREADS)).limit(limit).check(&warm)
    };
    let launch = |resident: kernel_registry_resident::Checked<stay_together>| {
        let stream = context.new_stream()?;
        // SAFETY: the section keeps the control block.
        let section = resident.launch(&stream, |launch| unsafe {
            stay_together::launch(&stream, launch, launch.control(), limit.as_nanos() as u64)
        })?;
        section.wait_for_blocks(ARRIVAL_TIMEOUT)?;
        Outcome::Ok(section)
    };
    let first = launch(resident(blocks)?)?;
    let (error, left) = match resident(blocks) {
        Err(error @ ResidentError::GridTooLarge { capacity, .. }) => (error, u32::try_from(capacity)?),
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("both grids have room".into()),
    };
    println!("refused: {error}");
    let second = launch(resident(left)?)?;
    let text =
        format!("a second grid of {left} blocks is there as a whole, beside the first one of {blocks}");
    second.stop()?;
    first.stop()?;
    Ok(Ending::Completed(text))
}
