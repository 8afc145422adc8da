//! Detects spinning warps: warps that write no memory while all registers that don't depend on a clock
//! repeat. A loop that only waits for a clock doesn't count.

/// Compares hashes of a warp's registers at backward jumps. If a hash repeats without a write to memory in
/// between, only a clock or someone else's write can end the loop.
#[derive(Default)]
pub(crate) struct Spin {
    /// The number of instructions that the warp has run.
    pub now: u64,
    /// The value of `now` at the last effect, see [`restart`](Self::restart).
    changed: u64,
    /// The hash at an earlier backward jump, and the value of `now` at that jump.
    seen: Option<(u64, u64)>,
    /// How many jumps were compared with that hash. At `limit`, a new hash is taken.
    compared: u32,
    limit: u32,
    /// Comparing pauses until `now` reaches this value.
    next: u64,
    /// The value of `now` when the hash last repeated, and the number of instructions since its previous
    /// occurrence.
    cycle: Option<(u64, u64)>,
}

/// Comparing begins after this many instructions without an effect.
const QUIET: u64 = 256;
/// Comparing pauses for this many instructions if no hash repeats, so that long computations stay fast.
const PAUSE: u64 = 8192;
/// Longer cycles, counted in backward jumps, aren't detected.
const LONGEST_CYCLE: u32 = 64;

impl Spin {
    /// Starts over after an effect: a change of memory, of the active threads, or the end of a wait.
    #[inline]
    pub(crate) fn restart(&mut self) {
        self.changed = self.now;
        self.seen = None;
        self.cycle = None;
    }

    /// Returns whether the last instruction had an effect.
    pub(crate) fn had_effect(&self) -> bool {
        self.changed == self.now
    }

    /// Returns whether to compare hashes at the next backward jump.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.now >= self.next && self.now - self.changed >= QUIET
    }

    /// Compares the hash of the registers at a backward jump.
    pub(crate) fn compare(&mut self, hash: u64) {
        match self.seen {
            Some((seen, at)) if seen == hash => {
                self.cycle = Some((self.now, self.now - at));
                self.seen = Some((hash, self.now));
                (self.compared, self.limit) = (0, 2);
            }
            Some(_) if self.compared < self.limit => self.compared += 1,
            _ => {
                // The hash may predate the loop, or the cycle may have more jumps than `limit`.
                self.seen = Some((hash, self.now));
                self.compared = 0;
                self.limit = (self.limit * 2).max(2);
                if self.limit > LONGEST_CYCLE {
                    self.limit = 2;
                    self.next = self.now + PAUSE;
                    self.seen = None;
                }
            }
        }
    }

    /// Returns whether the registers have repeated recently.
    pub(crate) fn is_spinning(&self) -> bool {
        self.cycle.is_some_and(|(at, length)| self.now - at <= 2 * length + 64)
    }
}
