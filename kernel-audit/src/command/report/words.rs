//! Writes names, times and numbers in reports.

use std::fmt;

use kernel_registry_image::readable;
use serde::Serializer;

pub(crate) use crate::record::Time;
use crate::record::{Event, Kind};
use crate::wrapped::wrapped_for_terminal;

/// Returns what an event is about: a kernel, a limit, or an image with its size.
pub(crate) fn subject(event: &Event) -> String {
    match event.bytes {
        _ if matches!(event.kind, Kind::Compile | Kind::Kept) => {
            format!("{} ({})", readable(&event.subject), event.image)
        }
        0 => readable(&event.subject),
        bytes => format!("{} of {bytes} bytes", event.subject),
    }
}

/// Splits the text of a hang into the sentences that explain the hang, and the stack of its thread.
pub(crate) fn explanation_and_stack(hang: &Event) -> (Vec<&str>, Vec<&str>) {
    hang.text.lines().partition(|line| !line.starts_with(' '))
}

/// Returns a separator and the resident kernel that a call would have waited for. Returns an empty text if there is
/// no such kernel.
pub(crate) fn while_resident(event: &Event, separator: &str) -> String {
    match &*event.resident {
        "" => String::new(),
        kernel => format!("{separator}while `{}` was resident", readable(kernel)),
    }
}

/// Returns a kernel, or a library and the function in it, with names as in C++.
pub(crate) fn caller(recorded: &str) -> String {
    match recorded.split_once(' ') {
        None if recorded.is_empty() => "(no room for the name)".to_owned(),
        Some((library, function)) => format!("{library} {}", readable(function)),
        None => readable(recorded),
    }
}

/// Returns the beginning of a text, in one line. The text can be long: a command can have a whole program as an
/// argument, and a kernel's name can have a thousand characters.
pub(crate) fn short(text: &str) -> String {
    const LONG: usize = 100;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Control characters are replaced, because a terminal obeys them.
    let line = line.replace(char::is_control, "\u{fffd}");
    match line.char_indices().nth(LONG) {
        Some((end, _)) => format!("{}..", &line[..end]),
        None => line,
    }
}

/// Returns `1 process`, `2 processes`.
pub(crate) fn processes(count: usize) -> String {
    format!("{count} process{}", if count == 1 { "" } else { "es" })
}

/// Serializes nanoseconds as milliseconds, as the JSON has them.
pub(crate) fn milliseconds<S: Serializer>(nanoseconds: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(*nanoseconds as f64 / 1e6)
}

/// The reasons why there may be no record at all.
pub(crate) const NOTHING_SEEN: &str = "no call to the driver was seen, because the program made none, opened the driver by its whole path, ran as another user or with another `LD_LIBRARY_PATH`, or is static or setuid";

/// Writes a text in lines that fit the terminal.
pub(crate) fn paragraph(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    writeln!(f, "{}", wrapped_for_terminal(text))
}
