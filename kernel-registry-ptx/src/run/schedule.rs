//! Chooses in which order blocks and warps run, and for how long: each in turn, or by chance.

/// How many instructions a warp runs in a turn.
const TURN: u64 = 1024;

/// An order of blocks and warps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    /// The state of the generator of an order by chance. 0 for the usual order.
    state: u64,
    /// The block that starts first.
    first: u64,
}

impl Schedule {
    /// Returns the order with this number, of a grid with so many clusters.
    pub(crate) fn by_chance(seed: u64, clusters: u64) -> Self {
        let mut schedule = Schedule { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, first: 0 };
        schedule.first = schedule.below(clusters);
        schedule
    }

    /// Returns the cluster that starts after so many others.
    pub(crate) fn cluster(&self, started: u64, clusters: u64) -> u64 {
        (self.first + started) % clusters
    }

    /// Returns which of several runs next, given whose turn it would be.
    pub(crate) fn choose(&mut self, turn: usize, count: usize) -> usize {
        if self.state == 0 { turn } else { self.below(count as u64) as usize }
    }

    /// Returns how many instructions a warp runs at most. By chance it's often one, because mistakes are between two.
    pub(crate) fn turn(&mut self) -> u64 {
        if self.state == 0 {
            return TURN;
        }
        1 << self.below(8)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 16) % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_by_chance_starts_each_cluster_once() {
        for seed in 0..20 {
            let schedule = Schedule::by_chance(seed, 7);
            let mut all: Vec<_> = (0..7).map(|started| schedule.cluster(started, 7)).collect();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4, 5, 6]);
        }
        let mut usual = Schedule::default();
        assert_eq!((usual.cluster(3, 7), usual.choose(2, 5), usual.turn()), (3, 2, TURN));
    }
}
