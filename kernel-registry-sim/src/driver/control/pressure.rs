//! Creates memory pressure: takes memory of a device, so that a program runs out of memory.

use crate::driver::state::simulator::Simulator;

/// Takes all free memory of a device except this many bytes, until the returned guard is dropped.
///
/// ```
/// kernel_registry_sim::install()?;
/// let pressure = kernel_registry_sim::leave_memory(0, 1 << 30);
/// // Run the code that must get by with 1 GiB.
/// drop(pressure);
/// # Ok::<(), kernel_registry_sim::InstallError>(())
/// ```
pub fn leave_memory(device: usize, bytes: u64) -> MemoryPressure {
    let mut pressure = MemoryPressure { device, taken: 0 };
    let Ok(simulator) = Simulator::of_this_process() else { return pressure };
    let mut state = simulator.lock();
    if device < state.devices.len() {
        pressure.taken = state.free_memory(device).saturating_sub(bytes);
        state.devices[device].taken += pressure.taken;
    }
    drop(state);
    pressure
}

/// A guard that keeps memory of a device taken.
#[derive(Debug)]
#[must_use = "the memory is free again when this is dropped"]
pub struct MemoryPressure {
    device: usize,
    taken: u64,
}

impl Drop for MemoryPressure {
    fn drop(&mut self) {
        // In a child process after fork there is nothing to free, and the lock may be held by a thread that does not
        // exist there.
        let Ok(simulator) = Simulator::of_this_process() else { return };
        if let Some(device) = simulator.lock().devices.get_mut(self.device) {
            device.taken = device.taken.saturating_sub(self.taken);
        }
    }
}
