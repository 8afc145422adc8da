//! Remembers of each word of memory who accessed it last.

use std::collections::HashMap;

use super::clock::Place;
use super::race::What;
use crate::order::Scope;

/// Accesses that are remembered of a word at most, of each kind. Without races and beyond one warp there's one.
const MOST: usize = 8;

/// The words of a page.
const WORDS: usize = 1024;

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
    pub what: What,
    /// The value that a store wrote, in part.
    pub value: u32,
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
    pages: HashMap<u64, Box<[Word]>>,
}

impl Shadow {
    /// Returns the word with this number, which is its address divided by four.
    pub(crate) fn word(&mut self, number: u64) -> &mut Word {
        let empty = || vec![Word::default(); WORDS].into_boxed_slice();
        let page = self.pages.entry(number / WORDS as u64).or_insert_with(empty);
        &mut page[number as usize % WORDS]
    }

    /// Forgets the words of a range: the memory is new.
    pub(crate) fn forget(&mut self, address: u64, bytes: u64) {
        let (first, end) = (address / 4, (address + bytes).div_ceil(4));
        let (from, to) = (first / WORDS as u64, end.div_ceil(WORDS as u64));
        self.pages.retain(|page, words| {
            if (from..to).contains(page) {
                let start = page * WORDS as u64;
                let range = first.saturating_sub(start) as usize..(end - start).min(WORDS as u64) as usize;
                words[range].fill(Word::default());
            }
            true
        });
    }
}
