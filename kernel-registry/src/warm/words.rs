//! Writes numbers with their units: `2 kernels`, `4096 B`.

use std::fmt;

/// A number and the noun that is counted, written as `1 kernel` or `2 kernels`.
pub(super) struct Count(pub(super) usize, pub(super) &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

/// The operating system's reason why no thread was started, as a sentence that says what to do.
pub(super) struct NoThread<'a>(pub(super) &'a str);

impl fmt::Display for NoThread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.0;
        write!(
            f,
            "no thread could be started for driver calls: {reason}; let the program start more threads (`ulimit -u`)"
        )
    }
}

/// A number of bytes, written in B, KiB or MiB.
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes @ 0..10_240 => f.pad(&format!("{bytes} B")),
            bytes @ 0..10_485_760 => f.pad(&format!("{} KiB", bytes >> 10)),
            bytes => f.pad(&format!("{} MiB", bytes >> 20)),
        }
    }
}
