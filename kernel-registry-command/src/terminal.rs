//! Prints the output of commands. Control characters are escaped, because the output contains text from
//! binaries, images and records.

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use kernel_registry_format::Printable;

use crate::failure::Failure;

/// Splits a command into program and arguments. A program that starts with a dash is a mistyped option.
pub fn program(command: &[OsString]) -> Result<Option<(&OsString, &[OsString])>, Failure> {
    match command.split_first() {
        Some((option, _)) if option.as_encoded_bytes().starts_with(b"-") => {
            Err(Failure::NoOption { option: option.clone() })
        }
        split => Ok(split),
    }
}

/// A writer that escapes everything that isn't [printable](Printable).
pub struct Terminal<W>(W);

impl<W: Write> Write for Terminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.iter().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
            self.0.write_all(bytes)?;
        } else {
            // Replaces bytes that aren't UTF-8, since 8-bit terminals interpret them. Characters arrive whole.
            write!(self.0, "{}", Printable(&String::from_utf8_lossy(bytes)))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns a writer to stdout.
pub fn output() -> Terminal<BufWriter<StdoutLock<'static>>> {
    Terminal(BufWriter::new(io::stdout().lock()))
}

/// Calls `write` with a writer to stdout.
pub fn print(
    write: impl FnOnce(&mut Terminal<BufWriter<StdoutLock<'static>>>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = output();
    match write(&mut out).and_then(|()| out.flush()) {
        // A pipe's reader may stop early, like `head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure::Output { source: error }),
    }
}

/// Writes a line to stderr. On a terminal, the first word of errors and warnings is colored. Errors are
/// ignored, because the exit code still reports a failure.
pub fn say(line: impl Display) {
    let line = line.to_string();
    let (style, word, rest) = styled(line.trim_end());
    let mut out = io::stderr();
    if !style.is_empty() && has_colors() {
        let _ = write!(out, "{style}{word}{PLAIN}");
        let _ = writeln!(Terminal(out), "{rest}");
    } else {
        let _ = writeln!(Terminal(out), "{word}{rest}");
    }
}

/// The styles of cargo and clap: bold red, bold yellow, and reset.
const ERROR: &str = "\x1b[1m\x1b[31m";
const WARNING: &str = "\x1b[1m\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// Returns the style of a line's first word, that word, and the rest.
fn styled(line: &str) -> (&'static str, &str, &str) {
    for (word, style) in [("error:", ERROR), ("warning:", WARNING)] {
        if let Some(rest) = line.strip_prefix(word) {
            return (style, &line[..word.len()], rest);
        }
    }
    ("", "", line)
}

/// Returns whether stderr shows colors. The variable `NO_COLOR` turns them off.
fn has_colors() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    io::stderr().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_printable_characters_get_through() {
        let mut out = Terminal(Vec::new());
        let (kernel, file) = ("k\u{1b}[2J", "\u{202e}x");
        writeln!(out, "`{kernel}` in {file}").unwrap();
        out.write_all(b"\x9b31m").unwrap();
        assert_eq!(String::from_utf8(out.0).unwrap(), "`k\\u001b[2J` in \\u202ex\n\u{fffd}31m");
    }

    #[test]
    fn the_first_word_of_an_error_has_a_style() {
        assert_eq!(styled("error: no file"), (ERROR, "error:", " no file"));
        assert_eq!(styled("warning: old"), (WARNING, "warning:", " old"));
        assert_eq!(styled("an error: x"), ("", "", "an error: x"));
    }

    #[test]
    fn json_keeps_its_meaning() {
        let name = "k\u{1b}\u{7f}\u{9b}\u{202e}\n\"\\";
        let mut out = Terminal(Vec::new());
        serde_json::to_writer(&mut out, name).unwrap();
        assert!(out.0.is_ascii());
        assert_eq!(serde_json::from_slice::<String>(&out.0).unwrap(), name);
    }
}
