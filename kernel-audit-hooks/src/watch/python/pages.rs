//! Copies whole pages of memory and caches them, because each copy is a system call, and the data is close
//! together: a thread's frames are, and so are the names of a file's functions.

use crate::watch::process::memory::{self, PAGE};

/// The number of pages in the cache.
const PAGES: usize = 16;
const WORDS: usize = PAGE as usize / size_of::<u64>();

/// Pages of this process's memory, as they were when first read. Number 0 marks a free entry, because page 0
/// is never mapped.
pub(super) struct Pages {
    numbers: [u64; PAGES],
    /// The number of words that could be read of each page.
    counts: [usize; PAGES],
    words: [[u64; WORDS]; PAGES],
}

impl Pages {
    pub(super) const NEW: Pages =
        Pages { numbers: [0; PAGES], counts: [0; PAGES], words: [[0; WORDS]; PAGES] };

    pub(super) fn clear(&mut self) {
        (self.numbers, self.counts) = ([0; PAGES], [0; PAGES]);
    }

    /// Copies words from an aligned address, up to the first that isn't mapped. Returns how many it copied:
    /// none if the address isn't aligned.
    pub(super) fn read(&mut self, at: u64, into: &mut [u64]) -> usize {
        const WORD: u64 = size_of::<u64>() as u64;
        let mut done = 0;
        while done < into.len() && at.is_multiple_of(WORD) {
            let Some(at) = at.checked_add(done as u64 * WORD) else { break };
            let page = self.page(at / PAGE);
            let Some(found) = page.get((at % PAGE / WORD) as usize..).filter(|found| !found.is_empty())
            else {
                break;
            };
            let count = found.len().min(into.len() - done);
            into[done..done + count].copy_from_slice(&found[..count]);
            done += count;
        }
        done
    }

    fn page(&mut self, number: u64) -> &[u64] {
        let index = (number % PAGES as u64) as usize;
        if self.numbers[index] != number {
            self.numbers[index] = number;
            self.counts[index] = memory::read(number * PAGE, &mut self.words[index]);
        }
        &self.words[index][..self.counts[index]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_read_over_the_ends_of_pages() {
        let memory: Vec<u64> = (0..WORDS as u64 * 40).collect();
        let mut pages = Pages::NEW;
        for from in [0, 1, WORDS - 3, WORDS * 17 - 5, WORDS * 16 + 2, 3] {
            let mut words = [0; 700];
            assert_eq!(pages.read(memory[from..].as_ptr().addr() as u64, &mut words), 700);
            assert_eq!(words, memory[from..from + 700]);
        }
        for at in [0, 8, 9, u64::MAX, u64::MAX - 7] {
            assert_eq!(pages.read(at, &mut [0; 4]), 0);
        }
    }
}
