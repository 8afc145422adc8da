//! Stores memory pools: counts of their bytes, and which pool a device uses.

use std::collections::BTreeMap;

use super::blocks::{Kind, Memory};
use crate::driver::handles::{Handle, Handles};
use crate::driver::result::{Answer, Code};

/// Values of `CUmemPool_attribute`.
const THRESHOLD: u32 = 4;
const RESERVED: u32 = 5;
const MOST_RESERVED: u32 = 6;
const USED: u32 = 7;
const MOST_USED: u32 = 8;

pub(crate) struct Pool {
    pub(crate) device: usize,
    /// The most bytes that were allocated from the pool at once.
    pub(crate) most_used: u64,
    /// How many free bytes the pool should keep. The value is stored and has no effect.
    threshold: u64,
}

impl Pool {
    fn new(device: usize) -> Self {
        Pool { device, most_used: 0, threshold: 0 }
    }

    /// Returns a `CUmemPool_attribute`. The pool reserves exactly the bytes that are used.
    pub(crate) fn attribute(&self, which: u32, used: u64) -> Answer<u64> {
        match which {
            THRESHOLD => Ok(self.threshold),
            RESERVED | USED => Ok(used),
            MOST_RESERVED | MOST_USED => Ok(self.most_used.max(used)),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Sets an attribute. A high-water mark can only be reset.
    pub(crate) fn set_attribute(&mut self, which: u32, value: u64) -> Answer {
        match (which, value) {
            (THRESHOLD, _) => self.threshold = value,
            (MOST_RESERVED | MOST_USED, 0) => self.most_used = 0,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }
}

impl Memory {
    pub(crate) fn used_of_pool(&self, pool: Handle) -> u64 {
        let blocks = self.blocks.values().filter(|block| block.kind == Kind::Pooled(pool));
        blocks.map(|block| block.bytes as u64).sum()
    }
}

/// All pools, and which pool each device uses.
pub(crate) struct Pools {
    pools: Handles<Pool>,
    /// The pool that a device has from the start, by the number of the device.
    default: BTreeMap<usize, Handle>,
    /// The pool that streams of a device allocate from, if it is not the default pool.
    chosen: BTreeMap<usize, Handle>,
}

impl Default for Pools {
    fn default() -> Self {
        Pools { pools: Handles::of_values(10), default: BTreeMap::new(), chosen: BTreeMap::new() }
    }
}

impl Pools {
    pub(crate) fn get(&self, pool: Handle) -> Answer<&Pool> {
        self.pools.get(pool)
    }

    pub(crate) fn get_mut(&mut self, pool: Handle) -> Answer<&mut Pool> {
        self.pools.get_mut(pool)
    }

    pub(crate) fn create(&mut self, device: usize) -> Handle {
        self.pools.insert(Pool::new(device))
    }

    /// Returns the pool that a device has from the start.
    pub(crate) fn default_of(&mut self, device: usize) -> Handle {
        *self.default.entry(device).or_insert_with(|| self.pools.insert(Pool::new(device)))
    }

    /// Returns the pool that streams of a device allocate from.
    pub(crate) fn chosen_for(&mut self, device: usize) -> Handle {
        self.chosen.get(&device).copied().unwrap_or_else(|| self.default_of(device))
    }

    pub(crate) fn choose(&mut self, device: usize, pool: Handle) -> Answer {
        if self.get(pool)?.device != device {
            return Err(Code::INVALID_VALUE);
        }
        self.chosen.insert(device, pool);
        Ok(())
    }

    /// Removes a pool. Memory that was allocated from it remains until it is freed.
    pub(crate) fn destroy(&mut self, pool: Handle) -> Answer {
        let device = self.get(pool)?.device;
        if self.default_of(device) == pool {
            return Err(Code::INVALID_VALUE);
        }
        self.chosen.retain(|_, chosen| *chosen != pool);
        self.pools.remove(pool).map(drop)
    }
}
