//! What a record says.

use super::texts::SharedText;

/// What a record says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report {
    /// The process that wrote it.
    pub process: u32,
    /// The process's rank among those that work together, as `torchrun`, MPI or Slurm name it.
    pub rank: Option<u32>,
    /// The program's name and arguments.
    pub command: String,
    /// When it began to be watched, in nanoseconds since 1970.
    #[cfg_attr(feature = "serde", serde(rename = "started_unix_ms", serialize_with = "json::milliseconds"))]
    pub started: u64,
    /// Whether the process ended by itself, and was not killed.
    pub ended: bool,
    /// When the program was said to be ready, in nanoseconds since the start.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "ready_ms", serialize_with = "json::optional_milliseconds")
    )]
    pub ready: Option<u64>,
    /// Launches.
    pub launches: u64,
    /// Watched calls, with launches.
    pub calls: u64,
    /// Whether kernel-registry is in the process: then `warm_all` is a remedy.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub uses_kernel_registry: bool,
    /// What happened, in the order in which it ended.
    pub events: Vec<Event>,
    /// What was [preloaded](crate::preload): kernels, images and limits. If a `result` is not 0, its `text` says why that was not.
    pub preloaded: Vec<Event>,
    /// Events that found no room.
    #[cfg_attr(feature = "serde", serde(rename = "events_dropped"))]
    pub dropped: u64,
    /// Findings among these.
    #[cfg_attr(feature = "serde", serde(rename = "findings_dropped"))]
    pub dropped_findings: u64,
    /// Messages that could not be written to the standard error output, and not be sent to the command.
    #[cfg_attr(feature = "serde", serde(rename = "messages_dropped"))]
    pub unsaid: u64,
    /// Whether a thread of the audit could not be started: hangs are not explained, and a file or a time that says ready is not seen.
    pub lacks_thread: bool,
    /// Launches by stream, in the order of time.
    pub activity: Vec<Activity>,
    /// Samples of activity that found no room.
    pub activity_dropped: u64,
    /// Texts of events and samples that are empty here, because the record refers to more than this library writes.
    pub texts_dropped: u64,
    /// Threads that found no slot: their launches are not counted, and their hangs not explained.
    pub unwatched_threads: u64,
    /// Launches in streams that found no room for samples.
    pub unsampled_launches: u64,
    /// The calls that were in progress when the record was read, or the process was killed, as numbers in the table of
    /// hooks, with the thread.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub in_progress: Vec<(u32, u32)>,
}

/// Launches in a stream between two samples. Samples are 50 ms apart, and later one second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Activity {
    /// The end of the time in which they were counted, in nanoseconds since the start.
    #[cfg_attr(feature = "serde", serde(rename = "at_ms", serialize_with = "json::milliseconds"))]
    pub at: u64,
    /// The handle of the stream, or 0.
    pub stream: u64,
    /// How many launches.
    pub launches: u32,
    /// The kernel that was launched last.
    pub kernel: SharedText,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Event {
    /// What it was.
    pub kind: Kind,
    /// Whether it came after the program was ready, or would have waited for a resident kernel.
    #[cfg_attr(feature = "serde", serde(rename = "finding"))]
    pub is_finding: bool,
    /// Whether the call returned. The call of a hang may have returned after all.
    #[cfg_attr(feature = "serde", serde(rename = "returned"))]
    pub has_returned: bool,
    /// When it began, in nanoseconds since the start.
    #[cfg_attr(feature = "serde", serde(rename = "at_ms", serialize_with = "json::milliseconds"))]
    pub begun: u64,
    /// How long it took, in nanoseconds.
    #[cfg_attr(feature = "serde", serde(rename = "took_ms", serialize_with = "json::milliseconds"))]
    pub took: u64,
    /// The thread, as the system numbers it.
    pub thread: u32,
    /// The handle of the stream, or 0.
    pub stream: u64,
    /// The handle of the context, or 0.
    pub context: u64,
    /// The size of an image in bytes, or 0.
    pub bytes: u64,
    /// The driver's answer: 0 is success.
    pub result: u32,
    /// The driver's function.
    pub call: SharedText,
    /// The kernel, the kind of an image, or the limit.
    pub subject: SharedText,
    /// The image of the kernel, and which library loaded it.
    pub image: SharedText,
    /// Where the image is from, as a [preload](crate::preload) says it, if it is part of a file of the process.
    pub origin: SharedText,
    /// The resident kernel on the device, if the call would have waited for it; of a slow call or a hang, a kernel that ran
    /// meanwhile; or nothing.
    pub resident: SharedText,
    /// The name of the [rule](crate::rules) by which the call waits, if one was found.
    pub rule: SharedText,
    /// What prevents a hang, if that is known. A [`Cause`](crate::Cause) has the remedies of other findings.
    pub remedy: SharedText,
    /// The library that made the call.
    pub library: SharedText,
    /// The library, and the function in it; in Python the file, the line and the function of the user.
    pub caller: SharedText,
    /// The stack, or the explanation of a hang.
    pub text: SharedText,
}

impl Event {
    /// Whether it is a call that has not returned, or had not when the process ended.
    pub fn is_endless(&self) -> bool {
        self.kind == Kind::Hang && !self.has_returned
    }

    /// Whether `resident` names a kernel: one that the call would have waited for, or that ran during a slow call or a hang.
    pub fn waits_for_resident(&self) -> bool {
        !self.resident.is_empty()
    }
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(into = "&'static str"))]
#[repr(u16)]
pub enum Kind {
    /// A kernel was loaded by its first launch, or by a call that waits in the same way.
    #[default]
    Load = 1,
    /// An image was loaded, and perhaps compiled.
    Image = 2,
    /// The stack limit, the printf buffer or the heap was resized.
    Resize = 3,
    /// Another call that took long.
    Slow = 4,
    /// A call that did not return for long. Its `text` explains it.
    Hang = 5,
    /// A call that was refused, after the program was ready or while a kernel was resident.
    Refused = 6,
    /// A function of a version that is not watched was asked for.
    Unwatched = 7,
    /// A call that would have waited for a resident kernel, and was deferred until that had ended.
    Deferred = 8,
    /// A call that waits for a resident kernel, and was made all the same.
    Waits = 9,
    /// A kernel, an image or a limit of a [preload](crate::preload). If `result` is not 0, `text` says why it was not preloaded.
    Preload = 10,
}

impl Kind {
    /// All kinds, in the order of their numbers, and their words.
    const WORDS: [(Kind, &str); 10] = [
        (Kind::Load, "load"),
        (Kind::Image, "image"),
        (Kind::Resize, "resize"),
        (Kind::Slow, "slow"),
        (Kind::Hang, "hang"),
        (Kind::Refused, "refused"),
        (Kind::Unwatched, "unwatched"),
        (Kind::Deferred, "deferred"),
        (Kind::Waits, "waits"),
        (Kind::Preload, "preload"),
    ];

    pub(super) fn from_number(number: u16) -> Option<Kind> {
        Kind::WORDS.into_iter().map(|(kind, _)| kind).find(|kind| *kind as u16 == number)
    }

    /// `load`
    pub const fn as_str(self) -> &'static str {
        Kind::WORDS[self as usize - 1].1
    }
}

impl From<Kind> for &'static str {
    fn from(kind: Kind) -> Self {
        kind.as_str()
    }
}

/// The `subject` of an image of PTX, which the driver compiles.
pub const PTX: &str = "PTX";

/// How numbers are written as JSON.
#[cfg(feature = "serde")]
mod json {
    use serde::Serializer;

    pub(super) fn milliseconds<S: Serializer>(nanoseconds: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(*nanoseconds as f64 / 1e6)
    }

    pub(super) fn optional_milliseconds<S: Serializer>(time: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(nanoseconds) => milliseconds(nanoseconds, to),
            None => to.serialize_none(),
        }
    }
}
