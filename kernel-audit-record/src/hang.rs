//! The lines on a hang that people read first: where the program hangs, what it called, what runs beside the call, why they wait, and
//! what ends it. A process writes them into its record, and the command completes them from all that is in the record.

use std::fmt;

use crate::wrapped;

/// The lines, in the order in which people read them. Names of kernels stand between backticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The file, line and function of the user, or a library and its function.
    pub place: String,
    pub called: String,
    /// What runs meanwhile: one text for each stream.
    pub beside: Vec<String>,
    pub why: String,
    /// What ends the hang, in the order in which people try it. Text after a line break stands in a line of its own.
    pub cures: Vec<String>,
}

/// The most streams that are read. A process writes fewer.
const MOST: usize = 16;

/// Stands between texts in one line of a record.
const SEPARATOR: &str = "; ";

impl Lines {
    /// Returns the labels with their texts.
    fn labelled(&self) -> [(&'static str, Vec<&str>); 5] {
        fn many(texts: &[String]) -> Vec<&str> {
            texts.iter().map(String::as_str).collect()
        }
        [
            ("where", vec![&self.place]),
            ("calls", vec![&self.called]),
            ("beside", many(&self.beside)),
            ("why", vec![&self.why]),
            ("cure", many(&self.cures)),
        ]
    }

    /// Returns the lines as a record has them: `why: ..`.
    pub fn stored(&self) -> String {
        // A file of a Python function can have any name.
        let line = |text: String| text.replace(char::is_control, "\u{fffd}");
        let lines = self.labelled().map(|(label, texts)| line(format!("{label}: {}", texts.join(SEPARATOR))));
        lines.join("\n")
    }

    /// Reads the lines from the text of a recorded hang, and returns them with the rest of the text: details, and then the stack.
    pub fn parse(text: &str) -> (Lines, Vec<&str>) {
        let mut rest: Vec<_> = text.lines().collect();
        let mut take = |label: &str| {
            let found = rest.first().and_then(|line| line.strip_prefix(label)?.strip_prefix(": "));
            if found.is_some() {
                rest.remove(0);
            }
            found.unwrap_or_default().to_owned()
        };
        let (place, called, beside) = (take("where"), take("calls"), take("beside"));
        let (why, cure) = (take("why"), take("cure"));
        let split = |text: String| -> Vec<_> {
            text.split(SEPARATOR).filter(|text| !text.is_empty()).take(MOST).map(str::to_owned).collect()
        };
        (Lines { place, called, beside: split(beside), why, cures: vec![cure] }, rest)
    }

    /// Returns each label with its texts, without those that are empty.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, Vec<&str>)> {
        let filled = self.labelled().map(|(label, texts)| {
            (label, texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>())
        });
        filled.into_iter().filter(|(_, texts)| !texts.is_empty())
    }
}

/// Writes the lines for a terminal: a label, and the texts in a column of their own.
impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const COLUMN: usize = 10;
        for (label, texts) in self.labelled() {
            let mut before = label;
            for text in texts.into_iter().filter(|text| !text.is_empty()) {
                for line in text.split('\n') {
                    writeln!(f, "  {before:<8}{}", wrapped::hanging(line, COLUMN))?;
                    before = "";
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Lines {
        Lines {
            place: "tp.py:21 rank_main".into(),
            called: "`cuLaunchKernel` for `late`".into(),
            beside: vec!["`spin` in stream 0x20".into(), "`all_reduce` in stream 0x40".into()],
            why: "a kernel is loaded only when nothing runs on the device".into(),
            cures: vec!["use it once before".into()],
        }
    }

    #[test]
    fn what_a_record_has_is_read_again() {
        let text = format!("{}\nIn thread 7.\n    at python3", lines().stored());
        assert_eq!(Lines::parse(&text), (lines(), vec!["In thread 7.", "    at python3"]));
    }

    #[test]
    fn a_text_of_another_version_is_all_details() {
        let (lines, rest) = Lines::parse("`cuMemFree` has not returned\nRemedy: free it later");
        assert_eq!((lines.entries().count(), rest.len()), (0, 2));
    }

    #[test]
    fn people_read_a_column() {
        let written =
            Lines { cures: vec!["record it:\n  kernel-audit --record".into(), "or wait".into()], ..lines() }
                .to_string();
        assert_eq!(
            written,
            "  where   tp.py:21 rank_main
  calls   `cuLaunchKernel` for `late`
  beside  `spin` in stream 0x20
          `all_reduce` in stream 0x40
  why     a kernel is loaded only when nothing runs on the device
  cure    record it:
            kernel-audit --record
          or wait
"
        );
    }
}
