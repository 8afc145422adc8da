//! Reads the texts of a record. Many events share one text, such as a stack, so each text is in memory once. A record
//! may be damaged or malicious: its texts take no more memory than the record has room for, and no more work than the
//! record's size allows.

use std::collections::HashMap;
use std::sync::Arc;

/// The longest text, in bytes.
pub const LONGEST: usize = 16 << 10;

/// The bytes of texts to which all events together may refer, for each byte of the record: enough for a stack of 1 KiB
/// in each event.
const REFERRED: usize = 16;

/// A text that others can share.
pub type SharedText = Arc<str>;

/// A reader of the texts of a record.
pub(super) struct Texts<'a> {
    strings: &'a [u8],
    /// The texts that were read, by their offsets.
    read: HashMap<u32, SharedText>,
    /// The bytes of texts that may still be kept.
    room: usize,
    /// The bytes of texts that may still be referred to.
    to_refer: usize,
    /// The number of texts that found no room.
    pub(super) dropped: u64,
}

impl<'a> Texts<'a> {
    /// Creates a reader for a record of `size` bytes.
    pub(super) fn new(strings: &'a [u8], size: usize) -> Self {
        Texts {
            strings,
            read: HashMap::new(),
            room: strings.len(),
            to_refer: size.saturating_mul(REFERRED),
            dropped: 0,
        }
    }

    /// Returns the text at an offset, or an empty text if there is none.
    pub(super) fn at(&mut self, offset: u32) -> SharedText {
        let text = match self.read.get(&offset) {
            Some(text) => text.clone(),
            None => {
                let bytes = self.bytes(offset as usize);
                if bytes.len() > self.room {
                    self.dropped += 1;
                    return SharedText::default();
                }
                self.room -= bytes.len();
                let text = SharedText::from(&*String::from_utf8_lossy(bytes));
                self.read.insert(offset, text.clone());
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

    /// Returns the bytes at an offset that are no text, or `None` if there are none or they find no room.
    pub(super) fn bytes_at(&mut self, offset: u32) -> Option<&'a [u8]> {
        let bytes = self.bytes(offset as usize);
        if bytes.len() > self.room.min(self.to_refer) {
            self.dropped += 1;
            return None;
        }
        self.room -= bytes.len();
        self.to_refer -= bytes.len();
        (!bytes.is_empty()).then_some(bytes)
    }

    fn bytes(&self, offset: usize) -> &'a [u8] {
        let bytes = || {
            let (length, text) = self.strings.get(offset..)?.split_first_chunk()?;
            text.get(..(u32::from_le_bytes(*length) as usize).min(LONGEST))
        };
        if offset == 0 { &[] } else { bytes().unwrap_or_default() }
    }
}
