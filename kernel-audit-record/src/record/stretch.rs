//! What a record says of the stretches of time that were looked at.

use super::texts::SharedText;

/// A stretch of time that was looked at: from ready on, or between two marks of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stretch {
    /// The name that the program gave it, or `ready`.
    pub name: SharedText,
    /// When it began, in nanoseconds since the start.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "at_ms", serialize_with = "super::model::json::milliseconds")
    )]
    pub begun: u64,
    /// How long it was, in nanoseconds.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "took_ms", serialize_with = "super::model::json::milliseconds")
    )]
    pub took: u64,
    /// How often the audit looked.
    pub looks: u64,
    /// The nanoseconds of looks of which something found no room.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "lost_ms", serialize_with = "super::model::json::milliseconds")
    )]
    pub lost: u64,
    /// What the time was spent on, the longest first.
    pub spent: Vec<Spent>,
}

/// What some of a stretch was spent on. Several threads can do different things at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Spent {
    /// What was done.
    pub what: Spending,
    /// The nanoseconds in which at least one thread did this.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "took_ms", serialize_with = "super::model::json::milliseconds")
    )]
    pub took: u64,
    /// In how many looks it was seen.
    pub looks: u64,
    /// The function of the driver; or the library and the function in it; or the file and the function in Python.
    pub function: SharedText,
    /// In Python the file, the line and the function of the user, where most of the time was spent; or nothing.
    pub user: SharedText,
    /// The stack on which most of the time was spent, a line for each frame.
    pub stack: SharedText,
}

/// What time is spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(into = "&'static str"))]
#[repr(u32)]
pub enum Spending {
    /// Code outside of all the others.
    #[default]
    Code = 0,
    /// The driver loads a kernel or an image.
    Loading = 1,
    /// The driver or NVRTC compiles.
    Compiling = 2,
    /// The loader opens a library, or the library initializes itself.
    Opening = 3,
    /// The driver allocates or frees memory.
    Allocating = 4,
    /// The driver waits for the GPU.
    Waiting = 5,
    /// Other calls of the driver.
    Call = 6,
    /// No thread of the process ran: all waited, for instance for a file, for another process, or for time to pass.
    Idle = 7,
}

impl Spending {
    const WORDS: [(Spending, &str); 8] = [
        (Spending::Code, "code"),
        (Spending::Loading, "loading"),
        (Spending::Compiling, "compiling"),
        (Spending::Opening, "opening libraries"),
        (Spending::Allocating, "allocating"),
        (Spending::Waiting, "waiting for the GPU"),
        (Spending::Call, "other driver calls"),
        (Spending::Idle, "no thread ran"),
    ];

    /// Returns the words for this, such as `waiting for the GPU`.
    pub const fn as_str(self) -> &'static str {
        Spending::WORDS[self as usize].1
    }

    pub(super) fn from_number(number: u32) -> Spending {
        Spending::WORDS.get(number as usize).map_or(Spending::Code, |(what, _)| *what)
    }
}

impl From<Spending> for &'static str {
    fn from(what: Spending) -> Self {
        what.as_str()
    }
}
