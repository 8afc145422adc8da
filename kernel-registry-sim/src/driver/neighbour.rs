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
    let mut state = Simulator::get().lock();
    let taken = match state.devices.len() {
        count if device < count => state.free_memory(device).saturating_sub(bytes),
        _ => 0,
    };
    if taken > 0 {
        state.devices[device].taken += taken;
    }
    Neighbour { device, taken }
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
        if let Some(device) = Simulator::get().lock().devices.get_mut(self.device) {
            device.taken -= self.taken;
        }
    }
}
