//! Finds out that a warp goes in circles.

/// Counts the instructions of a warp, and compares what its registers hold at one jump back with what they held at
/// another. Alike means that nothing but memory or a clock can end the loop, unless it changed memory itself.
#[derive(Default)]
pub(crate) struct Spin {
    /// Instructions run.
    pub now: u64,
    /// When the warp last changed something.
    changed: u64,
    /// The registers at some jump back, as a hash, and when that was.
    seen: Option<(u64, u64)>,
    /// With how many jumps that was compared, and with how many it is to be.
    compared: u32,
    limit: u32,
    /// No comparison before.
    next: u64,
    /// When the same was seen again, and how long that took.
    circle: Option<(u64, u64)>,
}

/// How many instructions without effect make a warp suspicious.
const QUIET: u64 = 256;
/// How many instructions are not looked at after comparisons that found nothing, for the sake of long computations.
const PAUSE: u64 = 8192;
/// How many jumps back a circle may have.
const CIRCLE: u32 = 64;

impl Spin {
    /// Something changed: memory, the set of threads, or what they waited for.
    #[inline]
    pub(crate) fn restart(&mut self) {
        self.changed = self.now;
        self.seen = None;
        self.circle = None;
    }

    /// Whether a jump back is to be looked at.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.now >= self.next && self.now - self.changed >= QUIET
    }

    /// Takes the hash of all registers at a jump back.
    pub(crate) fn look(&mut self, hash: u64) {
        match self.seen {
            Some((seen, at)) if seen == hash => {
                self.circle = Some((self.now, self.now - at));
                self.seen = Some((hash, self.now));
                (self.compared, self.limit) = (0, 2);
            }
            Some(_) if self.compared < self.limit => self.compared += 1,
            _ => {
                // The circle may begin later than what was compared with, or be longer.
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

    /// Whether the warp came by again lately.
    pub(crate) fn found(&self) -> bool {
        self.circle.is_some_and(|(at, length)| self.now - at <= 2 * length + 64)
    }
}
