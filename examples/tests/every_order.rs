//! Runs a handshake of two kernels in every order of the program's threads, its streams and the kernels' threads.

use std::sync::atomic::AtomicU32;
use std::thread;

use kernel_registry::{MainError, Warmup};
use kernel_registry_resident::{Control, Mapped};
use kernel_registry_sim::{Explore, explore};
use kernels::waiting::{set_flag, spin_until_flag};

/// One thread launches a kernel that spins until a flag is set, and another one the kernel that sets the flag.
fn handshake(is_warm: bool) -> Result<(), MainError> {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    // A kernel that isn't warm is loaded at its launch, as by programs without kernel-registry.
    Warmup::new().only(|kernel| is_warm || kernel != set_flag::INFO).warm(&context)?;
    let (flag, control) = (Mapped::<AtomicU32>::zeroed(&context, 1)?, Control::new(&context, 1)?);
    control.unlimited();
    let [spins, sets] = [context.new_stream()?, context.new_stream()?];
    thread::scope(|threads| -> Result<(), MainError> {
        // SAFETY: flag and control block outlive the kernels, which have ended when `synchronize` returns.
        let spin = || unsafe { spin_until_flag::launch(&spins, spin_until_flag::config(1), &flag, &control) };
        let spinning = thread::Builder::new().name("spins".into()).spawn_scoped(threads, spin)?;
        // SAFETY: as above.
        unsafe { set_flag::launch(&sets, set_flag::config(1), &flag, 1)? };
        Ok(spinning.join().expect("it doesn't panic")?)
    })?;
    Ok(context.synchronize()?)
}

#[test]
fn the_handshake_holds() {
    let explored = explore(Explore::default().schedules(300), || handshake(true));
    println!("{explored}");
    assert!(explored.schedules > 10, "{explored}");
}

#[test]
#[should_panic = "DEADLOCK: no party can continue: thread `kernel-registry` waits in cuModuleLoadDataEx"]
fn the_cold_handshake_hangs_in_one() {
    explore(Explore::default(), || handshake(false));
}
