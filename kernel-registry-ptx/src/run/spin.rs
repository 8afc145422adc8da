//! Detects that a warp spins: its registers repeat, and it changes nothing.

/// Compares hashes of a warp's registers at backward jumps. If they repeat without a write to memory, only memory or a clock can end
/// the loop.
#[derive(Default)]
pub(crate) struct Spin {
    /// Instructions run.
    pub now: u64,
    /// When the warp last changed something.
    changed: u64,
    /// The registers at some jump back, as a hash, and when that was.
    seen: Option<(u64, u64)>,
    /// With how many jumps that hash was compared, and with how many it shall be.
    compared: u32,
    limit: u32,
    /// No comparison before.
    next: u64,
    /// When the hash was seen again, and how many instructions that took.
    circle: Option<(u64, u64)>,
}

/// After how many instructions without effect comparing begins.
const QUIET: u64 = 256;
/// How many instructions comparing pauses for after it found nothing, because long computations should not pay for it.
const PAUSE: u64 = 8192;
/// The most backward jumps of a loop that is detected.
const CIRCLE: u32 = 64;

impl Spin {
    /// Begins anew, because memory, the set of threads, or a wait has changed.
    #[inline]
    pub(crate) fn restart(&mut self) {
        self.changed = self.now;
        self.seen = None;
        self.circle = None;
    }

    /// Whether a backward jump is to be compared.
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

    /// Whether a repetition was found lately.
    pub(crate) fn found(&self) -> bool {
        self.circle.is_some_and(|(at, length)| self.now - at <= 2 * length + 64)
    }
}
