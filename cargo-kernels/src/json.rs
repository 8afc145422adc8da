//! Writes documents of JSON. Those of each command are in its file `json.rs`, and docs/ has their schemas: change these first.

use std::io::{self, Write};

use serde_json::Value;

pub(crate) fn write(document: &Value, out: &mut impl Write) -> io::Result<()> {
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
