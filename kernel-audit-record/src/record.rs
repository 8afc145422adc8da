//! The record of a process: a file that the process maps and writes. Others read the record while the process runs, and
//! after it was killed.
//!
//! A record has a header, a slot for each thread with its call in progress, samples of launches, strings, and events.
//! All numbers are little-endian. The file has its whole size from the beginning; events and strings that find no room
//! are counted, and dropped.

pub mod coded;
mod collected;
mod explanation;
mod layout;
mod model;
mod read;
mod slot;
mod stretch;
mod subject;
mod sync;
mod tail;
#[cfg(test)]
mod tests;
mod texts;
mod time;
#[cfg(target_os = "linux")]
mod trim;

pub use explanation::{Explanation, Running, ThreadInCall, UnloadedHandles, UnloadedLaunch, Work};
pub use layout::LARGEST;
#[doc(hidden)]
pub use layout::{
    Layout, LongCall, MAGIC, MOST, RawEvent, SAMPLES, SLOTS, STRINGS, Sample, Text, VERSION, size, write,
};
pub use model::{Activity, CallInProgress, Device, Event, Kind, Report};
pub use read::{NotRead, read};
#[doc(hidden)]
pub use slot::{Entry, InProgress, Slot};
pub use stretch::{Spending, Spent, Stretch};
#[doc(hidden)]
pub use subject::Fields;
pub use subject::{Format, Image, Limit, Program, Subject};
pub use tail::{Tail, open_plain};
pub use texts::SharedText;
pub use time::Time;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use trim::trim;
