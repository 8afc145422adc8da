//! Reads, writes and compares recordings, which are files with a census's results. The schema is in
//! docs/census.md.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The version of the schema.
const SCHEMA: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recording {
    pub(crate) schema: u32,
    #[serde(flatten)]
    pub(crate) machine: Machine,
    /// The year, month and day, in UTC.
    pub(crate) date: String,
    /// Whether kernel-registry warmed every kernel before each row.
    pub(crate) warmed: bool,
    /// Whether a section of the audit was around the resident work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) guarded: bool,
    pub(crate) rows: Vec<Tried>,
}

/// The machine that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) gpu: String,
    pub(crate) arch: String,
    /// The version of the driver, if the operating system reports it.
    pub(crate) driver: Option<String>,
    /// The newest version of CUDA that the driver supports.
    pub(crate) cuda: String,
}

/// The result of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tried {
    pub(crate) row: String,
    pub(crate) mode: Mode,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// The preparation before each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Nothing is prepared.
    Cold,
    /// kernel-registry warms every kernel.
    Warmed,
    /// The audit is installed, and a section begins.
    Guarded,
}

impl fmt::Display for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Manner::Cold => "without warming",
            Manner::Warmed => "after warming",
            Manner::Guarded => "in a section",
        })
    }
}

/// The driver's loading mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    Lazy,
    Eager,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    #[serde(rename = "result")]
    pub(crate) verdict: Verdict,
    /// The driver's error and the call that returned it. A call that blocked may end with an error, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The time that the calls took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host_ms: Option<f64>,
    /// The time from the first call until the kernel ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) done_ms: Option<f64>,
    /// The driver's functions that the row called while the resident work ran, without the suffixes of their
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// The operation waited until the resident kernel had ended.
    Blocks,
    /// The operation ended while the resident kernel was running.
    Runs,
    /// The operation could not be tried, or failed.
    Error,
    /// The audit refused the operation.
    Refused,
    /// The audit deferred the operation until the resident kernel had ended.
    Deferred,
    /// The simulated driver lacks a function that the operation calls.
    Lacking,
}

impl Outcome {
    pub(crate) const ERROR: Outcome = Outcome::only(Verdict::Error);

    const fn only(verdict: Verdict) -> Self {
        Outcome { verdict, error: None, host_ms: None, done_ms: None, calls: Vec::new() }
    }

    /// Returns the result without its times.
    fn result(&self) -> (Verdict, Option<&str>) {
        (self.verdict, self.error.as_deref())
    }
}

impl Recording {
    pub(crate) fn new(machine: Machine, date: String, manner: Manner) -> Self {
        let (warmed, guarded) = (manner == Manner::Warmed, manner == Manner::Guarded);
        Recording { schema: SCHEMA, machine, date, warmed, guarded, rows: Vec::new() }
    }

    pub(crate) fn manner(&self) -> Manner {
        match self {
            Recording { guarded: true, .. } => Manner::Guarded,
            Recording { warmed: true, .. } => Manner::Warmed,
            _ => Manner::Cold,
        }
    }

    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Header {
            schema: u32,
        }
        let not_one = |error| format!("not a recording of the census: {error}");
        // Read first, because newer recordings may have other fields.
        let Header { schema } = serde_json::from_str(text).map_err(not_one)?;
        if schema != SCHEMA {
            return Err(format!(
                "a recording of schema {schema}, where this program knows {SCHEMA}; record it again"
            ));
        }
        serde_json::from_str(text).map_err(not_one)
    }

    /// Writes one line per row, so that a diff of two files shows rows.
    pub(crate) fn write(&self, file: &Path) -> Result<(), String> {
        let header = Recording { rows: Vec::new(), ..self.clone() };
        let json = |value: serde_json::Result<String>| value.map_err(|error| error.to_string());
        let rows = self.rows.iter().map(|row| json(serde_json::to_string(row)));
        let rows = rows.collect::<Result<Vec<_>, _>>()?.join(",\n  ");
        let header = json(serde_json::to_string(&header))?;
        let text = header.replacen("\"rows\":[]", &format!("\n\"rows\":[\n  {rows}\n]"), 1) + "\n";
        fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn find(&self, row: &str, mode: Mode) -> Option<&Tried> {
        self.rows.iter().find(|tried| tried.row == row && tried.mode == mode)
    }

    /// Describes how a result differs from this recording.
    pub(crate) fn difference(&self, tried: &Tried) -> Option<String> {
        let Tried { row, mode, outcome } = tried;
        match self.find(row, *mode) {
            None => Some(format!("{mode} {row}: {outcome} here, and is not in the recording")),
            Some(_) if outcome.verdict == Verdict::Lacking => None,
            Some(Tried { outcome: other, .. }) if other.result() != outcome.result() => {
                Some(format!("{mode} {row}: {outcome} here, but {other} in the recording"))
            }
            Some(_) => None,
        }
    }

    /// Returns the differences from another recording, one sentence each. Ignores times, and rows that
    /// weren't tried here; but the other recording must have exactly the rows in `known`.
    pub(crate) fn differences(&self, expected: &Recording, known: &[&str]) -> Vec<String> {
        let mut differences = Vec::new();
        let (here, there) = (self.manner(), expected.manner());
        if here != there {
            return vec![format!("this was tried {here}, and the recording {there}")];
        }
        differences.extend(self.rows.iter().filter_map(|tried| expected.difference(tried)));
        for Tried { row, mode, outcome } in &expected.rows {
            if !known.contains(&&**row) {
                differences.push(format!("{mode} {row}: {outcome} in the recording, and is unknown here"));
            }
        }
        differences
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Lazy => "lazy",
            Mode::Eager => "eager",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.verdict, &self.error) {
            (Verdict::Blocks, None) => f.pad("blocks"),
            (Verdict::Blocks, Some(error)) => write!(f, "blocks, then {error}"),
            (Verdict::Runs, _) => f.pad("runs"),
            (Verdict::Refused, _) => f.pad("refused"),
            (Verdict::Deferred, _) => f.pad("deferred"),
            (Verdict::Lacking, _) => f.pad("is not simulated"),
            (Verdict::Error, Some(error)) => f.pad(error),
            (Verdict::Error, None) => f.pad("fails"),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { gpu, arch, driver, cuda } = self;
        write!(f, "{gpu} ({arch}), ")?;
        if let Some(driver) = driver {
            write!(f, "driver {driver}, ")?;
        }
        write!(f, "CUDA {cuda}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Subject;
    use crate::rows;

    const RUNS: Outcome = Outcome::only(Verdict::Runs);
    const BLOCKS: Outcome = Outcome::only(Verdict::Blocks);

    fn recording(rows: &[(&str, Mode, Outcome)]) -> Recording {
        let machine = Machine {
            gpu: "Imagined".into(),
            arch: "sm_90".into(),
            driver: Some("580.159.03".into()),
            cuda: "13.0".into(),
        };
        let tried = |(row, mode, outcome): &(&str, Mode, Outcome)| Tried {
            row: (*row).into(),
            mode: *mode,
            outcome: outcome.clone(),
        };
        let rows = rows.iter().map(tried).collect();
        Recording { rows, ..Recording::new(machine, "2026-11-21".into(), Manner::Cold) }
    }

    #[test]
    fn a_written_recording_is_read_unchanged() {
        let error = Outcome { error: Some("CUDA_ERROR_INVALID_VALUE of cuX".into()), ..Outcome::ERROR };
        let timed = Outcome { host_ms: Some(1000.5), done_ms: Some(1000.75), ..BLOCKS };
        let recording =
            recording(&[("a/b", Mode::Lazy, RUNS), ("a/c", Mode::Lazy, timed), ("a/b", Mode::Eager, error)]);
        let folder = ::tests::scratch_folder();
        let file = folder.join("recording.json");
        recording.write(&file).unwrap();
        assert_eq!(Recording::read(&file).unwrap(), recording);
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 2 + 3 + 1, "{text}");

        let empty = self::recording(&[]);
        empty.write(&file).unwrap();
        assert_eq!(Recording::read(&file).unwrap(), empty);
    }

    /// Committed recordings must have exactly the current rows, and after warming, only the expected rows may
    /// block.
    #[test]
    fn committed_recordings_have_the_current_rows() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("census");
        for (file, warmed) in [("h200-580.json", false), ("h200-580-warmed.json", true)] {
            let recording = Recording::read(&folder.join(file)).unwrap();
            assert_eq!(recording.warmed, warmed);
            let rows = rows::list_rows();
            let rows = rows.iter().filter(|row| !warmed || row.subject != Subject::HostCall);
            let mut count = 0;
            for (row, mode) in rows.flat_map(|row| [(row, Mode::Lazy), (row, Mode::Eager)]) {
                let tried = recording.find(&row.name, mode);
                let verdict =
                    tried.unwrap_or_else(|| panic!("{file}: no {mode} {}", row.name)).outcome.verdict;
                assert_eq!(verdict == Verdict::Error, row.refused, "{file}: {mode} {}", row.name);
                assert!(
                    !warmed || (verdict == Verdict::Blocks) == row.remains.is_some(),
                    "{mode} {}",
                    row.name
                );
                count += 1;
            }
            assert_eq!(count, recording.rows.len(), "{file}");
        }
    }

    #[test]
    fn a_file_that_is_no_recording_is_an_error() {
        for (text, words) in [
            ("", "not a recording"),
            ("{}", "not a recording"),
            ("[1, 2]", "not a recording"),
            (r#"{"schema":2}"#, "a recording of schema 2"),
            (r#"{"schema":1}"#, "not a recording"),
        ] {
            let error = Recording::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        let error = Recording::read(Path::new("no/such/file.json")).unwrap_err();
        assert!(error.starts_with("no/such/file.json: "), "{error}");
    }

    #[test]
    fn times_are_not_compared() {
        let slow = Outcome { host_ms: Some(1.0), done_ms: Some(2.0), ..RUNS };
        let (here, there) =
            (recording(&[("a/b", Mode::Lazy, RUNS)]), recording(&[("a/b", Mode::Lazy, slow)]));
        assert!(here.differences(&there, &["a/b"]).is_empty());
    }

    #[test]
    fn differences_are_sentences() {
        let refused = Outcome { error: Some("CUDA_ERROR_X of cuY".into()), ..Outcome::ERROR };
        let here = recording(&[
            ("a/same", Mode::Lazy, RUNS),
            ("a/other", Mode::Lazy, RUNS),
            ("a/failed", Mode::Eager, refused.clone()),
            ("a/late", Mode::Eager, Outcome { error: Some("CUDA_ERROR_X of cuY".into()), ..BLOCKS }),
            ("a/new", Mode::Lazy, BLOCKS),
        ]);
        let there = recording(&[
            ("a/same", Mode::Lazy, RUNS),
            ("a/same", Mode::Eager, BLOCKS),
            ("a/other", Mode::Lazy, BLOCKS),
            ("a/failed", Mode::Eager, RUNS),
            ("a/late", Mode::Eager, BLOCKS),
            ("a/gone", Mode::Lazy, RUNS),
        ]);
        let known = ["a/same", "a/other", "a/failed", "a/late", "a/new"];
        assert_eq!(
            here.differences(&there, &known),
            [
                "lazy a/other: runs here, but blocks in the recording",
                "eager a/failed: CUDA_ERROR_X of cuY here, but runs in the recording",
                "eager a/late: blocks, then CUDA_ERROR_X of cuY here, but blocks in the recording",
                "lazy a/new: blocks here, and is not in the recording",
                "lazy a/gone: runs in the recording, and is unknown here",
            ]
        );
    }

    #[test]
    fn a_warmed_recording_differs_from_a_cold_one() {
        let cold = recording(&[("a/b", Mode::Lazy, RUNS)]);
        let warmed = Recording { warmed: true, ..cold.clone() };
        assert_eq!(
            cold.differences(&warmed, &["a/b"]),
            ["this was tried without warming, and the recording after warming"]
        );
    }
}
