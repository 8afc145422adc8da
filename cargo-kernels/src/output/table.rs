//! Writes tables of text, in columns.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// Writes rows; each column is as wide as its widest cell.
pub(crate) fn columns(rows: &[impl AsRef<[String]>], indent: &str, out: &mut impl Write) -> io::Result<()> {
    let mut widths = Vec::new();
    for row in rows.iter().map(AsRef::as_ref) {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    for row in rows.iter().map(AsRef::as_ref) {
        let mut line = indent.to_owned();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.width() + 2));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Shortens a name in the cell of a table. Names of C++ templates can have thousands of characters, and often differ at the end
/// only.
pub(crate) fn shortened(name: &str) -> String {
    const START: usize = 50;
    const END: usize = 30;
    let count = name.chars().count();
    if count <= START + END {
        return name.to_owned();
    }
    let start: String = name.chars().take(START - 1).collect();
    let end: String = name.chars().skip(count - END).collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle() {
        let short = "ü".repeat(80);
        assert_eq!(shortened(&short), short);
        let long = shortened(&format!("{}{}", "a".repeat(5000), "z".repeat(30)));
        assert_eq!(long, format!("{}…{}", "a".repeat(49), "z".repeat(30)));
    }
}
