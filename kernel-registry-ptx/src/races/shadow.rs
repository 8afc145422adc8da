//! Remembers of each word of memory who accessed it last.

use std::collections::HashMap;
use std::ops::Range;

use super::clock::Place;
use super::kind::AccessKind;
use crate::order::Scope;

/// Accesses that are remembered of a word at most, of each kind. Without races and beyond one warp there's one.
const MOST: usize = 8;

/// The words of a page.
pub(crate) const WORDS: usize = 128;

/// An access of some lanes of a warp to a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub at: Place,
    pub lanes: u32,
    pub clock: u32,
    /// The line of the instruction in the PTX.
    pub line: u32,
    /// The bytes of the word, a bit for each.
    pub bytes: u8,
    /// The scope of a strong access.
    pub strong: Option<Scope>,
    pub what: AccessKind,
    /// The value that a store wrote, if it's known.
    pub value: Option<u32>,
}

/// The last accesses to a word.
#[derive(Clone, Debug, Default)]
pub(crate) struct Word {
    pub writes: Last,
    pub reads: Last,
}

/// The last accesses of one kind. Nearly always there's one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Last {
    one: Option<Access>,
    #[allow(
        clippy::box_collection,
        reason = "a word is a third smaller, and there is one for every four bytes"
    )]
    more: Option<Box<Vec<Access>>>,
}

impl Last {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Access> {
        self.one.iter().chain(self.more.iter().flat_map(|more| more.iter()))
    }

    /// Forgets these bytes of accesses with which later ones need not be compared.
    pub(crate) fn forget(&mut self, bytes: u8, is_known: impl Fn(&Access) -> bool) {
        let stays = |access: &mut Access| {
            if is_known(access) {
                access.bytes &= !bytes;
            }
            access.bytes != 0
        };
        if let Some(more) = &mut self.more {
            more.retain_mut(stays);
        }
        if self.one.as_mut().is_some_and(|one| !stays(one)) {
            self.one = self.more.as_mut().and_then(|more| more.pop());
        }
    }

    pub(crate) fn add(&mut self, access: Access) {
        let same = |other: &Access| Access { lanes: access.lanes, value: access.value, ..*other } == access;
        let Some(one) = &mut self.one else {
            self.one = Some(access);
            return;
        };
        if same(one) {
            one.lanes |= access.lanes;
            return;
        }
        let more = self.more.get_or_insert_default();
        if let Some(other) = more.iter_mut().find(|other| same(other)) {
            other.lanes |= access.lanes;
        } else {
            if more.len() == MOST {
                more.remove(0);
            }
            more.push(access);
        }
    }
}

/// The words of an address space.
#[derive(Default)]
pub(crate) struct Shadow {
    /// The index of each page in `words`.
    pages: HashMap<u64, usize>,
    words: Vec<Box<[Word]>>,
    /// The page that was used last, and its index plus one: the next access is most often in the same.
    last: (u64, usize),
    /// Accesses to whole pages, which a page takes over when it's made: copies can be as large as the memory.
    pub(crate) ranges: Vec<(Range<u64>, Access)>,
}

impl Shadow {
    /// Returns the word with this number, which is its address divided by four.
    #[inline]
    pub(crate) fn word(&mut self, number: u64) -> &mut Word {
        let (page, place) = (number / WORDS as u64, number as usize % WORDS);
        if self.last.1 == 0 || self.last.0 != page {
            self.last = (page, self.page(page) + 1);
        }
        &mut self.words[self.last.1 - 1][place]
    }

    /// Returns the word with this number if anyone has accessed its page.
    pub(crate) fn known_word(&self, number: u64) -> Option<&Word> {
        let words = &self.words[*self.pages.get(&(number / WORDS as u64))?];
        Some(&words[number as usize % WORDS])
    }

    fn page(&mut self, page: u64) -> usize {
        *self.pages.entry(page).or_insert_with(|| {
            let mut word = Word::default();
            for (_, access) in self.ranges.iter().filter(|(range, _)| range.contains(&page)) {
                if access.what.writes() {
                    word = Word::default();
                    word.writes.add(*access);
                } else {
                    word.reads.add(*access);
                }
            }
            self.words.push(vec![word; WORDS].into_boxed_slice());
            self.words.len() - 1
        })
    }

    /// Returns the pages of a range that are there.
    pub(crate) fn made(&self, range: &Range<u64>) -> Vec<u64> {
        self.pages.keys().copied().filter(|page| range.contains(page)).collect()
    }

    /// Forgets the words of a range: the memory is new.
    pub(crate) fn forget(&mut self, address: u64, bytes: u64) {
        let (first, end) = (address / 4, (address + bytes).div_ceil(4));
        let pages = first / WORDS as u64..end.div_ceil(WORDS as u64);
        self.ranges.retain(|(range, _)| range.end <= pages.start || pages.end <= range.start);
        // Most often the memory is small, and the pages are many.
        let made = if pages.end - pages.start < self.pages.len() as u64 {
            pages.filter(|page| self.pages.contains_key(page)).collect()
        } else {
            self.made(&pages)
        };
        for page in made {
            let start = page * WORDS as u64;
            let (from, to) = (first.max(start), end.min(start + WORDS as u64));
            self.words[self.pages[&page]][(from - start) as usize..(to - start) as usize]
                .fill(Word::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_as_new() {
        let mut shadow = Shadow::default();
        let access = Access { bytes: 0xf, ..Access::default() };
        for number in [0, 127, 128, 5000] {
            shadow.word(number).writes.add(access);
        }
        shadow.forget(4 * 127, 8);
        let left = [0, 127, 128, 5000].map(|number| shadow.word(number).writes.iter().count());
        assert_eq!(left, [1, 0, 0, 1]);
    }

    #[test]
    fn bytes_are_forgotten_one_by_one() {
        let mut last = Last::default();
        let access = |lanes, bytes| Access { lanes, bytes, ..Access::default() };
        last.add(access(1, 0b11));
        last.add(access(2, 0b100));
        last.add(access(4, 0b100));
        assert_eq!(last.iter().map(|access| access.lanes).collect::<Vec<_>>(), [1, 6]);
        last.forget(0b1, |_| true);
        assert_eq!(last.iter().map(|access| access.bytes).collect::<Vec<_>>(), [0b10, 0b100]);
        last.forget(0b10, |access| access.lanes == 1);
        assert_eq!(last.iter().map(|access| access.bytes).collect::<Vec<_>>(), [0b100]);
        (0..20).for_each(|clock| last.add(Access { clock, ..access(1, 1) }));
        assert!(last.iter().count() <= MOST + 1 && last.iter().any(|access| access.clock == 19));
    }
}
