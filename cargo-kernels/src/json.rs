//! Writes documents of JSON. That of kernels is in `document`, others are in the file `json.rs` of their command. docs/ describes
//! them: change these pages first.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

pub(crate) fn write(document: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

/// An object with the members of two.
pub(crate) fn joined(mut first: Value, second: Value) -> Value {
    if let (Value::Object(members), Value::Object(more)) = (&mut first, second) {
        members.extend(more);
    }
    first
}
