//! The bytes of a record, shared by writer and reader.
//!
//! A record is a header and a payload. The header never changes, so that any reader can step over
//! records that are newer than itself:
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | [`MAGIC`] |
//! | 8..10 | version, little endian |
//! | 10..12 | kind: 0 library, 1 kernel |
//! | 12..16 | length of the payload |
//!
//! The payload is a sequence of fields, each a tag (one byte), a length (four) and that many
//! bytes. A reader skips tags that it does not know; so adding a field needs no new version, and
//! changing the meaning of one does. Numbers are little endian; text is UTF-8.

/// The first bytes of every record.
pub const MAGIC: [u8; 8] = *b"KRNLREC\x1a";

/// The version of the records that this crate writes, and the newest that it reads.
pub const VERSION: u16 = 1;

/// The length of the header in front of every payload.
pub const HEADER_LEN: usize = 16;

/// A field is a tag of one byte and a length of four, then its bytes.
pub(crate) const FIELD_HEADER_LEN: usize = 5;

/// Stands for a number that the declaration does not fix.
pub const NOT_FIXED: u32 = u32::MAX;

pub(crate) mod kind {
    pub(crate) const LIBRARY: u16 = 0;
    pub(crate) const KERNEL: u16 = 1;
}

/// Fields of a kernel.
pub(crate) mod kernel {
    pub(crate) const PATH: u8 = 1;
    pub(crate) const SYMBOL: u8 = 2;
    pub(crate) const PACKAGE: u8 = 3;
    pub(crate) const VERSION: u8 = 4;
    pub(crate) const FILE: u8 = 5;
    /// Line and column.
    pub(crate) const POSITION: u8 = 6;
    pub(crate) const SUMMARY: u8 = 7;
    /// Occurs once for each parameter, in order; its bytes are fields again.
    pub(crate) const PARAM: u8 = 8;
    pub(crate) const MIN_ARCH: u8 = 9;
    pub(crate) const IMAGE_FILE: u8 = 10;
    pub(crate) const IMAGE_LEN: u8 = 11;
    /// The three axes of the block and the dynamic shared memory, each `NOT_FIXED` if it is not fixed.
    pub(crate) const LAUNCH: u8 = 12;
    /// For each parameter size and alignment of its value or element.
    pub(crate) const LAYOUTS: u8 = 13;
    pub(crate) const IMAGE_VARIANTS: u8 = 14;
    /// One byte: printf 1, assert 2, heap 4, device launch 8, unknown 16.
    pub(crate) const NEEDS: u8 = 15;
    /// Declared bytes of stack, `NOT_FIXED` if the declaration does not say.
    pub(crate) const STACK: u8 = 16;
    /// The frames of `StackFrames`, each `NOT_FIXED` if it does not apply.
    pub(crate) const FRAMES: u8 = 17;
    /// The copy of the library: eight bytes.
    pub(crate) const COPY: u8 = 18;
    /// Of a kernel whose image is separable; without bytes.
    pub(crate) const IMAGE_SEPARABLE: u8 = 19;

    /// The fields that every kernel has.
    pub(crate) const NEEDED: [u8; 8] = [PATH, SYMBOL, PACKAGE, VERSION, FILE, POSITION, LAUNCH, LAYOUTS];
}

/// Fields of a parameter.
pub(crate) mod param {
    pub(crate) const NAME: u8 = 1;
    pub(crate) const TYPE: u8 = 2;
    pub(crate) const PASS: u8 = 3;
    /// Of a parameter that may be null; without bytes.
    pub(crate) const NULLABLE: u8 = 4;
    /// Of a slice whose length the kernel takes: one byte, in the next parameter 1, in the same 2.
    pub(crate) const LENGTH: u8 = 5;
}

/// Fields of a library.
pub(crate) mod library {
    pub(crate) const VERSION: u8 = 1;
    pub(crate) const COMPILER: u8 = 2;
    /// Eight bytes.
    pub(crate) const COPY: u8 = 3;
}
