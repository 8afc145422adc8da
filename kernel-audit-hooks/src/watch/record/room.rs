//! Takes disk space for a record as it fills. A process that writes to a page of a mapped file is killed (SIGBUS) if
//! the disk has no room for the page. If the kernel writes there on behalf of a call, the call fails instead. That
//! needs neither the file's descriptor, which the program could close, nor its path, which a process in another root
//! folder can't reach.

use std::iter;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::record::{Layout, RawEvent, Sample, size};
use crate::watch::process::locked::Locked;

/// The bytes that are taken at a time.
const STEP: usize = 1 << 16;
/// The size of the smallest page.
const PAGE: usize = 4096;

/// A part of the record, which fills from its beginning.
pub(super) struct Part {
    begin: usize,
    /// The bytes of an entry.
    entry: usize,
    /// The number of bytes that can be written.
    taken: AtomicUsize,
    lock: Locked<()>,
}

pub(super) static TEXTS: Part = Part::new(offset_of!(Layout, strings), 1);
pub(super) static SAMPLED: Part = Part::new(offset_of!(Layout, samples), size_of::<Sample>());
pub(super) static EVENTS: Part = Part::new(size(0), size_of::<RawEvent>());

/// Forgets what was taken, because there is a new record.
pub(super) fn begin() {
    [&TEXTS, &SAMPLED, &EVENTS].iter().for_each(|part| part.taken.store(0, Ordering::Release));
}

/// Returns the offsets and lengths of what a record of this size needs on the disk from the start: all that doesn't
/// fill entry by entry, and a step of what each process writes.
pub(super) fn first(size: usize) -> [(usize, usize); 3] {
    let step = |part: &Part| (part.begin, STEP.min(size - part.begin));
    [(0, SAMPLED.begin), step(&TEXTS), step(&EVENTS)]
}

impl Part {
    const fn new(begin: usize, entry: usize) -> Self {
        Part { begin, entry, taken: AtomicUsize::new(0), lock: Locked::new() }
    }

    /// Returns whether so many entries can be written, of at most `room`. Takes disk space for them.
    ///
    /// # Safety
    ///
    /// `record` is the mapped record of this process, and has room for so many entries.
    pub(super) unsafe fn has(&self, record: *const Layout, entries: usize, room: usize) -> bool {
        let (wanted, room) = (entries * self.entry, room * self.entry);
        if wanted <= self.taken.load(Ordering::Acquire) {
            return true;
        }
        let _one_thread = self.lock.lock();
        let taken = self.taken.load(Ordering::Acquire);
        let end = wanted.next_multiple_of(STEP).min(room);
        let next_page = |at: &usize| Some((at + 1).next_multiple_of(PAGE));
        let mut pages =
            iter::successors(Some(self.begin + taken), next_page).take_while(|at| *at < self.begin + end);
        // SAFETY: these bytes are in the part, aligned to 8, and not written before they are taken.
        let has_room = pages.all(|at| unsafe { is_writable(record.byte_add(at).cast()) });
        if has_room {
            self.taken.fetch_max(end, Ordering::AcqRel);
        }
        has_room
    }
}

/// Returns whether the disk has room for the page of this word, which is zero before and after.
///
/// # Safety
///
/// The word is aligned and mapped, and no other thread uses it.
unsafe fn is_writable(word: *const u64) -> bool {
    // SAFETY: without a set the call only stores that of the thread; where it can't, it fails.
    let answer = unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, ptr::null::<u64>(), word, size_of::<u64>())
    };
    if answer == 0 {
        // SAFETY: the kernel has just written there.
        unsafe { word.cast_mut().write_volatile(0) };
    }
    answer == 0
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// The end of a file takes the part of a full disk: a write behind it would raise SIGBUS, too.
    #[test]
    fn a_part_ends_where_the_disk_is_full_and_stays_as_it_is() {
        const ROOM: usize = 1000;
        // A part begins anywhere in a page.
        const BEGIN: usize = 10 * PAGE + PAGE / 2;
        const END: usize = BEGIN + ROOM * 96;
        let mut file = tempfile::tempfile().unwrap();
        let mapped = memmap2::MmapOptions::new().len(END).map_raw(&file).unwrap();
        let events = Part::new(BEGIN, 96);
        // SAFETY: the mapping has room for as many entries.
        let has = |entries| unsafe { events.has(mapped.as_ptr().cast(), entries, ROOM) };
        file.set_len((BEGIN + STEP) as u64 / PAGE as u64 * PAGE as u64).unwrap();
        assert!(!has(1), "the last page of the step is missing");
        file.set_len((BEGIN + STEP) as u64).unwrap();
        assert!(has(1) && has(STEP / 96) && !has(ROOM) && has(1), "{:?}", events.taken);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
        file.set_len(END as u64).unwrap();
        assert!(has(ROOM), "the last entry ends where the mapping ends");
    }
}
