//! Follows a record while its process runs: reads the hangs that go on, and the last launches.

use std::fs::File;
use std::io;
use std::mem::{self, offset_of};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use super::layout::{Header, LARGEST, Layout, RawEvent, SAMPLES, STRINGS, Sample};
use super::model::{Event, Kind, Report};
use super::read::{read, u16_at, u64_at};

/// The largest number of hangs in one record that are followed.
const MOST_HANGS: usize = 1000;

/// The time after which a process is quiet. A process that runs reports so more often, even on a busy machine.
const QUIET: Duration = Duration::from_secs(10);

/// Opens a record, or another file that a process has left, and returns the file's length, too. Refuses a pipe of that
/// name, because its reader would wait for ever.
///
/// # Errors
///
/// The file cannot be opened, or is no plain file.
pub fn open_plain(path: &Path) -> io::Result<(File, u64)> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let its = file.metadata()?;
    if its.is_file() { Ok((file, its.len())) } else { Err(io::Error::other("it is no plain file")) }
}

/// A record that is followed while it grows.
#[derive(Debug)]
pub struct Tail {
    file: File,
    /// A buffer as long as the record. Only a part of the record is read into it, so it takes little memory.
    bytes: Vec<u8>,
    /// The number of events that were looked at.
    seen: usize,
    /// The offsets of events that can still change: hangs that go on, and events being written.
    going_on: Vec<usize>,
    /// The offset of the last sample.
    sample: usize,
    /// The record's counter `beats`, and the time at which it was first seen with this value; `None` before the first
    /// look.
    beats: Option<(u64, Instant)>,
    has_run: bool,
}

impl Tail {
    /// Opens a record, or a file that will become one.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or is no plain file.
    pub fn open(path: &Path) -> io::Result<Tail> {
        Ok(Tail {
            file: open_plain(path)?.0,
            bytes: Vec::new(),
            seen: 0,
            going_on: Vec::new(),
            sample: offset_of!(Layout, samples),
            beats: None,
            has_run: false,
        })
    }

    /// Reads the record as it is now, of its events only the hangs that go on, and of its samples only the last.
    /// Returns `None` while the file is no whole record of this version.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is larger than any record.
    pub fn look(&mut self) -> io::Result<Option<Report>> {
        let length = self.file.metadata()?.len();
        if length > LARGEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than any record"));
        }
        if length as usize != self.bytes.len() {
            self.bytes = vec![0; length as usize];
            self.seen = 0;
            self.going_on.clear();
        }
        self.fetch(0..size_of::<Header>())?;
        self.fetch_events()?;
        self.fetch_last_sample()?;
        let beats = u64_at(&self.bytes, offset_of!(Header, beats));
        if self.beats.is_none_or(|(before, _)| before != beats) {
            self.has_run |= self.beats.is_some();
            self.beats = Some((beats, Instant::now()));
        }
        let (strings, used) = (offset_of!(Layout, strings), self.number(offset_of!(Header, strings)));
        self.fetch(strings..strings + used.min(STRINGS))?;
        Ok(read(&self.bytes).ok().map(|mut report| {
            report.events.retain(Event::is_endless);
            report
        }))
    }

    /// Returns whether the process may have been killed or stopped: it has not reported for ten seconds that it runs.
    pub fn is_quiet(&self) -> bool {
        self.beats.is_some_and(|(_, at)| at.elapsed() > QUIET)
    }

    /// Returns the inode of the file, by which a process that has mapped the file can be found.
    pub fn inode(&self) -> Option<u64> {
        self.file.metadata().ok().map(|its| its.ino())
    }

    /// Returns whether the process was seen to run: it reported so between one look and a later one.
    pub fn has_run(&self) -> bool {
        self.has_run
    }

    /// Reads new events, and again those that can still change. Forgets events that cannot change.
    fn fetch_events(&mut self) -> io::Result<()> {
        let event_offset = |index: usize| size_of::<Layout>() + index * size_of::<RawEvent>();
        let room = self.bytes.len().saturating_sub(size_of::<Layout>()) / size_of::<RawEvent>();
        let new = self.seen..self.number(offset_of!(Header, events)).min(room).max(self.seen);
        self.fetch(event_offset(new.start)..event_offset(new.end))?;
        self.seen = new.end;
        for at in mem::take(&mut self.going_on) {
            self.fetch(at..at + size_of::<RawEvent>())?;
            self.keep_or_forget(at);
        }
        new.map(event_offset).for_each(|at| self.keep_or_forget(at));
        Ok(())
    }

    fn keep_or_forget(&mut self, at: usize) {
        let kind = u16_at(&self.bytes, at + offset_of!(RawEvent, kind));
        let has_returned = self.bytes[at + offset_of!(RawEvent, later)] != 0;
        let goes_on = kind == 0 || kind == Kind::Hang as u16 && !has_returned;
        if goes_on && self.going_on.len() < MOST_HANGS {
            self.going_on.push(at);
        } else {
            self.bytes[at..at + size_of::<RawEvent>()].fill(0);
        }
    }

    fn fetch_last_sample(&mut self) -> io::Result<()> {
        let samples = self.number(offset_of!(Header, samples)).min(SAMPLES);
        let Some(last) = samples.checked_sub(1) else { return Ok(()) };
        let at = offset_of!(Layout, samples) + last * size_of::<Sample>();
        let before = mem::replace(&mut self.sample, at);
        if before != at
            && let Some(bytes) = self.bytes.get_mut(before..before + size_of::<Sample>())
        {
            bytes.fill(0);
        }
        self.fetch(at..at + size_of::<Sample>())
    }

    fn number(&self, offset: usize) -> usize {
        usize::try_from(u64_at(&self.bytes, offset)).unwrap_or(usize::MAX)
    }

    /// Reads a range of bytes from the file, as far as the file has them.
    fn fetch(&mut self, range: Range<usize>) -> io::Result<()> {
        let end = range.end.min(self.bytes.len());
        match self.bytes.get_mut(range.start..end) {
            Some(bytes) => self.file.read_exact_at(bytes, range.start as u64),
            None => Ok(()),
        }
    }
}
