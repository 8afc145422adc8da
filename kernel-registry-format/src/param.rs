//! Defines the parameters of a kernel, which come from a declaration or from a record.

use core::fmt;

use crate::Problem;
use crate::fields::{Fields, Seen, text};
use crate::layout;

/// One parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Param<'a> {
    /// The parameter's name in the Rust declaration.
    pub name: &'a str,
    /// The parameter's type, as the Rust declaration spells it.
    pub ty: &'a str,
    /// How the parameter is passed.
    pub pass: Pass,
    /// Whether the parameter is an `Option` of a slice. For `None`, the kernel gets a null pointer.
    pub nullable: bool,
    /// Where the kernel finds the length of a slice, if it takes one.
    pub length: Option<SliceLength>,
    /// The size of the argument in bytes, without a length that is a separate parameter
    /// ([`SliceLength::Next`]).
    pub size: u32,
    /// The alignment of the argument in bytes.
    pub align: u32,
    /// The size of an element that a slice or pointer points to. For a value, the size of the value.
    pub element_size: u32,
    /// The alignment of an element that a slice or pointer points to. For a value, the alignment of the
    /// value.
    pub element_align: u32,
}

/// How a parameter reaches the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A copy of the value.
    Value,
    /// `&[T]`: tracked device memory that the kernel reads.
    Slice,
    /// `&mut [T]`: tracked device memory that the kernel may write.
    SliceMut,
    /// `*const T`: any device pointer, to read from.
    Pointer,
    /// `*mut T`: any device pointer, to write through.
    PointerMut,
}

/// Where a kernel finds the number of elements of a slice. Only kernels compiled from Rust take it, because
/// CUDA C++ has no slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceLength {
    /// In a separate parameter after the address, a `u64`.
    Next,
    /// In the same parameter as the address, after the address.
    Within,
}

/// Whether the kernel may change what the parameter refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Direction {
    /// The kernel only reads the memory.
    In,
    /// The kernel may read and write the memory.
    InOut,
}

/// The size of a device address in bytes, and its alignment. Both are the same on every host.
const ADDRESS: u32 = 8;

impl<'a> Param<'a> {
    /// Creates a parameter from its declaration and the size and alignment of its value or element.
    pub const fn new(name: &'a str, ty: &'a str, pass: Pass, element_size: u32, element_align: u32) -> Self {
        let (size, align) = match pass {
            Pass::Value => (element_size, element_align),
            _ => (ADDRESS, ADDRESS),
        };
        Param { name, ty, pass, nullable: false, length: None, size, align, element_size, element_align }
    }

    /// Returns this parameter as an `Option`, which may be null.
    #[must_use]
    pub const fn or_null(self) -> Self {
        Param { nullable: true, ..self }
    }

    /// Returns this parameter as a slice whose length the kernel takes.
    #[must_use]
    pub const fn with_length(self, length: SliceLength) -> Self {
        let size = match length {
            SliceLength::Next => ADDRESS,
            SliceLength::Within => 2 * ADDRESS,
        };
        Param { length: Some(length), size, ..self }
    }

    /// Decodes a parameter's declaration from its field. Sizes and alignments of all parameters are in
    /// another field.
    pub(crate) fn decode(payload: &'a [u8]) -> Result<Self, Problem> {
        let (mut param, mut seen) = (Param::new("", "", Pass::Value, 0, 0), Seen::default());
        for field in Fields(payload) {
            let (tag, bytes) = field?;
            match tag {
                layout::param::NAME => param.name = text(bytes)?,
                layout::param::TYPE => param.ty = text(bytes)?,
                layout::param::PASS => {
                    let &[code] = bytes else { return Err(Problem::FieldSize) };
                    param.pass = Pass::from_code(code).ok_or(Problem::Pass)?;
                }
                layout::param::NULLABLE => param.nullable = true,
                layout::param::LENGTH => {
                    let &[code] = bytes else { return Err(Problem::FieldSize) };
                    param.length = Some(SliceLength::from_code(code).ok_or(Problem::Pass)?);
                }
                _ => continue,
            }
            seen.add(tag)?;
        }
        seen.require(&[layout::param::NAME, layout::param::TYPE, layout::param::PASS])?;
        Ok(param)
    }

    /// Returns this parameter with the size and alignment from the record.
    fn with_layout(self, layout: [u8; 8]) -> Self {
        let [s0, s1, s2, s3, a0, a1, a2, a3] = layout;
        let Param { name, ty, pass, nullable, length, .. } = self;
        let (size, align) = (u32::from_le_bytes([s0, s1, s2, s3]), u32::from_le_bytes([a0, a1, a2, a3]));
        let param = Param { nullable, ..Param::new(name, ty, pass, size, align) };
        length.map_or(param, |length| param.with_length(length))
    }

    /// Returns whether the kernel may change what the parameter refers to.
    pub const fn direction(&self) -> Direction {
        match self.pass {
            Pass::Value | Pass::Slice | Pass::Pointer => Direction::In,
            Pass::SliceMut | Pass::PointerMut => Direction::InOut,
        }
    }
}

impl Pass {
    pub(crate) const ALL: [Pass; 5] =
        [Pass::Value, Pass::Slice, Pass::SliceMut, Pass::Pointer, Pass::PointerMut];

    /// Returns the number for this variant in records: its index in `ALL`.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Returns the kind in one word, as in the JSON of `cargo kernels list`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Pass::Value => "value",
            Pass::Slice | Pass::SliceMut => "slice",
            Pass::Pointer | Pass::PointerMut => "pointer",
        }
    }
}

impl SliceLength {
    /// Returns the number for this variant in records.
    pub(crate) const fn code(self) -> u8 {
        match self {
            SliceLength::Next => 1,
            SliceLength::Within => 2,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        [SliceLength::Next, SliceLength::Within].into_iter().find(|length| length.code() == code)
    }

    /// Returns the variant in one word, as in the JSON of `cargo kernels list`.
    pub const fn as_str(self) -> &'static str {
        match self {
            SliceLength::Next => "next",
            SliceLength::Within => "within",
        }
    }
}

impl Direction {
    /// Returns `in` or `inout`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::InOut => "inout",
        }
    }
}

/// The parameters of a kernel, in order.
#[derive(Clone, Copy)]
pub struct Params<'a>(pub(crate) Repr<'a>);

#[derive(Clone, Copy)]
pub(crate) enum Repr<'a> {
    /// Parameters from a declaration.
    Declared(&'a [Param<'a>]),
    /// Parameters from a record: the fields of the record, and the size and alignment of each parameter. The
    /// decoder has checked both.
    Recorded { fields: &'a [u8], layouts: &'a [[u8; 8]] },
}

impl<'a> Params<'a> {
    /// Creates the parameters of a declaration.
    pub const fn new(params: &'a [Param<'a>]) -> Self {
        Params(Repr::Declared(params))
    }

    /// Returns an iterator over the parameters.
    pub fn iter(&self) -> ParamsIter<'a> {
        ParamsIter(self.0)
    }

    /// Returns the number of parameters.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns whether the kernel takes no parameters.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl<'a> IntoIterator for Params<'a> {
    type Item = Param<'a>;
    type IntoIter = ParamsIter<'a>;

    fn into_iter(self) -> ParamsIter<'a> {
        self.iter()
    }
}

impl PartialEq for Params<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Params<'_> {}

impl fmt::Debug for Params<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The iterator over [`Params`].
#[derive(Clone)]
pub struct ParamsIter<'a>(Repr<'a>);

impl<'a> Iterator for ParamsIter<'a> {
    type Item = Param<'a>;

    fn next(&mut self) -> Option<Param<'a>> {
        match &mut self.0 {
            Repr::Declared(params) => {
                let (first, rest) = params.split_first()?;
                *params = rest;
                Some(*first)
            }
            Repr::Recorded { fields, layouts } => {
                let (sizes, rest) = layouts.split_first()?;
                *layouts = rest;
                // The decoder has checked all fields, so this ignores no error.
                let mut rest = Fields(fields);
                let mut known = rest.by_ref().map_while(Result::ok);
                let (_, bytes) = known.find(|(tag, _)| *tag == layout::kernel::PARAM)?;
                *fields = rest.0;
                Some(Param::decode(bytes).ok()?.with_layout(*sizes))
            }
        }
    }
}

impl fmt::Debug for ParamsIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Params(self.0).fmt(f)
    }
}
