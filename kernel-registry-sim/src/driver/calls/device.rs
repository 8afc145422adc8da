//! Defines the functions of devices: names, sizes and attributes.

use crate::driver::caller::arguments::{Out, write_text};
use crate::driver::config::device::Device;
use crate::driver::result::{Answer, Code};
use crate::driver::state::State;
use crate::driver::state::simulator::begin;

/// Returns the index of the device with this ordinal, or an error if there is none.
pub(crate) fn device(state: &State, ordinal: i32) -> Answer<usize> {
    let device = usize::try_from(ordinal).ok().filter(|device| *device < state.devices.len());
    device.ok_or(Code::INVALID_DEVICE)
}

/// Returns the properties of a device.
fn kind(state: &State, ordinal: i32) -> Answer<&Device> {
    Ok(&state.devices[device(state, ordinal)?].kind)
}

calls! {
    2000 fn cuDeviceGetCount(count: Out<i32>) = count.set(begin()?.devices.len() as i32);
    2000 fn cuDeviceGet(found: Out<i32>, ordinal: i32) = found.set(device(&*begin()?, ordinal)? as i32);

    2000 fn cuDeviceGetName(name: Out<u8>, room: i32, ordinal: i32) = {
        let state = begin()?;
        let text = format!("simulated {}", kind(&state, ordinal)?.name);
        write_text(name, usize::try_from(room).map_err(|_| Code::INVALID_VALUE)?, &text)
    };

    3020 fn cuDeviceTotalMem_v2(bytes: Out<usize>, ordinal: i32) = {
        let state = begin()?;
        bytes.set(kind(&state, ordinal)?.memory as usize)
    };

    9020 fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, ordinal: i32) = uuid.set(uuid_of(device(&*begin()?, ordinal)?));
    11040 fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, ordinal: i32) = uuid.set(uuid_of(device(&*begin()?, ordinal)?));

    2000 fn cuDeviceGetAttribute(value: Out<i32>, which: u32, ordinal: i32) = {
        let state = begin()?;
        let device = device(&state, ordinal)?;
        value.set(attribute(&state.devices[device].kind, device, which).ok_or(Code::INVALID_VALUE)?)
    };

    4000 fn cuDeviceCanAccessPeer(can: Out<i32>, one: i32, other: i32) = {
        let state = begin()?;
        device(&state, one)?;
        device(&state, other)?;
        // No simulated device can use another device's memory.
        can.set(0)
    };
}

fn uuid_of(device: usize) -> [u8; 16] {
    let mut uuid = *b"simulated-cuda-\0";
    uuid[15] = device as u8;
    uuid
}

/// Returns the value of a `CUdevice_attribute`. Where devices differ, the value follows from `kind`. Otherwise it is
/// the value of an H200.
fn attribute(kind: &Device, device: usize, which: u32) -> Option<i32> {
    let room = kind.room();
    Some(match which {
        // The most threads of a block, the largest extents of a block, and the largest extents of a grid.
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        // Shared memory of a block, constant memory, warp size, largest pitch, registers of a block.
        8 => 48 << 10,
        9 => 64 << 10,
        10 => 32,
        11 => i32::MAX,
        12 => 65_536,
        // Clock in kHz, alignment of textures and surfaces, number of multiprocessors, PCI bus id.
        13 => (kind.speed.clock * 1000) as i32,
        14 | 30 => 512,
        16 => kind.processors as i32,
        33 => device as i32,
        // Clock and bus width of the memory, L2 cache, threads of a multiprocessor, copy engines, compute capability.
        36 => (kind.speed.memory_clock * 1000) as i32,
        37 => kind.speed.bus as i32,
        38 => (kind.speed.cache << 20) as i32,
        39 => room.threads as i32,
        40 => 3,
        75 => (kind.arch / 10) as i32,
        76 => (kind.arch % 10) as i32,
        // Shared memory and registers of a multiprocessor, ratio of single to double precision performance.
        81 => room.shared as i32,
        82 => 65_536,
        87 => {
            if matches!(kind.arch, 80 | 90 | 100) {
                2
            } else {
                64
            }
        }
        // Opt-in shared memory of a block, blocks of a multiprocessor, persisting L2 cache, reserved shared memory,
        // clusters.
        97 => kind.shared_of_block() as i32,
        106 => room.blocks as i32,
        108 => 134_217_728,
        111 => room.reserved_shared as i32,
        120 => kind.has_clusters().into(),
        // Supported: overlapping copies, mapped host memory, concurrent kernels, ECC, unified addressing, stream
        // priorities, L1 caching of global and local memory, managed memory, pageable memory access, 32-bit and NOR
        // stream memory operations, cooperative launches, memory pools.
        15 | 19 | 31 | 32 | 41 | 78..=80 | 83 | 89..=92 | 94 | 95 | 98 | 99 | 102 | 115 => 1,
        // 0 or unsupported: kernel time limit, integrated device, compute mode, PCI device and domain, TCC, multi-GPU
        // board, atomics with the host, concurrent managed access, 64-bit stream memory operations.
        17 | 18 | 20 | 34 | 35 | 50 | 84..=86 | 88 | 93 | 96 | 100 | 101 | 121 => 0,
        _ => return None,
    })
}
