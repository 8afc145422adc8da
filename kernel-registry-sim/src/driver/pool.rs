//! Pools of memory, as far as they can be told apart.

use super::handles::Handle;
use super::memory::{Kind, Memory};
use super::result::{Answer, Code};
use super::state::State;

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
    pub(super) fn new(device: usize, most_bytes: u64) -> Self {
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

impl State {
    /// The pool that a device has from the beginning.
    pub(super) fn default_pool(&mut self, device: usize) -> Handle {
        if let Some(pool) = self.devices[device].default_pool {
            return pool;
        }
        let pool = self.pools.insert(Pool::new(device, 0));
        self.devices[device].default_pool = Some(pool);
        pool
    }

    /// The pool that streams of a device allocate from.
    pub(super) fn pool_of(&mut self, device: usize) -> Handle {
        self.devices[device].pool.unwrap_or_else(|| self.default_pool(device))
    }
}
