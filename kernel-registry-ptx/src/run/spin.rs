//! Detects warps that spin: their registers repeat, except those that depend on a clock, and they write no memory. A
//! loop that only waits for a clock does not count as spinning.

/// A detector that compares hashes of a warp's registers at backward jumps. If a hash repeats without a write to memory
/// in between, only others' writes to memory or a clock can end the loop.
#[derive(Default)]
pub(crate) struct Spin {
    /// The number of instructions that the warp has run.
    pub now: u64,
    /// The value of `now` when the warp last had an effect: see [`restart`](Self::restart).
    changed: u64,
    /// The hash of the registers at an earlier backward jump, and the value of `now` at that jump.
    seen: Option<(u64, u64)>,
    /// The number of jumps that were compared with that hash. When it reaches `limit`, a new hash is taken.
    compared: u32,
    limit: u32,
    /// Comparing pauses until `now` reaches this value.
    next: u64,
    /// The value of `now` when the hash last repeated, and the number of instructions since its previous occurrence.
    circle: Option<(u64, u64)>,
}

/// Comparing begins after this many instructions without an effect.
const QUIET: u64 = 256;
/// Comparing pauses for this many instructions if no hash repeats, so that long computations stay fast.
const PAUSE: u64 = 8192;
/// Loops with more backward jumps than this are not detected.
const CIRCLE: u32 = 64;

impl Spin {
    /// Starts over after an effect: a change of memory, of the active threads, or the end of a wait.
    #[inline]
    pub(crate) fn restart(&mut self) {
        self.changed = self.now;
        self.seen = None;
        self.circle = None;
    }

    /// Returns whether to compare hashes at the next backward jump.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.now >= self.next && self.now - self.changed >= QUIET
    }

    /// Compares the hash of the registers at a backward jump.
    pub(crate) fn look(&mut self, hash: u64) {
        match self.seen {
            Some((seen, at)) if seen == hash => {
                self.circle = Some((self.now, self.now - at));
                self.seen = Some((hash, self.now));
                (self.compared, self.limit) = (0, 2);
            }
            Some(_) if self.compared < self.limit => self.compared += 1,
            _ => {
                // The hash may be from before the loop, or the loop may have more jumps. Takes a new hash.
                self.seen = Some((hash, self.now));
                self.compared = 0;
                self.limit = (self.limit * 2).max(2);
                if self.limit > CIRCLE {
                    self.limit = 2;
                    self.next = self.now + PAUSE;
                    self.seen = None;
                }
            }
        }
    }

    /// Returns whether the warp spins: its registers have repeated recently.
    pub(crate) fn found(&self) -> bool {
        self.circle.is_some_and(|(at, length)| self.now - at <= 2 * length + 64)
    }
}
