//! Somebody else on a device, who has taken most of its memory.

use super::process::Simulator;

/// Takes all memory of a device but for these bytes, until what is returned is dropped. What has less left already keeps that.
///
/// ```
/// kernel_registry_sim::install()?;
/// let neighbour = kernel_registry_sim::leave_memory(0, 1 << 30);
/// // Here is what has to do with a GiB.
/// drop(neighbour);
/// # Ok::<(), kernel_registry_sim::InstallError>(())
/// ```
pub fn leave_memory(device: usize, bytes: u64) -> Neighbour {
    let mut neighbour = Neighbour { device, taken: 0 };
    let Ok(simulator) = Simulator::of_this_process() else { return neighbour };
    let mut state = simulator.lock();
    if device < state.devices.len() {
        neighbour.taken = state.free_memory(device).saturating_sub(bytes);
        state.devices[device].taken += neighbour.taken;
    }
    drop(state);
    neighbour
}

/// Somebody who has memory of a device.
#[derive(Debug)]
#[must_use = "the memory is free again when this is dropped"]
pub struct Neighbour {
    device: usize,
    taken: u64,
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // In a child of the process that made it nothing is taken; and there may be nobody who could give the lock back.
        let Ok(simulator) = Simulator::of_this_process() else { return };
        if let Some(device) = simulator.lock().devices.get_mut(self.device) {
            device.taken = device.taken.saturating_sub(self.taken);
        }
    }
}
