//! Finds the function by which a simulated driver (`kernel-registry-sim`) chooses the order of the host's accesses and a kernel's.

use kernel_registry::__private_0_1::resident::Driver;

/// Is called before an access to this address, to so many bytes.
pub(crate) type Step = extern "C" fn(usize, usize);

/// Returns the function if the driver is a simulated one.
pub(crate) fn step_of_simulator() -> Option<Step> {
    let driver = Driver::get().ok()?;
    // SAFETY: `Step` is the type of this function.
    unsafe { driver.find_of_audit::<Step>(c"kernelRegistrySimulatedDriverStep") }
}
