//! What a check returns, and what it asks of the whole program.

use std::error::Error;
use std::sync::OnceLock;

/// A check's message, or its error.
pub(crate) type Checked = Result<String, Box<dyn Error>>;

pub(crate) static SIMULATED: OnceLock<bool> = OnceLock::new();

/// Whether the device is simulated. Unlike `tests::is_simulated` this also knows a driver that `cargo kernels sim` has chosen.
pub(crate) fn is_simulated() -> bool {
    *SIMULATED.get().expect("it is set before the checks")
}
