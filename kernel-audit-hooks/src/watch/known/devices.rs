//! Sets of devices, and peer access between them.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};

use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute, CUresult};

use crate::watch::known::contexts;
use crate::watch::loader::real::{driver_function, stored};
use crate::watch::process::locked::Locked;
use crate::watch::record::recording;

/// A set of devices whose kernels a call waits for. Ordinals are taken modulo 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Devices(pub(crate) u64);

impl Devices {
    pub(crate) const NONE: Devices = Devices(0);
    pub(crate) const ALL: Devices = Devices(!0);

    pub(crate) fn from_device(device: CUdevice) -> Self {
        Devices(1 << (device & 63))
    }

    pub(crate) fn and(self, others: Devices) -> Self {
        Devices(self.0 | others.0)
    }

    pub(crate) fn overlap(self, others: Devices) -> bool {
        self.0 & others.0 != 0
    }
}

/// Returns a device's compute capability, major and minor.
pub(crate) fn capability(device: CUdevice) -> Option<(u32, u32)> {
    driver_function!(static GET = cuDeviceGetAttribute(*mut i32, CUdevice_attribute, CUdevice));
    let get = GET.get()?;
    // SAFETY: the call stores a number.
    let number = |which| stored(0, |number| unsafe { get(number, which, device) })?.try_into().ok();
    use CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    number(MAJOR).zip(number(MINOR))
}

fn name(device: CUdevice) -> Option<String> {
    const ROOM: usize = 256;
    driver_function!(static GET = cuDeviceGetName(*mut c_char, c_int, CUdevice));
    let get = GET.get()?;
    // SAFETY: the call stores a text of at most so many bytes, with a zero at its end.
    let name = stored([0_u8; ROOM], |room| unsafe { get(room.as_mut_ptr().cast(), ROOM as c_int, device) })?;
    Some(CStr::from_bytes_until_nul(&name).ok()?.to_string_lossy().into_owned())
}

/// The lines of the record on the devices that have had a context.
static USED: Locked<Vec<(CUdevice, String)>> = Locked::new();

/// Records a device with its first context. No thread can wait in that context yet, so the driver answers at once; later
/// another thread could have the driver's lock until nothing runs on the device.
pub(crate) fn record_use(device: CUdevice) {
    let is_known = |used: &[(CUdevice, String)]| used.iter().any(|(its, _)| *its == device);
    if is_known(&USED.lock()) {
        return;
    }
    let Some((major, minor)) = capability(device) else { return };
    let name = name(device).unwrap_or_default();
    USED.with(|used| {
        if !is_known(used) {
            used.push((device, format!("{device} {major}.{minor} {name}\n")));
        }
        let lines: String = used.iter().map(|(_, line)| &**line).collect();
        recording::write_devices(&lines);
    });
}

/// Returns all visible devices.
pub(crate) fn list() -> Option<impl Iterator<Item = CUdevice>> {
    driver_function!(static COUNT = cuDeviceGetCount(*mut i32));
    let count = COUNT.get()?;
    // SAFETY: the call stores a number.
    Some(0..stored(0, |number| unsafe { count(number) })?)
}

/// For each device, the others that can access its memory.
static PEERS: Locked<HashMap<CUdevice, Devices>> = Locked::new();

/// Returns the devices that can access a device's memory, including itself.
pub(crate) fn using_memory_of(device: CUdevice) -> Devices {
    let peers = PEERS.lock().get(&device).copied().unwrap_or(Devices::NONE);
    Devices::from_device(device).and(peers)
}

/// Calls `real`, which lets the current context access another one's memory. The pair of devices is never
/// forgotten, because memory may have been mapped.
pub(crate) fn map_peer(owner: CUcontext, real: impl FnOnce() -> CUresult) -> CUresult {
    let result = real();
    let devices = contexts::device_of(owner.addr() as u64).zip(contexts::current_device());
    if let (CUresult::CUDA_SUCCESS, Some((owner, user))) = (result, devices) {
        map(owner, user);
    }
    result
}

fn map(owner: CUdevice, user: CUdevice) {
    let mut peers = PEERS.lock();
    let users = peers.entry(owner).or_insert(Devices::NONE);
    *users = users.and(Devices::from_device(user));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_a_peer_maps_counts_for_both() {
        assert!(!using_memory_of(2).overlap(Devices::from_device(3)));
        map(2, 3);
        assert!(
            using_memory_of(2).overlap(Devices::from_device(3))
                && using_memory_of(2).overlap(Devices::from_device(2))
        );
        assert!(!using_memory_of(3).overlap(Devices::from_device(2)), "not the other way round");
        assert!(Devices::ALL.overlap(Devices::from_device(63)) && !Devices::NONE.overlap(Devices::ALL));
    }
}
