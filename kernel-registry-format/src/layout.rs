//! Defines the layout of a record's bytes, shared by writer and reader.
//!
//! A record is a header and a payload. The layout of the header never changes, so that any reader can skip
//! records of newer versions:
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | [`MAGIC`] |
//! | 8..10 | version, little endian |
//! | 10..12 | kind: 0 library, 1 kernel |
//! | 12..16 | length of the payload |
//!
//! The payload is a sequence of fields. A field is a tag (one byte), a length (four bytes) and that many
//! bytes. A reader skips fields whose tag it does not know. So a new field needs no new version, but a new
//! meaning of an old field does. Numbers are little endian; text is UTF-8.

/// The first bytes of every record.
pub const MAGIC: [u8; 8] = *b"KRNLREC\x1a";

/// The version of the records that this crate writes, and the newest that it can read.
pub const VERSION: u16 = 1;

/// The length of the header in front of every payload.
pub const HEADER_LEN: usize = 16;

/// The length of a field's header: a tag of one byte, and a length of four bytes.
pub(crate) const FIELD_HEADER_LEN: usize = 5;

/// The value of a number that the declaration doesn't fix.
pub const NOT_FIXED: u32 = u32::MAX;

pub(crate) mod kind {
    pub(crate) const LIBRARY: u16 = 0;
    pub(crate) const KERNEL: u16 = 1;
}

/// Tags of a kernel's fields.
pub(crate) mod kernel {
    pub(crate) const PATH: u8 = 1;
    pub(crate) const SYMBOL: u8 = 2;
    pub(crate) const PACKAGE: u8 = 3;
    pub(crate) const VERSION: u8 = 4;
    pub(crate) const FILE: u8 = 5;
    /// Line and column.
    pub(crate) const POSITION: u8 = 6;
    pub(crate) const SUMMARY: u8 = 7;
    /// A parameter. Occurs once for each parameter, in order; its bytes are the fields of `param`.
    pub(crate) const PARAM: u8 = 8;
    pub(crate) const MIN_ARCH: u8 = 9;
    pub(crate) const IMAGE_FILE: u8 = 10;
    pub(crate) const IMAGE_LEN: u8 = 11;
    /// The block's threads in x, y and z, and the dynamic shared memory; each is `NOT_FIXED` if the
    /// declaration does not fix it.
    pub(crate) const LAUNCH: u8 = 12;
    /// For each parameter, the size and the alignment of its value or element.
    pub(crate) const LAYOUTS: u8 = 13;
    pub(crate) const IMAGE_VARIANTS: u8 = 14;
    /// One byte of flags: printf 1, assert 2, heap 4, device launch 8, unknown 16.
    pub(crate) const NEEDS: u8 = 15;
    /// The declared bytes of stack, `NOT_FIXED` if the declaration does not state them.
    pub(crate) const STACK: u8 = 16;
    /// The two numbers of `StackFrames`, each `NOT_FIXED` if it is `None`.
    pub(crate) const FRAMES: u8 = 17;
    /// The number of the library's copy: eight bytes.
    pub(crate) const COPY: u8 = 18;
    /// Present if the kernel's image is separable; has no bytes.
    pub(crate) const IMAGE_SEPARABLE: u8 = 19;

    /// The names of the parameters in the source, separated by commas, if they differ from the declared
    /// names.
    pub(crate) const SOURCE_NAMES: u8 = 20;

    /// The fields that every kernel must have.
    pub(crate) const NEEDED: [u8; 8] = [PATH, SYMBOL, PACKAGE, VERSION, FILE, POSITION, LAUNCH, LAYOUTS];
}

/// Tags of a parameter's fields.
pub(crate) mod param {
    pub(crate) const NAME: u8 = 1;
    pub(crate) const TYPE: u8 = 2;
    pub(crate) const PASS: u8 = 3;
    /// Present if the parameter may be null; has no bytes.
    pub(crate) const NULLABLE: u8 = 4;
    /// Present if the kernel takes the length of the slice. One byte: 1 if the length is the next parameter,
    /// 2 if it is in the same parameter.
    pub(crate) const LENGTH: u8 = 5;
}

/// Tags of a library's fields.
pub(crate) mod library {
    pub(crate) const VERSION: u8 = 1;
    pub(crate) const COMPILER: u8 = 2;
    /// The number of the copy: eight bytes.
    pub(crate) const COPY: u8 = 3;
}
