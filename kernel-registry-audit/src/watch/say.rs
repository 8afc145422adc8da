//! What the audit says to people, on the standard error output.

use std::io::{self, Write};

/// Says a text. Where it cannot be written, to a closed pipe or a full disk, the program goes on all the same.
pub(crate) fn say(text: &str) {
    // In one piece: processes share the output.
    let _ = io::stderr().write_all(format!("kernel-registry-audit: {text}\n").as_bytes());
}
