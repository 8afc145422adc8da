//! A sequence lock: a few words that many threads read without a lock while one thread at a time replaces them.
//!
//! The sequence number is odd while the words change. A reader that finds an odd number, or different numbers before and after
//! reading, may have read a mixture of old and new words, and discards it. tests/loom runs this file under loom.
//!
//! A pointer to immutable data would be simpler. But old data could never be freed, so each context would leak memory, and some
//! programs make hundreds of contexts.

use super::sync::{AtomicU64, Ordering, fence};

/// Words that are read all together or not at all. New words are all zero.
pub(super) struct Seqlock<const WORDS: usize> {
    number: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Seqlock<WORDS> {
    #[cfg(not(loom))]
    #[expect(clippy::declare_interior_mutable_const, reason = "every kernel's table starts as copies of it")]
    pub(super) const ZERO: Self =
        Seqlock { number: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] };

    #[cfg(loom)]
    pub(super) fn zero() -> Self {
        Seqlock { number: AtomicU64::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Returns one word, which may be older or newer than the word that `read` returns.
    #[inline]
    pub(super) fn peek(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }

    /// Returns all words, or `None` while a thread replaces them.
    #[inline]
    pub(super) fn read(&self) -> Option<[u64; WORDS]> {
        let before = self.number.load(Ordering::Acquire);
        let words = std::array::from_fn(|word| self.words[word].load(Ordering::Relaxed));
        // No load above may move below the second load of the number.
        fence(Ordering::Acquire);
        let after = self.number.load(Ordering::Relaxed);
        (before == after && before.is_multiple_of(2)).then_some(words)
    }

    /// Replaces all words. The caller ensures that only one thread calls this at a time.
    pub(super) fn write(&self, words: [u64; WORDS]) {
        let number = self.number.load(Ordering::Relaxed);
        self.number.store(number.wrapping_add(1), Ordering::Relaxed);
        // No store below may move above the odd number.
        fence(Ordering::Release);
        for (to, word) in self.words.iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
        self.number.store(number.wrapping_add(2), Ordering::Release);
    }
}
