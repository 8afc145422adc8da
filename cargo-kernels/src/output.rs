//! Writes text and JSON to the standard output.

pub(crate) mod json;
pub(crate) mod table;

use std::io::{self, BufWriter, StdoutLock};

use kernel_registry_command::terminal::{self, Terminal};

use crate::failure::Failure;

/// Writes to the standard output.
pub(crate) fn print(
    write: impl FnOnce(&mut Terminal<BufWriter<StdoutLock<'static>>>) -> io::Result<()>,
) -> Result<(), Failure> {
    Ok(terminal::print(write)?)
}
