//! Defines the result of a check, and whether the device is simulated.

use std::error::Error;
use std::sync::OnceLock;

/// A check's message, or its error.
pub(crate) type Checked = Result<String, Box<dyn Error>>;

pub(crate) static SIMULATED: OnceLock<bool> = OnceLock::new();

/// Returns whether the device is simulated, even by `cargo kernels sim`, which `tests::is_simulated` doesn't
/// notice.
pub(crate) fn is_simulated() -> bool {
    *SIMULATED.get().expect("it is set before the checks")
}
