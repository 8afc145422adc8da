//! Functions of devices: names, sizes, attributes.

use crate::driver::caller::arguments::{Out, write_text};
use crate::driver::config::device::Device;
use crate::driver::process::simulator::begin;
use crate::driver::process::state::State;
use crate::driver::result::{Answer, Code};

/// The index of a device, if it exists.
pub(crate) fn device(state: &State, ordinal: i32) -> Answer<usize> {
    let device = usize::try_from(ordinal).ok().filter(|device| *device < state.devices.len());
    device.ok_or(Code::INVALID_DEVICE)
}

/// The kind of a device.
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
        // No simulated device can use another one's memory.
        can.set(0)
    };
}

fn uuid_of(device: usize) -> [u8; 16] {
    let mut uuid = *b"simulated-cuda-\0";
    uuid[15] = device as u8;
    uuid
}

/// The value of a `CUdevice_attribute`: what an H200 answers, or what follows from the kind of device where devices differ.
fn attribute(kind: &Device, device: usize, which: u32) -> Option<i32> {
    let room = kind.room();
    Some(match which {
        // Threads of a block, then its sides, then those of a grid.
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        // Shared memory of a block, constant memory, the width of a warp, pitch, registers of a block.
        8 => 48 << 10,
        9 => 64 << 10,
        10 => 32,
        11 => i32::MAX,
        12 => 65_536,
        // The clock in kHz, alignment of textures and surfaces, multiprocessors, the PCI bus.
        13 => (kind.speed.clock * 1000) as i32,
        14 | 30 => 512,
        16 => kind.processors as i32,
        33 => device as i32,
        // Clock and width of the memory, its cache, threads of a multiprocessor, copy engines.
        36 => (kind.speed.memory_clock * 1000) as i32,
        37 => kind.speed.bus as i32,
        38 => (kind.speed.cache << 20) as i32,
        39 => room.threads as i32,
        40 => 3,
        75 => (kind.arch / 10) as i32,
        76 => (kind.arch % 10) as i32,
        // Shared memory and registers of a multiprocessor, slowness with doubles.
        81 => room.shared as i32,
        82 => 65_536,
        87 => {
            if matches!(kind.arch, 80 | 90 | 100) {
                2
            } else {
                64
            }
        }
        // The shared memory that a block can be granted, blocks of a multiprocessor, persisting cache, reserved shared memory,
        // clusters.
        97 => kind.shared_of_block() as i32,
        106 => room.blocks as i32,
        108 => 134_217_728,
        111 => room.reserved_shared as i32,
        120 => kind.has_clusters().into(),
        // Overlap of copies, mapped memory, kernels at once, ECC, unified addresses, priorities of streams, caches of global and
        // local memory, managed memory, pageable memory, words in memory of 32 bits and NOR, cooperative launches, pools.
        15 | 19 | 31 | 32 | 41 | 78..=80 | 83 | 89..=92 | 94 | 95 | 98 | 99 | 102 | 115 => 1,
        // A limit of time for kernels, integrated, compute mode, PCI device and domain, TCC, boards, atomics with the host,
        // managed access at once, words in memory of 64 bits.
        17 | 18 | 20 | 34 | 35 | 50 | 84..=86 | 88 | 93 | 96 | 100 | 101 | 121 => 0,
        _ => return None,
    })
}
