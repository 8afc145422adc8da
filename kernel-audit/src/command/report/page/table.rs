//! Writes tables of pages. A table scrolls in a box of its own, and a click on a heading sorts it.

use std::fmt;

use super::Text;

/// A table. A column whose cells are numbers is aligned to the right.
pub(crate) struct Table<'a> {
    /// The name of the table, for screen readers.
    pub(crate) label: &'a str,
    pub(crate) headings: &'a [&'a str],
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A cell: its HTML, and the number by which the cell is sorted, if it is not sorted as text.
pub(crate) struct Cell {
    html: String,
    value: Option<f64>,
}

impl Cell {
    pub(crate) fn text(text: impl fmt::Display) -> Cell {
        Cell { html: Text(text).to_string(), value: None }
    }

    /// Returns a cell with text in a font for code: a name in a program.
    pub(crate) fn code(text: impl fmt::Display) -> Cell {
        Cell { html: format!("<code>{}</code>", Text(text)), value: None }
    }

    /// Returns a cell with code of which only the beginning is shown, until a reader unfolds it.
    pub(crate) fn folded(beginning: impl fmt::Display, whole: impl fmt::Display) -> Cell {
        let (beginning, whole) = (Text(beginning), Text(whole));
        let html =
            format!("<details><summary><code>{beginning}</code></summary><pre>{whole}</pre></details>");
        Cell { html, value: None }
    }

    /// Returns a cell with a number, in the form that people read.
    pub(crate) fn number(value: f64, text: impl fmt::Display) -> Cell {
        Cell { html: Text(text).to_string(), value: Some(value) }
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = Text(self.label);
        write!(
            f,
            "<div class=\"wide tall\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">\n<table class=\"sortable\">\n<thead><tr>"
        )?;
        let is_number = |column: usize| {
            self.rows.first().and_then(|row| row.get(column)).is_some_and(|cell| cell.value.is_some())
        };
        for (column, heading) in self.headings.iter().enumerate() {
            let class = if is_number(column) { " class=\"number\"" } else { "" };
            write!(f, "<th scope=\"col\"{class}>{}</th>", Text(heading))?;
        }
        f.write_str("</tr></thead>\n<tbody>\n")?;
        for row in &self.rows {
            f.write_str("<tr>")?;
            for Cell { html, value } in row {
                match value {
                    Some(value) => write!(f, "<td class=\"number\" data-value=\"{value}\">{html}</td>")?,
                    None => write!(f, "<td>{html}</td>")?,
                }
            }
            f.write_str("</tr>\n")?;
        }
        f.write_str("</tbody>\n</table>\n</div>\n")
    }
}
