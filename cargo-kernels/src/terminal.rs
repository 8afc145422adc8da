//! All that the command prints. Nothing of a binary, an image or a record gets to a terminal that it would obey.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

use kernel_registry_format::Printable;

/// Passes text on, [printable](Printable).
pub(crate) struct Terminal<W>(W);

impl<W: Write> Write for Terminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.iter().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
            self.0.write_all(bytes)?;
        } else {
            // Text comes in whole characters. Other bytes could be controls for a terminal with 8 bits.
            write!(self.0, "{}", Printable(&String::from_utf8_lossy(bytes)))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The standard output.
pub(crate) fn output() -> Terminal<BufWriter<StdoutLock<'static>>> {
    Terminal(BufWriter::new(io::stdout().lock()))
}

/// The characters in a line, if the standard error output is a terminal.
pub(crate) fn width() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: there is room for the answer; the call fails for what is no terminal.
    let is_terminal = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &mut size) } == 0;
    (is_terminal && size.ws_col > 0).then_some(size.ws_col.into())
}

/// Writes a line to the standard error output. Where that is not possible, the exit code still tells.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(Terminal(io::stderr()), "{}", line.to_string().trim_end());
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
    fn json_means_the_same() {
        let name = "k\u{1b}\u{7f}\u{9b}\u{202e}\n\"\\";
        let mut out = Terminal(Vec::new());
        serde_json::to_writer(&mut out, name).unwrap();
        assert!(out.0.is_ascii());
        assert_eq!(serde_json::from_slice::<String>(&out.0).unwrap(), name);
    }
}
