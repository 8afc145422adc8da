//! Reads the attributes that the compiler leaves in `.nv.info` sections.
//!
//! NVIDIA doesn't document the attributes. The names are from `cuobjdump -elf`.

use crate::Error;
use crate::bytes;

/// The attributes in a section `.nv.info.<kernel>` or `.nv.info`.
pub(super) struct Attributes<'a> {
    section: &'a str,
    data: &'a [u8],
}

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attribute<'a> {
    /// The attribute's kind: one of the constants below.
    pub(super) kind: u8,
    /// The bytes of the value. A 16-bit number has two.
    pub(super) value: &'a [u8],
}

/// The block that the kernel must not exceed (`.maxntid`): three numbers.
pub(super) const MAX_THREADS: u8 = 0x05;
/// Undefined functions that a kernel refers to, directly or through functions copied into it: symbol indices.
pub(super) const EXTERNS: u8 = 0x0f;
/// The block that the kernel must have (`.reqntid`): three numbers.
pub(super) const REQNTID: u8 = 0x10;
/// The frame of a function: its symbol index, and the bytes of the frame.
pub(super) const FRAME_SIZE: u8 = 0x11;
/// The stack of a function: its symbol index, and the bytes of its frame and its callees' frames.
pub(super) const MIN_STACK_SIZE: u8 = 0x12;
/// A parameter: index, ordinal, offset and size.
pub(super) const KPARAM_INFO: u8 = 0x17;
/// Bytes of all parameters.
pub(super) const CBANK_PARAM_SIZE: u8 = 0x19;
/// The registers of a function: the function's symbol index, and the number of registers.
pub(super) const REGCOUNT: u8 = 0x2f;
/// Blocks of a cluster: three numbers.
pub(super) const CTA_PER_CLUSTER: u8 = 0x3d;
/// The most blocks of a cluster.
pub(super) const MAX_CLUSTER_RANK: u8 = 0x3f;
/// A parameter of a kernel with many bytes of parameters.
pub(super) const KPARAM_INFO_V2: u8 = 0x45;

impl<'a> Attributes<'a> {
    pub(super) fn new(section: &'a str, data: &'a [u8]) -> Self {
        Attributes { section, data }
    }

    /// Reads one attribute: format, kind, and a 16-bit field, which is the value or the length of a value
    /// that follows. Returns the attribute, and the data after it.
    fn read(&self) -> Result<(Attribute<'a>, &'a [u8]), Error> {
        let cut_off = || Error::malformed(self.section, "an attribute is cut off");
        let [format, kind, low, high] = bytes::array(self.data, 0).ok_or_else(cut_off)?;
        let value = match format {
            1..=3 => 2..4,
            4 => 4..4 + usize::from(u16::from_le_bytes([low, high])),
            _ => {
                let place = self.section.chars().take(256).collect();
                return Err(Error::UnknownFormat {
                    place,
                    what: "attributes of format",
                    number: format.into(),
                });
            }
        };
        let behind = self.data.get(value.end..).ok_or_else(cut_off)?;
        Ok((Attribute { kind, value: &self.data[value] }, behind))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.data.is_empty() {
            return None;
        }
        let read = self.read();
        self.data = read.as_ref().map_or(&[], |(_, behind)| behind);
        Some(read.map(|(attribute, _)| attribute))
    }
}

impl Attribute<'_> {
    /// Returns the 32-bit number at a position, which counts in such numbers.
    pub(super) fn word(&self, position: usize) -> Option<u32> {
        bytes::u32_at(self.value, position * 4)
    }

    pub(super) fn half(&self, position: usize) -> Option<u16> {
        bytes::u16_at(self.value, position * 2)
    }

    /// Returns the first three numbers.
    pub(super) fn dimensions(&self) -> Option<[u32; 3]> {
        Some([self.word(0)?, self.word(1)?, self.word(2)?])
    }

    /// Returns the ordinal, offset and size of a parameter.
    pub(super) fn param(&self) -> Option<(u16, u32, u32)> {
        let size = match self.kind {
            // 14 bits, above alignment, space and bank.
            KPARAM_INFO => self.word(2)? >> 18,
            _ => self.word(2)? & 0xffff,
        };
        Some((self.half(2)?, self.half(3)?.into(), size))
    }
}
