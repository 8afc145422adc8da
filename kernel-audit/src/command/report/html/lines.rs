//! Writes texts with code in them, and the lines on a hang.

use std::fmt::{self, Write as _};

use kernel_registry_image::readable;

use crate::command::report::page::{self, Text};
use crate::hang::Lines;

/// Writes the lines on a hang that people read first.
pub(super) fn write_lines(page: &mut String, lines: &Lines) -> fmt::Result {
    writeln!(page, "<dl class=\"explained\">")?;
    for (label, texts) in lines.entries() {
        writeln!(page, "<dt>{label}</dt>")?;
        for text in texts {
            let (text, commands) = text.split_once('\n').unwrap_or((text, ""));
            write!(page, "<dd>{}", code(text))?;
            if !commands.is_empty() {
                let commands: Vec<_> = commands.lines().map(str::trim).collect();
                write!(page, "<pre>{}</pre>", Text(commands.join("\n")))?;
            }
            writeln!(page, "</dd>")?;
        }
    }
    writeln!(page, "</dl>")
}

/// Formats text as HTML, with code between backticks, and in the code kernels' names as in C++.
pub(super) fn code(text: &str) -> String {
    page::with_code(text, readable)
}
