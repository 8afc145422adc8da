//! Writes a page of HTML in one file, without anything from the network.
//!
//! All content is in the HTML, so that a page can be read without scripts. `page.js` only makes tables sortable.

mod table;

use std::fmt;

pub(crate) use table::{Cell, Table};

/// A page. Its title is text; the other parts are HTML or CSS.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    /// CSS rules of this page, besides the rules of `page.css`. The colours of `page.css` are available as
    /// variables.
    pub(crate) style: &'a str,
    /// The facts that a reader should know first.
    pub(crate) summary: &'a str,
    pub(crate) body: &'a str,
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Page { title, style, summary, body } = *self;
        let (title, css, script) = (Text(title), include_str!("page/page.css"), include_str!("page/page.js"));
        write!(
            f,
            "<!doctype html>\n\
             <html lang=\"en\">\n\
             <head>\n\
             <meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n\
             <style>\n{css}{style}</style>\n\
             </head>\n\
             <body>\n\
             <main>\n\
             <h1>{title}</h1>\n\
             <section class=\"summary\">\n{summary}\n</section>\n\
             {body}\n\
             </main>\n\
             <script>\n{script}</script>\n\
             </body>\n\
             </html>\n"
        )
    }
}

/// Text to be escaped for HTML, in an element or in an attribute with quotes.
pub(crate) struct Text<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        write!(Escaped(f), "{}", self.0)
    }
}

/// A writer that escapes the characters that mean something in HTML, and those that a terminal obeys: pages are also
/// read by `cat`, and HTML allows no control characters.
struct Escaped<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_obeyed = |c: char| c.is_control() && !"\n\t".contains(c);
        for piece in text.split_inclusive(|c| "&<>\"'".contains(c) || is_obeyed(c)) {
            let (plain, escaped) = match piece.char_indices().next_back() {
                Some((at, '&')) => (&piece[..at], "&amp;"),
                Some((at, '<')) => (&piece[..at], "&lt;"),
                Some((at, '>')) => (&piece[..at], "&gt;"),
                Some((at, '"')) => (&piece[..at], "&quot;"),
                Some((at, '\'')) => (&piece[..at], "&#39;"),
                Some((at, last)) if is_obeyed(last) => (&piece[..at], "\u{fffd}"),
                _ => (piece, ""),
            };
            self.0.write_str(plain)?;
            self.0.write_str(escaped)?;
        }
        Ok(())
    }
}

/// Formats text as HTML, with code between backticks. `show` can rewrite the code.
pub(crate) fn with_code(text: &str, show: impl Fn(&str) -> String) -> String {
    let part = |(index, part)| match index % 2 {
        0 => Text(part).to_string(),
        _ => format!("<code>{}</code>", Text(show(part))),
    };
    text.split('`').enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_escaped() {
        let text = Text("</title><script>alert(\"1\")</script> & 'x'\0\u{1b}[2J\u{9b}\r\n\t").to_string();
        assert_eq!(
            text,
            "&lt;/title&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;\u{fffd}\u{fffd}[2J\u{fffd}\u{fffd}\n\t"
        );
        assert_eq!(Text(1.5).to_string(), "1.5");
    }

    #[test]
    fn pages_ask_the_network_for_nothing() {
        let page = Page { title: "a < b", style: "", summary: "<p>short</p>", body: "" }.to_string();
        assert!(page.contains("<title>a &lt; b</title>") && page.contains("<h1>a &lt; b</h1>"));
        for address in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(address), "{address}");
        }
    }
}
