//! Defines architectures: `sm_90`, `sm_90a`, `compute_100f`.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// The architecture that a variant was compiled for.
///
/// ```
/// use kernel_registry_cuda::Target;
///
/// let target: Target = "sm_90a".parse()?;
/// assert!(target.binary_runs_on((9, 0)));
/// assert!(!target.jit_runs_on((10, 0)));
/// assert_eq!(target.to_string(), "sm_90a");
/// assert_eq!(target, "compute_90a".parse()?);
/// # Ok::<(), kernel_registry_cuda::InvalidTarget>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Ten times the major plus the minor compute capability: 90 for 9.0, 103 for 10.3.
    pub sm: u32,
    /// Which other devices run the code.
    pub portability: Portability,
}

/// How closely a target is tied to its architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Portability {
    /// `sm_90`: later devices run it too.
    Forward,
    /// `sm_100f`: uses features of a family of devices.
    Family,
    /// `sm_90a`: uses features of this architecture only.
    Exact,
}

impl Target {
    /// Returns the compute capability, major and minor.
    pub const fn capability(&self) -> (u32, u32) {
        (self.sm / 10, self.sm % 10)
    }

    /// Returns whether PTX for this target can be compiled for a device of this compute capability.
    ///
    /// PTX runs on the target's capability and on all later ones. With the suffix `f`, the major number must
    /// be the same. With `a`, it only runs on the target's own.
    pub fn jit_runs_on(&self, capability: (u32, u32)) -> bool {
        match self.portability {
            Portability::Forward => capability >= self.capability(),
            Portability::Family | Portability::Exact => self.binary_runs_on(capability),
        }
    }

    /// Returns whether machine code for this target runs on a device of this compute capability.
    ///
    /// Machine code runs on devices with the same major number and an equal or higher minor number. With the
    /// suffix `a`, it only runs on the target's own capability. Integrated devices (Tegra, Jetson) and others
    /// may refuse each other's code, which isn't considered here.
    pub fn binary_runs_on(&self, (major, minor): (u32, u32)) -> bool {
        let own = self.capability();
        match self.portability {
            Portability::Forward | Portability::Family => major == own.0 && minor >= own.1,
            Portability::Exact => (major, minor) == own,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.portability {
            Portability::Forward => "",
            Portability::Family => "f",
            Portability::Exact => "a",
        };
        write!(f, "sm_{}{suffix}", self.sm)
    }
}

/// The error for a text that isn't an architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTarget {
    /// The text.
    pub text: String,
}

impl fmt::Display for InvalidTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not an architecture; write it like sm_90, sm_90a or compute_100f", self.text)
    }
}

impl core::error::Error for InvalidTarget {}

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        let invalid = || InvalidTarget { text: text.chars().take(64).collect() };
        let name = text.strip_prefix("sm_").or_else(|| text.strip_prefix("compute_"));
        let name = name.ok_or_else(invalid)?;
        let (number, portability) = match name.as_bytes().last() {
            Some(b'a') => (&name[..name.len() - 1], Portability::Exact),
            Some(b'f') => (&name[..name.len() - 1], Portability::Family),
            _ => (name, Portability::Forward),
        };
        // `parse` would accept a sign.
        let digits = (2..=4).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
        match number.parse() {
            Ok(sm) if digits && sm >= 10 => Ok(Target { sm, portability }),
            _ => Err(invalid()),
        }
    }
}
