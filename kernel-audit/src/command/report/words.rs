//! Writes names, times and numbers in reports.

use std::fmt;

use kernel_registry_image::readable;
use serde::Serializer;

use crate::command::report::streams;
use crate::preload::Origin;
pub(crate) use crate::record::Time;
use crate::record::{Event, Image, Subject};
use crate::wrapped::wrapped_for_terminal;

/// A time that was only seen by looking every 50 ms.
#[derive(Clone, Copy)]
pub(crate) struct About(pub(crate) u64);

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 / 1_000_000 {
            milliseconds @ 0..1000 => write!(f, "about {} ms", milliseconds.next_multiple_of(10)),
            milliseconds => write!(f, "about {:.1} s", milliseconds as f64 / 1e3),
        }
    }
}

/// Returns what an event is about: a kernel, a limit, or an image with its size.
pub(crate) fn subject(event: &Event) -> String {
    match &event.subject {
        Subject::Kernel { symbol, .. } => readable(symbol),
        Subject::Program(program) => format!("{} ({program})", readable(&program.name)),
        Subject::Stream => streams::name(event.stream),
        other => other.to_string(),
    }
}

/// Returns a description of the image that an event's kernel is of.
pub(crate) fn image_of_kernel(event: &Event) -> Option<String> {
    match &event.subject {
        Subject::Kernel { image, .. } => image.as_ref().map(described_image),
        _ => None,
    }
}

/// Returns what an image is, and which library loaded it or which file it is in.
pub(crate) fn described_image(image: &Image) -> String {
    if !image.library.is_empty() {
        return format!("{image}, loaded by {} after {} ms", image.library, image.loaded_at / 1_000_000);
    }
    match image.origin.parse() {
        Ok(Origin { path, .. }) => format!("{image} in {path}"),
        Err(_) => image.to_string(),
    }
}

/// Returns a kernel's name as short as people read it: without the type of its result; if it is long, without the types of parameters, and
/// without template arguments.
pub(crate) fn brief(symbol: &str) -> String {
    const LONG: usize = 60;
    let name = readable(symbol);
    if name == symbol {
        return name;
    }
    let name = name.strip_prefix("void ").unwrap_or(&name);
    let is_long = |name: &str| name.chars().count() > LONG;
    let mut short = name.to_owned();
    for brackets in [('(', ')'), ('<', '>')] {
        if is_long(&short) {
            short = without_contents(&short, brackets);
        }
    }
    short
}

/// Replaces the contents of the outermost brackets by two points. Keeps the name of the anonymous namespace, which is in brackets, too.
fn without_contents(name: &str, (open, close): (char, char)) -> String {
    const ANONYMOUS: &str = "(anonymous namespace)";
    let (mut to, mut depth, mut rest) = (String::new(), 0_u32, name);
    while let Some(next) = rest.chars().next() {
        let length =
            if depth == 0 && rest.starts_with(ANONYMOUS) { ANONYMOUS.len() } else { next.len_utf8() };
        let (text, after) = rest.split_at(length);
        rest = after;
        if text.starts_with(close) && length == 1 {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            to.push_str(text);
        }
        if text.starts_with(open) && length == 1 {
            if depth == 0 {
                to.push_str("..");
            }
            depth += 1;
        }
    }
    to
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Format;

    #[test]
    fn an_image_is_described_with_its_place() {
        let origin = "module 0000000000000001 7 0x0 /a".into();
        let mut image = Image { format: Format::Fatbin, bytes: 7, origin, ..Image::default() };
        assert_eq!(described_image(&image), "fatbin of 7 bytes in /a");
        (image.library, image.loaded_at) = ("libdemo.so".into(), 3_000_000);
        assert_eq!(described_image(&image), "fatbin of 7 bytes, loaded by libdemo.so after 3 ms");
    }

    #[test]
    fn long_names_are_cut_to_what_people_read() {
        assert_eq!(brief("late"), "late");
        assert_eq!(brief("_Z4latei"), "late(int)");
        let long = "at::(anonymous namespace)::fill<4, at::Functor<float>, std::array<char*, 1>>(int, at::Functor<float>)";
        let cut = without_contents(long, ('(', ')'));
        assert_eq!(cut, "at::(anonymous namespace)::fill<4, at::Functor<float>, std::array<char*, 1>>(..)");
        assert_eq!(without_contents(&cut, ('<', '>')), "at::(anonymous namespace)::fill<..>(..)");
        for odd in ["a>b(", ")(", "operator<(int)", "f(("] {
            without_contents(odd, ('(', ')'));
            without_contents(odd, ('<', '>'));
        }
    }
}
