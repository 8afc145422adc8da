//! Writes JSON. `document` has the model of kernels, and the file `json.rs` of each command builds its own document. The pages in
//! docs/ describe these documents: change the pages first.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

pub(crate) fn write(document: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

/// Joins two objects to one with the members of both.
pub(crate) fn joined(mut first: Value, second: Value) -> Value {
    if let (Value::Object(members), Value::Object(more)) = (&mut first, second) {
        members.extend(more);
    }
    first
}
