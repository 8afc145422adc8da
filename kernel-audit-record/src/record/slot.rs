//! A thread's slot in the record: its call in progress, which the thread writes while others read it.
//!
//! `call` is 0 while the other words of a call change. A reader that finds 0, or other numbers before and after reading, may have
//! read words of two calls, and discards them. tests/loom runs this file under loom.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// A slot: a thread, and its call in progress.
#[repr(C, align(64))]
#[doc(hidden)]
pub struct Slot {
    pub thread: AtomicU32,
    /// The call in progress, by its number in the table of hooks, counted from 1; or 0.
    pub call: AtomicU32,
    /// The number of calls so far. While neither `sequence` nor `call` changes, the call has not returned.
    pub sequence: AtomicU64,
    /// The handle that the call is about: a kernel, a stream, an address.
    pub subject: AtomicU64,
    pub stream: AtomicU64,
    /// The number of launches by this thread.
    pub launches: AtomicU64,
    /// Whether the call loads the kernel that the call is about.
    pub loads: AtomicU32,
    /// Where the call was made: `sp` is the stack pointer, `pc` and `fp` are the lower halves of the instruction's
    /// address and the frame pointer.
    pub pc: AtomicU32,
    pub sp: AtomicU64,
    pub fp: AtomicU32,
}

/// What a thread writes into its slot when a call begins.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Entry {
    pub call: u32,
    pub subject: u64,
    pub stream: u64,
    pub loads: bool,
    pub pc: u32,
    pub sp: u64,
    pub fp: u32,
}

/// A call in progress, as another thread sees it. While a thread's call stays equal, it has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct InProgress {
    /// The thread. Another thread can take the slot of a thread that has ended.
    pub thread: u32,
    /// The number of the call, counted from 1.
    pub call: u32,
    pub sequence: u64,
    /// The handle that the call is about. A call that preloads goes from one image to the next.
    pub subject: u64,
    pub stream: u64,
    pub loads: bool,
}

impl Slot {
    /// Writes that a call begins. Only the slot's thread calls this. Returns the call around it, for [`end`](Self::end): a hook can be
    /// called by the driver behind, or by another hook.
    #[inline]
    pub fn begin(&self, entry: Entry) -> Option<Entry> {
        let outer = self.entry();
        if outer.is_some() {
            self.call.store(0, Ordering::Relaxed);
        }
        self.write(entry);
        outer
    }

    /// Writes that the call has ended which began last, and the call around it goes on.
    #[inline]
    pub fn end(&self, outer: Option<Entry>) {
        self.call.store(0, Ordering::Relaxed);
        let sequence = self.sequence.load(Ordering::Relaxed).wrapping_add(1);
        // A reader of the new number finds no call, or a later one.
        self.sequence.store(sequence, Ordering::Release);
        if let Some(outer) = outer {
            self.write(outer);
        }
    }

    /// Replaces the subject of the thread's call, so that the call counts as another one.
    pub fn mark_progress(&self, subject: u64) {
        // The store does not move above the end of the call before.
        self.subject.store(subject, Ordering::Release);
    }

    #[inline]
    fn write(&self, entry: Entry) {
        // No store below may move above the end of the call before.
        fence(Ordering::Release);
        self.subject.store(entry.subject, Ordering::Relaxed);
        self.stream.store(entry.stream, Ordering::Relaxed);
        self.loads.store(entry.loads.into(), Ordering::Relaxed);
        self.pc.store(entry.pc, Ordering::Relaxed);
        self.sp.store(entry.sp, Ordering::Relaxed);
        self.fp.store(entry.fp, Ordering::Relaxed);
        self.call.store(entry.call, Ordering::Release);
    }

    /// Returns what the slot's own thread wrote last, if a call is in progress.
    #[inline]
    fn entry(&self) -> Option<Entry> {
        let call = self.call.load(Ordering::Relaxed);
        (call != 0).then(|| Entry {
            call,
            subject: self.subject.load(Ordering::Relaxed),
            stream: self.stream.load(Ordering::Relaxed),
            loads: self.loads.load(Ordering::Relaxed) != 0,
            pc: self.pc.load(Ordering::Relaxed),
            sp: self.sp.load(Ordering::Relaxed),
            fp: self.fp.load(Ordering::Relaxed),
        })
    }

    /// Returns the call in progress, or `None` if there is none, or if another one begins at this moment. Any thread may call this.
    pub fn in_progress(&self) -> Option<InProgress> {
        let thread = self.thread.load(Ordering::Acquire);
        // In this order: a call that began at a later number shows this number below.
        let sequence = self.sequence.load(Ordering::Acquire);
        let call = self.call.load(Ordering::Acquire);
        let subject = self.subject.load(Ordering::Relaxed);
        let stream = self.stream.load(Ordering::Relaxed);
        let loads = self.loads.load(Ordering::Relaxed) != 0;
        // No load above may move below the second loads of the numbers.
        fence(Ordering::Acquire);
        let is_same = self.call.load(Ordering::Acquire) == call
            && self.sequence.load(Ordering::Relaxed) == sequence
            && self.thread.load(Ordering::Relaxed) == thread;
        (call != 0 && is_same).then_some(InProgress { thread, call, sequence, subject, stream, loads })
    }
}
