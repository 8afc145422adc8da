//! The GPUs on which a preload was recorded.

use std::fmt;

use kernel_registry_format::is_control;

/// The first word of the line.
const WORD: &str = "device";

/// A GPU on which a preload was recorded. It's for people and for labels of containers: a preload is tried on any GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Device {
    /// The compute capability, such as `9.0`.
    pub compute_capability: String,
    /// The driver's name for it.
    pub name: String,
}

impl Device {
    /// Returns the device of these texts, if they fit into a line.
    #[doc(hidden)]
    pub fn new(compute_capability: &str, name: &str) -> Option<Self> {
        let (major, minor) = compute_capability.split_once('.')?;
        let is_number = |text: &str| text.parse::<u8>().is_ok_and(|number| number.to_string() == text);
        let fits = is_number(major) && is_number(minor) && !name.is_empty() && !name.contains(is_control);
        fits.then(|| Device { compute_capability: compute_capability.to_owned(), name: name.to_owned() })
    }

    /// Parses a line. Returns `None` if it's about something else, and an error if it's damaged.
    pub(super) fn parse(line: &str) -> Option<Result<Self, ()>> {
        let rest = line.strip_prefix(WORD)?.strip_prefix(' ')?;
        Some(rest.split_once(' ').and_then(|(capability, name)| Device::new(capability, name)).ok_or(()))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{WORD} {} {}", self.compute_capability, self.name)
    }
}
