//! The texts of a record, read. Many events share one, such as a stack, so each is in memory once. A record may be damaged, or made to
//! harm: its texts take no more memory than it has room for, and no more work than its size allows.

use std::collections::HashMap;
use std::sync::Arc;

/// The longest text, in bytes.
pub(crate) const LONGEST: usize = 16 << 10;

/// Bytes of texts that all events together may refer to, for each byte of the record: stacks of 1 KiB for as many events as have room.
const REFERRED: usize = 16;

/// A text that others can share.
pub type SharedText = Arc<str>;

/// Reads the texts of a record.
pub(super) struct Texts<'a> {
    strings: &'a [u8],
    /// The texts that were read, by their places.
    read: HashMap<u32, SharedText>,
    /// How many bytes of texts may still be kept.
    room: usize,
    /// How many bytes of texts may still be referred to.
    to_refer: usize,
    /// How many texts found no room.
    pub(super) dropped: u64,
}

impl<'a> Texts<'a> {
    /// Reads the texts of a record of this size.
    pub(super) fn new(strings: &'a [u8], size: usize) -> Self {
        Texts {
            strings,
            read: HashMap::new(),
            room: strings.len(),
            to_refer: size.saturating_mul(REFERRED),
            dropped: 0,
        }
    }

    /// The text at a place, empty if there is none.
    pub(super) fn at(&mut self, place: u32) -> SharedText {
        let text = match self.read.get(&place) {
            Some(text) => text.clone(),
            None => {
                let bytes = self.bytes(place as usize);
                if bytes.len() > self.room {
                    self.dropped += 1;
                    return SharedText::default();
                }
                self.room -= bytes.len();
                let text = SharedText::from(&*String::from_utf8_lossy(bytes));
                self.read.insert(place, text.clone());
                text
            }
        };
        if text.len() > self.to_refer {
            self.dropped += 1;
            return SharedText::default();
        }
        self.to_refer -= text.len();
        text
    }

    fn bytes(&self, place: usize) -> &'a [u8] {
        let bytes = || {
            let (length, text) = self.strings.get(place..)?.split_first_chunk()?;
            text.get(..(u32::from_le_bytes(*length) as usize).min(LONGEST))
        };
        if place == 0 { &[] } else { bytes().unwrap_or_default() }
    }
}
