//! Breaks text into lines that fit a terminal.

/// The most characters of a line where the standard error output is no terminal.
const WIDTH: usize = 100;

/// Returns a text for the standard error output. If that is a terminal, the text is broken into lines that fit.
pub fn wrapped_for_terminal(text: &str) -> String {
    terminal().map_or_else(|| text.to_owned(), |width| wrapped(text, width))
}

/// Breaks the text of one line, which begins in a column, into lines that all begin there. Spaces at the beginning, as before a
/// command that people copy, keep the line whole.
pub fn hanging(text: &str, column: usize) -> String {
    let width = terminal().unwrap_or(WIDTH).saturating_sub(column).max(20);
    if text.starts_with(' ') {
        return text.to_owned();
    }
    let mut to = String::new();
    fill(&mut to, text, column, column, column + width);
    to
}

/// Returns the width of the standard error output, if that is a terminal.
fn terminal() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` has room for the answer; the call fails if the output is no terminal.
    let is_terminal = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &mut size) } == 0;
    (is_terminal && size.ws_col > 0).then_some(size.ws_col.into())
}

/// Breaks lines at spaces so that each has at most `width` characters, where words allow that. The rest of a broken
/// line is indented by two more spaces than the line. A line that is indented by four spaces or more, such as a frame
/// of a stack, stays whole.
fn wrapped(text: &str, width: usize) -> String {
    let mut to = String::new();
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            to.push('\n');
        }
        wrap_line(&mut to, line, width);
    }
    to
}

fn wrap_line(to: &mut String, line: &str, width: usize) {
    let indent = line.len() - line.trim_start_matches(' ').len();
    if indent >= 4 {
        return to.push_str(line);
    }
    to.push_str(&line[..indent]);
    fill(to, &line[indent..], indent, indent + 2, width);
}

/// Adds words that begin in a column. Words that reach beyond `width` characters begin a line with `indent` spaces.
fn fill(to: &mut String, words: &str, mut column: usize, indent: usize, width: usize) {
    for (index, word) in words.split(' ').enumerate() {
        let length = word.chars().count();
        if index == 0 {
            column += length;
        } else if column + 1 + length <= width {
            to.push(' ');
            column += 1 + length;
        } else {
            to.push('\n');
            (0..indent).for_each(|_| to.push(' '));
            column = indent + length;
        }
        to.push_str(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_lines_are_indented() {
        assert_eq!(wrapped("a call waits\n  for that", 8), "a call\n  waits\n  for\n    that");
    }

    #[test]
    fn texts_in_a_column_stay_there() {
        let text = "a kernel is loaded only when nothing runs on the device, and what runs there may wait for this program";
        let lines = hanging(text, 10);
        assert_eq!(lines.split_whitespace().collect::<Vec<_>>(), text.split(' ').collect::<Vec<_>>());
        assert!(
            lines.lines().skip(1).all(|line| line.starts_with("          ") && line.len() <= WIDTH),
            "{lines}"
        );
        let command = format!("  kernel-audit {}", "word ".repeat(40));
        assert_eq!(hanging(&command, 10), command);
    }

    #[test]
    fn nothing_is_lost() {
        for width in 0..40 {
            let text = "`cuStreamSynchronize` has not\n  returned  for 0.3 s: naïve\n\nend\n    at main";
            let words = |text: &str| -> Vec<String> { text.split_whitespace().map(String::from).collect() };
            let lines = wrapped(text, width);
            assert_eq!(words(&lines), words(text));
            let longest = lines.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(width < 27 || longest <= width, "{width}: {lines}");
        }
    }
}
