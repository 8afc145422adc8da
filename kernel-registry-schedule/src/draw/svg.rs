//! Elements of an SVG.

use std::borrow::Cow;
use std::fmt::Write;

/// Height of a line of text.
pub(super) const LINE: usize = 16;

/// Width of a character in tenths, for the widest of the fonts.
const CHARACTER: usize = 73;

/// An SVG under construction.
#[derive(Default)]
pub(super) struct Svg {
    body: String,
}

impl Svg {
    pub(super) fn rectangle(&mut self, class: &str, (x, y): (usize, usize), (width, height): (usize, usize)) {
        self.element(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>"#
        ));
    }

    pub(super) fn line(&mut self, class: &str, from: (usize, usize), to: (usize, usize)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.element(format_args!(r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#));
    }

    /// Adds a line of text whose top left corner is given.
    pub(super) fn text(&mut self, class: &str, (x, y): (usize, usize), text: &str) {
        let (baseline, text) = (y + LINE - 4, escape(text));
        self.element(format_args!(r#"<text class="{class}" x="{x}" y="{baseline}">{text}</text>"#));
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.body, "{element}").expect("strings can be written to");
    }

    pub(super) fn finish(self, title: &str, (width, height): (usize, usize)) -> String {
        let (title, body) = (escape(title), self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n{body}</svg>\n"
        )
    }
}

/// Colors for light and dark pages.
const STYLE: &str = "
svg { --paper: #fff; --ink: #1f2328; --faint: #6e7781; --rule: #d0d7de; --box: #eaf2fb; --edge: #7aa2cf; --accent: #c2410c; \
 --accent-box: #fff1e7; }
@media (prefers-color-scheme: dark) { svg { --paper: #0d1117; --ink: #e6edf3; --faint: #8b949e; --rule: #30363d; \
--box: #15243a; --edge: #3f6ea5; --accent: #ff9d5c; --accent-box: #3a2013; } }
text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: var(--ink); white-space: pre; }
.title { font-weight: bold; }
.faint { fill: var(--faint); }
.accent { fill: var(--accent); }
.paper { fill: var(--paper); }
.lane { stroke: var(--rule); stroke-dasharray: 2 4; }
.flow { stroke: var(--edge); stroke-width: 1.5; }
.run { fill: var(--box); stroke: var(--edge); }
.departure { fill: var(--accent-box); stroke: var(--accent); stroke-width: 1.5; }
.turn { stroke: var(--accent); stroke-width: 1.5; }
";

/// Escapes text, and replaces characters that XML can't have.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' => escaped.push(' '),
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            char => escaped.push(char),
        }
    }
    escaped
}

/// Breaks text into lines that fit into a width, between words where possible.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let most = (width * 10 / CHARACTER).max(1);
    text.lines().flat_map(|line| wrap_line(line, most)).collect()
}

fn wrap_line(line: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let mut word = Cow::Borrowed(word);
        loop {
            let last = lines.last_mut().expect("there's always a line");
            let (used, length) = (last.chars().count(), word.chars().count());
            let space = usize::from(used > 0);
            if used + space + length <= most {
                last.extend(std::iter::repeat_n(' ', space));
                last.push_str(&word);
                break;
            }
            if used == 0 {
                let rest = word.chars().skip(most).collect();
                last.extend(word.chars().take(most));
                word = Cow::Owned(rest);
            }
            lines.push(String::new());
        }
    }
    lines
}

/// Breaks text into at most so many lines; the last one ends in an ellipsis if that isn't all.
pub(super) fn wrap_some(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines = wrap(text, width);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            if last.chars().count() >= (width * 10 / CHARACTER).max(1) {
                last.pop();
            }
            last.push('…');
        }
    }
    lines
}
