//! Detects warps that spin: their registers other than clocks repeat, and they write no memory. A loop that only waits for a clock
//! does not spin.

/// Compares hashes of a warp's registers at backward jumps. If they repeat without a write to memory, only memory or a clock can end
/// the loop.
#[derive(Default)]
pub(crate) struct Spin {
    /// Instructions run.
    pub now: u64,
    /// The value of `now` when the warp last changed something.
    changed: u64,
    /// The hash of the registers at an earlier backward jump, and the value of `now` then.
    seen: Option<(u64, u64)>,
    /// The number of jumps that were compared with that hash. At `limit`, a new hash is taken.
    compared: u32,
    limit: u32,
    /// Comparing pauses until `now` reaches this.
    next: u64,
    /// The value of `now` when the hash last repeated, and the number of instructions since it was seen before.
    circle: Option<(u64, u64)>,
}

/// Comparing begins after this many instructions without an effect.
const QUIET: u64 = 256;
/// Comparing pauses for this many instructions if it finds nothing, so that long computations stay fast.
const PAUSE: u64 = 8192;
/// Loops with more backward jumps than this are not detected.
const CIRCLE: u32 = 64;

impl Spin {
    /// Starts over after a change: of memory, of the active threads, or of a wait.
    #[inline]
    pub(crate) fn restart(&mut self) {
        self.changed = self.now;
        self.seen = None;
        self.circle = None;
    }

    /// Whether to compare at the next backward jump.
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
                // The loop may begin later, or be longer.
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

    /// Whether the warp spins: its registers repeated recently.
    pub(crate) fn found(&self) -> bool {
        self.circle.is_some_and(|(at, length)| self.now - at <= 2 * length + 64)
    }
}
