//! The result of a check: a level, a message and a remedy.

use serde::Serialize;

/// One line of the doctor's answer.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Line {
    pub(super) level: Level,
    /// The subject, in one or two words that never change.
    pub(super) about: &'static str,
    #[serde(rename = "message")]
    pub(super) text: String,
    pub(super) remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// Everything is as it should be.
    Ok,
    /// Something works, but is slower, or not as by default.
    Note,
    /// Something does not work.
    Problem,
}

impl Level {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Problem => "problem",
        }
    }
}

impl Line {
    pub(super) fn ok(about: &'static str, text: impl Into<String>) -> Self {
        Line { level: Level::Ok, about, text: text.into(), remedy: None }
    }

    pub(super) fn note(about: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Line { level: Level::Note, about, text: text.into(), remedy: Some(remedy.into()) }
    }

    pub(super) fn problem(about: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Line { level: Level::Problem, about, text: text.into(), remedy: Some(remedy.into()) }
    }
}

pub(super) fn count(lines: &[Line], level: Level) -> usize {
    lines.iter().filter(|line| line.level == level).count()
}
