//! Priorities of probabilistic concurrency testing (PCT).
//!
//! After Burckhardt, Kothari, Musuvathi and Nagarakatte: *A Randomized Scheduler with Probabilistic Guarantees of Finding
//! Bugs*, ASPLOS 2010.

use std::collections::HashMap;

use crate::party::Party;
use crate::plan::Chance;

/// Who goes first, by chance.
#[derive(Debug)]
pub(crate) struct Priorities {
    seed: u64,
    /// The choices before which a priority changes, in the order of the priorities that they assign, from 1 on.
    changes: Vec<u64>,
    /// Priorities other than the initial ones.
    changed: HashMap<Party, i64>,
    /// Number of choices so far.
    choices: u64,
    /// Below all priorities that were assigned so far.
    lowest: i64,
    /// Above all of them.
    most: i64,
}

impl Priorities {
    pub(crate) fn new(chance: Chance) -> Self {
        let mut state = chance.seed;
        let mut change = || splitmix64(&mut state) % chance.length.max(1) + 1;
        let changes = (1..chance.depth).map(|_| change()).collect();
        Priorities {
            seed: chance.seed,
            changes,
            changed: HashMap::new(),
            choices: 0,
            lowest: 0,
            most: i64::MAX / 2,
        }
    }

    /// Returns the option with the highest priority, once the changes that are due have been made.
    pub(crate) fn choose(&mut self, options: &[Party]) -> Party {
        self.choices += 1;
        // Several changes can fall on one choice.
        for index in 0..self.changes.len() {
            if self.changes[index] == self.choices {
                let next = self.highest(options);
                self.changed.insert(next, index as i64 + 1);
            }
        }
        self.highest(options)
    }

    /// Gives a party the lowest priority of all.
    pub(crate) fn lower(&mut self, party: Party) {
        self.changed.insert(party, self.lowest);
        self.lowest -= 1;
    }

    /// Gives a party the highest priority of all.
    pub(crate) fn raise(&mut self, party: Party) {
        self.changed.insert(party, self.most);
        self.most += 1;
    }

    fn highest(&self, options: &[Party]) -> Party {
        let highest = options.iter().max_by_key(|party| self.priority(**party));
        *highest.expect("someone can take a step")
    }

    fn priority(&self, party: Party) -> i64 {
        self.changed.get(&party).copied().unwrap_or_else(|| initial(self.seed, party))
    }
}

/// Returns a random priority above those that changes assign.
fn initial(seed: u64, party: Party) -> i64 {
    let fields = match party {
        Party::Host(host) => [0, host, 0, 0, 0],
        Party::Stream(stream) => [1, stream, 0, 0, 0],
        Party::Room(stream) => [2, stream, 0, 0, 0],
        Party::Block { grid, block } => [3, grid, block, 0, 0],
        Party::Threads { grid, block, warp, lane } => [4, grid, block, warp, lane],
    };
    let mut state = !seed;
    let hash = fields.iter().fold(0, |hash: u64, field| {
        state = state.wrapping_add(hash) ^ u64::from(*field);
        splitmix64(&mut state)
    });
    // Bit 32 is above every depth.
    (hash >> 1) as i64 | 1 << 32
}

/// Returns the next number of Steele, Lea and Flood's generator.
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
