//! Pools of memory, as far as they can be told apart.

use std::collections::BTreeMap;

use super::handles::{Handle, Handles};
use super::memory::{Kind, Memory};
use super::result::{Answer, Code};

#[derive(Debug)]
pub(super) struct Pool {
    pub(super) device: usize,
    /// 0 if it has no limit but the device's.
    pub(super) most_bytes: u64,
    /// The most that was allocated from it at once.
    pub(super) most_used: u64,
    /// Three switches about what is reused when, and how much it should keep. All are remembered, and change nothing.
    reuse: [u64; 3],
    threshold: u64,
}

/// `CUmemPool_attribute`.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Attribute {
    Reuse(usize),
    Threshold,
    Used,
    MostUsed,
}

impl Attribute {
    pub(super) fn from_number(which: u32) -> Answer<Self> {
        Ok(match which {
            1..=3 => Attribute::Reuse(which as usize - 1),
            4 => Attribute::Threshold,
            // What is reserved is what is used.
            5 | 7 => Attribute::Used,
            6 | 8 => Attribute::MostUsed,
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    /// Whether it has 64 bits.
    pub(super) fn is_wide(self) -> bool {
        !matches!(self, Attribute::Reuse(_))
    }
}

impl Pool {
    fn new(device: usize, most_bytes: u64) -> Self {
        Pool { device, most_bytes, most_used: 0, reuse: [1; 3], threshold: 0 }
    }

    pub(super) fn get(&self, attribute: Attribute, used: u64) -> u64 {
        match attribute {
            Attribute::Reuse(which) => self.reuse[which],
            Attribute::Threshold => self.threshold,
            Attribute::Used => used,
            Attribute::MostUsed => self.most_used.max(used),
        }
    }

    pub(super) fn set(&mut self, attribute: Attribute, value: u64) -> Answer {
        match attribute {
            Attribute::Reuse(which) => self.reuse[which] = value,
            Attribute::Threshold => self.threshold = value,
            // A record can only be begun anew.
            Attribute::MostUsed if value == 0 => self.most_used = 0,
            Attribute::MostUsed | Attribute::Used => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }
}

impl Memory {
    pub(super) fn used_of_pool(&self, pool: Handle) -> u64 {
        let blocks = self.blocks.values().filter(|block| block.kind == Kind::Pooled(pool));
        blocks.map(|block| block.bytes as u64).sum()
    }
}

/// All pools, and which of them devices use.
#[derive(Debug)]
pub(super) struct Pools {
    pools: Handles<Pool>,
    /// The pool that a device has from the beginning, by its number.
    default: BTreeMap<usize, Handle>,
    /// The pool that streams of a device allocate from, where that is another one.
    chosen: BTreeMap<usize, Handle>,
}

impl Default for Pools {
    fn default() -> Self {
        Pools { pools: Handles::of_values(10), default: BTreeMap::new(), chosen: BTreeMap::new() }
    }
}

impl Pools {
    pub(super) fn get(&self, pool: Handle) -> Answer<&Pool> {
        self.pools.get(pool)
    }

    pub(super) fn get_mut(&mut self, pool: Handle) -> Answer<&mut Pool> {
        self.pools.get_mut(pool)
    }

    pub(super) fn create(&mut self, device: usize, most_bytes: u64) -> Handle {
        self.pools.insert(Pool::new(device, most_bytes))
    }

    /// The pool that a device has from the beginning.
    pub(super) fn default_of(&mut self, device: usize) -> Handle {
        *self.default.entry(device).or_insert_with(|| self.pools.insert(Pool::new(device, 0)))
    }

    /// The pool that streams of a device allocate from.
    pub(super) fn chosen_for(&mut self, device: usize) -> Handle {
        self.chosen.get(&device).copied().unwrap_or_else(|| self.default_of(device))
    }

    pub(super) fn choose(&mut self, device: usize, pool: Handle) -> Answer {
        if self.get(pool)?.device != device {
            return Err(Code::INVALID_VALUE);
        }
        self.chosen.insert(device, pool);
        Ok(())
    }

    /// Removes a pool. What was allocated from it remains until it is freed.
    pub(super) fn destroy(&mut self, pool: Handle) -> Answer {
        let device = self.get(pool)?.device;
        if self.default_of(device) == pool {
            return Err(Code::INVALID_VALUE);
        }
        self.chosen.retain(|_, chosen| *chosen != pool);
        self.pools.remove(pool).map(drop)
    }
}
