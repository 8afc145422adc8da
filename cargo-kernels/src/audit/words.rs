//! How reports write names, times and numbers.

use std::fmt;

use kernel_registry_audit::record::Event;
pub(super) use kernel_registry_audit::record::Time;
use kernel_registry_image::Signature;
use serde::Serializer;

/// A kernel's name as in C++, and other texts as they are.
pub(super) struct Readable<'a>(pub(super) &'a str);

impl fmt::Display for Readable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Signature::of(self.0) {
            Some(signature) => write!(f, "{signature}"),
            None => f.write_str(self.0),
        }
    }
}

/// What an event is about: a kernel, a limit, or an image with its size.
pub(super) struct Subject<'a>(pub(super) &'a Event);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.bytes {
            0 => write!(f, "{}", Readable(&self.0.subject)),
            bytes => write!(f, "{} of {bytes} bytes", self.0.subject),
        }
    }
}

/// The sentences that explain a hang, and below them the stack of its thread.
pub(super) fn explanation_and_stack(hang: &Event) -> (Vec<&str>, Vec<&str>) {
    hang.text.lines().partition(|line| !line.starts_with(' '))
}

/// The resident kernel that a call would have waited for, behind a separator, or nothing.
pub(super) struct WhileResident<'a>(pub(super) &'a Event, pub(super) &'static str);

impl fmt::Display for WhileResident<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0.resident {
            "" => Ok(()),
            kernel => write!(f, "{}while `{}` was resident", self.1, Readable(kernel)),
        }
    }
}

/// A kernel, or a library and the function in it, with names as in C++.
pub(super) struct Caller<'a>(pub(super) &'a str);

impl fmt::Display for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_once(' ') {
            None if self.0.is_empty() => f.write_str("(no room for the name)"),
            Some((library, function)) => write!(f, "{library} {}", Readable(function)),
            None => write!(f, "{}", Readable(self.0)),
        }
    }
}

/// The beginning of a text, in one line: a command can have a program as an argument, and a kernel a thousand characters.
pub(super) fn short(text: &str) -> String {
    const LONG: usize = 100;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // A terminal obeys some characters.
    let line = line.replace(char::is_control, "\u{fffd}");
    match line.char_indices().nth(LONG) {
        Some((end, _)) => format!("{}..", &line[..end]),
        None => line,
    }
}

/// `1 kernel`, `2 kernels`.
pub(super) fn many(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// `1 process`, `2 processes`.
pub(super) fn processes(count: usize) -> String {
    format!("{count} process{}", if count == 1 { "" } else { "es" })
}

/// Nanoseconds as the JSON has them.
pub(super) fn milliseconds<S: Serializer>(nanoseconds: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(*nanoseconds as f64 / 1e6)
}

/// Why there may be no record at all.
pub(super) const NOTHING_SEEN: &str = "no call to the driver was seen, because the program made none, opened the driver by its whole path, or is static or setuid";
