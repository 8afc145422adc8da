//! Types for what a record contains: a report, and its events.

use super::explanation::Explanation;
use super::stretch::Stretch;
use super::subject::Subject;
use super::texts::SharedText;

/// The contents of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report {
    /// The process that wrote the record.
    pub process: u32,
    /// The process's rank among the processes of its job, as `torchrun`, MPI or Slurm name it.
    pub rank: Option<u32>,
    /// The program's name and arguments.
    pub command: String,
    /// The name and the arguments of the program that started this process as a worker of Python's multiprocessing, or
    /// nothing.
    pub worker_of: String,
    /// The devices on which the process made a context, in the order in which it first did.
    pub devices: Vec<Device>,
    /// When the audit began to watch the process, in nanoseconds since 1970.
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
    /// The number of launches.
    pub launches: u64,
    /// The number of watched calls, including launches.
    pub calls: u64,
    /// Whether kernel-registry is in the process. If so, `warm_all` is a remedy.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub uses_kernel_registry: bool,
    /// The events, in the order in which they ended.
    pub events: Vec<Event>,
    /// The events of [preloading](crate::preload) kernels, images and limits. If an event's `result` is not 0, its
    /// `reason` says why the preload failed.
    pub preloaded: Vec<Event>,
    /// The stretches of time that were looked at, and what they were spent on.
    pub stretches: Vec<Stretch>,
    /// The number of events that found no room.
    #[cfg_attr(feature = "serde", serde(rename = "events_dropped"))]
    pub dropped: u64,
    /// The number of findings among the dropped events.
    #[cfg_attr(feature = "serde", serde(rename = "findings_dropped"))]
    pub dropped_findings: u64,
    /// The number of slow calls that were only counted, because listing them takes too much of the program's time.
    #[cfg_attr(feature = "serde", serde(rename = "slow_unlisted"))]
    pub unlisted: u64,
    /// The number of messages that could neither be written to the standard error output nor sent to the command.
    #[cfg_attr(feature = "serde", serde(rename = "messages_dropped"))]
    pub unsaid: u64,
    /// Whether a thread of the audit could not be started. If so, hangs are not explained, and a file or a time that
    /// makes the program ready has no effect.
    pub lacks_thread: bool,
    /// The launches by stream, in the order of time.
    pub activity: Vec<Activity>,
    /// The number of samples of activity that found no room.
    pub activity_dropped: u64,
    /// The number of texts of events and samples that are empty here, because the record refers to more text than this
    /// library writes.
    pub texts_dropped: u64,
    /// The number of threads that found no slot: their launches are not counted, and their hangs not explained.
    pub unwatched_threads: u64,
    /// The number of launches in streams that found no room for samples.
    pub unsampled_launches: u64,
    /// The calls in progress when the record was read, or when the process ended.
    pub in_progress: Vec<CallInProgress>,
    /// The Python frames of the main thread while the process makes no calls, a line for each: the innermost, and the user's.
    #[cfg_attr(feature = "serde", serde(skip))]
    #[doc(hidden)]
    pub main_thread: SharedText,
}

impl Report {
    /// Returns the command line by which people know the process: of a worker that of its program.
    pub fn known_command(&self) -> &str {
        if self.worker_of.is_empty() { &self.command } else { &self.worker_of }
    }
}

/// A device on which a process made a context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Device {
    /// The number by which the process knows the device, which `CUDA_VISIBLE_DEVICES` changes.
    pub ordinal: u32,
    /// The compute capability, such as `9.0`.
    pub compute_capability: SharedText,
    /// The name that the driver gives it.
    pub name: SharedText,
}

/// A call in progress when the record was read, or when the process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CallInProgress {
    /// The driver's function.
    pub call: SharedText,
    /// The thread, by its number in the operating system.
    pub thread: u32,
    /// How long the call had been in progress, in nanoseconds: 0 if that was less than 0.2 seconds.
    #[cfg_attr(feature = "serde", serde(rename = "took_ms", serialize_with = "json::milliseconds"))]
    pub took: u64,
}

/// Launches in a stream between two samples. Samples are 50 ms apart, and later one second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Activity {
    /// The end of the time in which the launches were counted, in nanoseconds since the start.
    #[cfg_attr(feature = "serde", serde(rename = "at_ms", serialize_with = "json::milliseconds"))]
    pub at: u64,
    /// The handle of the stream, or 0.
    pub stream: u64,
    /// The number of launches.
    pub launches: u32,
    /// The kernel that was launched last.
    pub kernel: SharedText,
}

/// One event that was recorded, such as a late load, a slow call or a hang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Event {
    /// The kind of the event.
    pub kind: Kind,
    /// Whether the event came after the program was ready, or the call would have waited for a resident kernel.
    #[cfg_attr(feature = "serde", serde(rename = "finding"))]
    pub is_finding: bool,
    /// Whether the call returned. The call of a hang may have returned after all.
    #[cfg_attr(feature = "serde", serde(rename = "returned"))]
    pub has_returned: bool,
    /// False of an image that was preloaded, and that the program has not asked for.
    #[cfg_attr(feature = "serde", serde(rename = "used"))]
    pub is_used: bool,
    /// When the event began, in nanoseconds since the start.
    #[cfg_attr(feature = "serde", serde(rename = "at_ms", serialize_with = "json::milliseconds"))]
    pub begun: u64,
    /// How long the event took, in nanoseconds.
    #[cfg_attr(feature = "serde", serde(rename = "took_ms", serialize_with = "json::milliseconds"))]
    pub took: u64,
    /// The thread, by its number in the operating system.
    pub thread: u32,
    /// The handle of the stream, or 0.
    pub stream: u64,
    /// The handle of the context, or 0.
    pub context: u64,
    /// The driver's result: 0 is success.
    pub result: u32,
    /// The driver's function.
    pub call: SharedText,
    /// What the event is about.
    pub subject: Subject,
    /// The resident kernel for which the call would have waited; for a slow call or a hang, a kernel that ran
    /// meanwhile; or nothing.
    pub resident: SharedText,
    /// The name of the [rule](crate::rules) by which the call waits, if one was found.
    pub rule: SharedText,
    /// The commands that prevent a late load, or a hang because of one, without a change to the program. The command of the audit, which knows
    /// how the program was run, adds them; in a record there are none.
    pub commands: Vec<SharedText>,
    /// The library that made the call.
    pub library: SharedText,
    /// The function that made the call, with its library; in Python the file, the line and the function of the user.
    pub caller: SharedText,
    /// The stack of the call, a line for each frame.
    pub stack: SharedText,
    /// Why something was not preloaded, or why the result of a compilation isn't kept; or nothing.
    pub reason: SharedText,
    /// What a call waits for that hangs, if the record had room for it.
    pub explanation: Option<Box<Explanation>>,
    /// The explanation in sentences. The command of the audit adds them; in a record there are none.
    pub words: SharedText,
}

impl Event {
    /// Returns whether the event is a call that has not returned, or had not returned when the process ended.
    pub fn is_endless(&self) -> bool {
        self.kind == Kind::Hang && !self.has_returned
    }

    /// Returns whether `resident` names a kernel: one for which the call would have waited, or one that ran during a
    /// slow call or a hang.
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
    /// A call that did not return for long. The event's `explanation` says what it waits for.
    Hang = 5,
    /// A call that was refused, after the program was ready or while a kernel was resident.
    Refused = 6,
    /// The program asked for a version of a function that is not watched.
    Unwatched = 7,
    /// A call that would have waited for a resident kernel, and was deferred until that had ended.
    Deferred = 8,
    /// A call that waits for a resident kernel, and was made nevertheless.
    Waits = 9,
    /// A kernel, an image or a limit of a [preload](crate::preload). If `result` is not 0, `reason` says why it was
    /// not preloaded.
    Preload = 10,
    /// NVRTC compiled a program.
    Compile = 11,
    /// NVRTC's earlier result for the same program was returned, of this process or of the recorded one.
    Kept = 12,
    /// A [stretch](super::Stretch) of time that was looked at.
    Stretch = 13,
    /// What some of a stretch was [spent](super::Spent) on.
    Spent = 14,
    /// A call failed because a kernel or a device had failed, as `result` says. The event's `explanation` has in `busy` what was
    /// launched last in each stream.
    Fault = 15,
}

impl Kind {
    /// All kinds and their words, in the order of their numbers.
    const WORDS: [(Kind, &str); 15] = [
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
        (Kind::Compile, "compile"),
        (Kind::Kept, "kept"),
        (Kind::Stretch, "stretch"),
        (Kind::Spent, "spent"),
        (Kind::Fault, "fault"),
    ];

    pub(super) fn from_number(number: u16) -> Option<Kind> {
        Kind::WORDS.into_iter().map(|(kind, _)| kind).find(|kind| *kind as u16 == number)
    }

    /// Returns the word of the kind, such as `load`.
    pub const fn as_str(self) -> &'static str {
        Kind::WORDS[self as usize - 1].1
    }
}

impl From<Kind> for &'static str {
    fn from(kind: Kind) -> Self {
        kind.as_str()
    }
}

/// Writes times as numbers in JSON.
#[cfg(feature = "serde")]
pub(super) mod json {
    use serde::Serializer;

    pub(in crate::record) fn milliseconds<S: Serializer>(
        nanoseconds: &u64,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_f64(*nanoseconds as f64 / 1e6)
    }

    pub(super) fn optional_milliseconds<S: Serializer>(time: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(nanoseconds) => milliseconds(nanoseconds, to),
            None => to.serialize_none(),
        }
    }
}
