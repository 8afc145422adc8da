//! Compares the parameters of a declaration in Rust with those of the kernel in an image.
//!
//! `#[gpu_kernel]` compares while a crate is compiled, when only the names of types are known.
//! `cargo kernels check` compares a binary, when sizes are known, but not what aliases resolve to. Both use
//! the same rules and messages.
//!
//! ```
//! use kernel_registry_format::Pass;
//! use kernel_registry_image::comparison::{Param, Verdict};
//!
//! let ptx = ".version 8.0 .target sm_75 .entry _Z4fillPfi(.param .u64 x, .param .u32 n) { ret; }";
//! let image = kernel_registry_image::read(ptx.as_bytes())?;
//! let fill = image.find("fill", "fill.ptx").unwrap();
//!
//! let n = Param { name: "n", spelled: "u32", pass: Pass::Value, layout: None };
//! let Verdict::Wrong(mismatch) = n.compare(1, fill, "fill.ptx") else { panic!() };
//! assert_eq!(mismatch.to_string(), "`n` is `u32` here, and `int` in `fill(float*, int)` of `fill.ptx`");
//! # Ok::<(), kernel_registry_image::Error>(())
//! ```

mod names;
mod params;

use std::fmt;

use kernel_registry_format::{Pass, RustType, same_layout};

use crate::cuda_type::layout_of;
use crate::source::{CSignature, PlacedField};
use crate::{CudaType, Entry, ParamLayout, Scalar, stable_symbol};

pub use self::names::{OtherNames, compare_names};
pub use self::params::{Compared, compare_params, other_lengths};

/// Size and alignment of an address among the arguments of a kernel.
const ADDRESS: u32 = 8;

/// A parameter of a declaration in Rust.
#[derive(Clone, Copy, Debug)]
pub struct Param<'a> {
    /// The parameter's name.
    pub name: &'a str,
    /// The type as written, on one line.
    pub spelled: &'a str,
    /// How the argument is passed.
    pub pass: Pass,
    /// Size and alignment of the value, or of the element of a slice or pointer, if known.
    pub layout: Option<[u32; 2]>,
}

/// The result of comparing a declared parameter with the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The parameters agree, as far as names and layouts show.
    Meets,
    /// The parameters agree if the declared type, or its element type, is the expected one. Only returned if
    /// the layout is unknown.
    Needs {
        /// The expected type.
        expected: Expected,
        /// The error message if the type differs.
        message: String,
    },
    /// The parameters differ.
    Wrong(Mismatch),
}

/// The Rust type that a parameter or its elements must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A number type, by its C++ name.
    Scalar(Scalar),
    /// A pointer.
    Pointer,
    /// Any type of this size and alignment.
    Layout {
        /// The size in bytes.
        size: u32,
        /// The alignment in bytes, or 0 if the image doesn't say.
        align: u32,
        /// The fields of a struct, if a source has them. Otherwise empty.
        fields: Vec<PlacedField>,
    },
    /// The type that CUDA's headers define under this name. Any Rust type with the same size and alignment
    /// will do too, unless it has a CUDA counterpart.
    Named {
        /// The name: `float4`.
        name: String,
        /// The size in bytes.
        size: u32,
        /// The alignment in bytes, or 0 if the alignment depends on the version of CUDA.
        align: u32,
    },
}

/// A difference between a declaration and the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The kind of difference.
    pub about: About,
    /// The error message, which describes both.
    pub message: String,
}

/// The kinds of differences between a declaration and a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum About {
    /// The name by which the driver knows the kernel.
    Symbol,
    /// The number of parameters.
    Count,
    /// Whether the kernel may write through a parameter.
    Direction,
    /// The type of a parameter.
    Type,
    /// The size or alignment of a parameter.
    Layout,
    /// The order of the parameters, by their names.
    Names,
    /// The threads of a block.
    Block,
}

impl About {
    /// Returns the respect in one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            About::Symbol => "symbol",
            About::Count => "count",
            About::Direction => "direction",
            About::Type => "type",
            About::Layout => "layout",
            About::Names => "names",
            About::Block => "block",
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Compares the symbol, ignoring nvcc's hashes of the source's path: see [`stable_symbol`]. `file` is the
/// name of the image in messages.
pub fn compare_symbol(declared: &str, entry: &Entry, file: &str) -> Result<(), Mismatch> {
    let symbol = &entry.symbol;
    if declared == symbol || stable_symbol(declared) == stable_symbol(symbol) {
        return Ok(());
    }
    let whole = whole(entry);
    let message = format!("the symbol is `{declared}` here, and `{symbol}` of `{whole}` in `{file}`");
    Err(Mismatch { about: About::Symbol, message })
}

/// Compares the number of parameters. `file` is the name of the image in messages.
pub fn compare_count(declared: usize, entry: &Entry, file: &str) -> Result<(), Mismatch> {
    let count = entry.params.len();
    if declared == count {
        return Ok(());
    }
    let plural = if count == 1 { "" } else { "s" };
    let message = format!(
        "`{}` of `{file}` takes {count} parameter{plural}, and {declared} are declared",
        whole(entry)
    );
    Err(Mismatch { about: About::Count, message })
}

/// The block sizes that a kernel's launch bounds allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockRule {
    /// Blocks of this shape.
    Exactly([u32; 3]),
    /// Blocks of at most this many threads.
    AtMost(u32),
}

impl BlockRule {
    /// Returns the rule of a kernel, if its launch bounds set one.
    pub fn from_entry(entry: &Entry) -> Option<BlockRule> {
        let required = entry.limits.required_threads.map(BlockRule::Exactly);
        required.or(entry.limits.max_threads.map(BlockRule::AtMost))
    }

    /// Returns whether the kernel can be launched with blocks of this shape.
    pub const fn allows(self, [x, y, z]: [u32; 3]) -> bool {
        match self {
            BlockRule::Exactly([a, b, c]) => a == x && b == y && c == z,
            BlockRule::AtMost(max) => x.saturating_mul(y).saturating_mul(z) <= max,
        }
    }

    /// Returns the error message for blocks that the rule forbids. The caller appends the size of the refused
    /// block.
    pub fn message(self, entry: &Entry) -> String {
        let name = entry.name();
        match self {
            BlockRule::Exactly([a, b, c]) => {
                format!("`{name}` was compiled for blocks of exactly {a} x {b} x {c} threads")
            }
            BlockRule::AtMost(max) => format!("`{name}` was compiled for blocks of at most {max} threads"),
        }
    }
}

/// Compares the declared block with the kernel's launch bounds.
pub fn compare_block(block: [u32; 3], entry: &Entry) -> Result<(), Mismatch> {
    match BlockRule::from_entry(entry) {
        Some(rule) if !rule.allows(block) => {
            let [x, y, z] = block;
            let message = format!("{}, and this one has {x} x {y} x {z}", rule.message(entry));
            Err(Mismatch { about: About::Block, message })
        }
        _ => Ok(()),
    }
}

impl Param<'_> {
    /// Compares this parameter with the kernel's parameter at the same index. `file` is the name of the image
    /// in messages.
    pub fn compare(&self, index: usize, entry: &Entry, file: &str) -> Verdict {
        let cuda = entry.cuda_type(index);
        let Some(layout) = entry.params.get(index) else { return Verdict::Meets };
        // A closure, because most parameters are right and need no message.
        let message = || {
            let (name, spelled, there, whole) = (self.name, self.spelled, there(cuda, layout), whole(entry));
            format!("`{name}` is `{spelled}` here, and {there} in `{whole}` of `{file}`")
        };
        let wrong = |about, more: &str| Verdict::Wrong(Mismatch { about, message: message() + more });
        match self.expected(cuda, layout) {
            Err((about, remedy)) => wrong(about, remedy),
            Ok(None) => Verdict::Meets,
            Ok(Some(expected)) => match self.settle(&expected) {
                Some(Ok(())) => Verdict::Meets,
                Some(Err(about)) => wrong(about, &self.own_layout(about)),
                None => Verdict::Needs { expected, message: message() },
            },
        }
    }

    /// Describes size and alignment of the declared type, if the layouts differ. Number types are left out,
    /// because their sizes are well known.
    fn own_layout(&self, about: About) -> String {
        match self.layout {
            Some([size, align]) if about == About::Layout && RustType::named(self.element()).is_none() => {
                format!("; here it has {size} bytes, aligned to {align}")
            }
            _ => String::new(),
        }
    }

    /// Returns the type passed by value, or the element type of the slice or pointer.
    pub fn element(&self) -> &str {
        let (open, close) = match self.pass {
            Pass::Value => ("", ""),
            Pass::Slice => ("&[", "]"),
            Pass::SliceMut => ("&mut [", "]"),
            Pass::Pointer => ("*const ", ""),
            Pass::PointerMut => ("*mut ", ""),
        };
        let element = self.reference().strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        element.unwrap_or(self.spelled)
    }

    /// Returns the type without the `Option` of a slice that may be null.
    fn reference(&self) -> &str {
        let inside = self.spelled.split_once('<').and_then(|(_, rest)| rest.strip_suffix('>'));
        inside.filter(|_| self.is_nullable()).unwrap_or(self.spelled)
    }

    /// Returns whether the declared type is a slice in an `Option`, which ends with `>`. A slice alone ends
    /// with `]`.
    fn is_nullable(&self) -> bool {
        matches!(self.pass, Pass::Slice | Pass::SliceMut) && self.spelled.ends_with('>')
    }

    /// Returns the expected type, or `None` if any type will do. An error has what differs, and how to
    /// declare the parameter instead.
    fn expected(
        &self,
        cuda: Option<&CudaType>,
        layout: &ParamLayout,
    ) -> Result<Option<Expected>, (About, &'static str)> {
        match (self.pass, cuda) {
            (Pass::Value, Some(CudaType::Scalar(scalar))) => Ok(Some(Expected::Scalar(*scalar))),
            (Pass::Value, Some(CudaType::Pointer { .. })) => Ok(Some(Expected::Pointer)),
            (Pass::Value, Some(CudaType::Named(name))) if layout_of(name).is_some() => {
                let (name, size, align) = (name.clone(), layout.size, layout.align.unwrap_or(0));
                Ok(Some(Expected::Named { name, size, align }))
            }
            (Pass::Value, None)
                if self.is_float().zip(layout.is_float()).is_some_and(|(here, there)| here != there) =>
            {
                Err((About::Type, ""))
            }
            (Pass::Value, _) => {
                let ParamLayout { size, align, ref fields, .. } = *layout;
                Ok(Some(Expected::Layout { size, align: align.unwrap_or(0), fields: fields.clone() }))
            }
            (Pass::Slice, Some(CudaType::Pointer { is_const: false, .. })) => {
                let remedy = match self.is_nullable() {
                    true => ": the kernel may write through it, so declare `Option<&mut [T]>`",
                    false => ": the kernel may write through it, so declare `&mut [T]`",
                };
                Err((About::Direction, remedy))
            }
            (Pass::Pointer, Some(CudaType::Pointer { is_const: false, .. })) => {
                Err((About::Direction, ": the kernel may write through it, so declare `*mut T`"))
            }
            (_, Some(CudaType::Pointer { to, .. })) => Ok(self.pointee(to)),
            (_, Some(CudaType::Other(_)) | None)
                if layout.size == ADDRESS && layout.is_float() != Some(true) =>
            {
                Ok(None)
            }
            _ => Err((About::Type, "")),
        }
    }

    /// Returns whether the declared type is floating point, if it is a number.
    fn is_float(&self) -> Option<bool> {
        RustType::named(self.element()).map(|number| matches!(number, RustType::F32 | RustType::F64))
    }

    /// Returns the type that the elements of a slice or pointer must have.
    fn pointee(&self, to: &CudaType) -> Option<Expected> {
        match to {
            // A `void*` accepts any pointer. So does a declared `c_void`, however its path is written.
            CudaType::Scalar(Scalar::Void) => None,
            _ if self.element().rsplit("::").next() == Some("c_void") => None,
            CudaType::Scalar(scalar) => Some(Expected::Scalar(*scalar)),
            // A mangled name doesn't have the layout of named types, so only those of CUDA's own types are
            // known.
            CudaType::Named(name) => {
                layout_of(name).map(|[size, align]| Expected::Named { name: name.clone(), size, align })
            }
            CudaType::Pointer { .. } | CudaType::Other(_) => None,
        }
    }

    /// Compares the declared type with the expected one, by name or layout. Returns `None` if neither is
    /// known.
    fn settle(&self, expected: &Expected) -> Option<Result<(), About>> {
        let name = self.element();
        let number = RustType::named(name);
        let [size, align] = number.and_then(RustType::size).map(|size| [size, size]).or(self.layout)?;
        let meets = match (expected, number) {
            (Expected::Scalar(scalar), Some(number)) => scalar.accepts(number),
            (Expected::Scalar(scalar), None) => {
                scalar.size().is_none_or(|scalar| [size, align] == [scalar; 2])
            }
            (Expected::Pointer, _) => number.is_none() && [size, align] == [ADDRESS; 2],
            (Expected::Layout { size: wide, align: aligned, .. }, _)
            | (Expected::Named { size: wide, align: aligned, .. }, _) => {
                same_layout([size, align], [*wide, *aligned])
            }
        };
        let about = match expected {
            Expected::Scalar(_) | Expected::Pointer if number.is_some() => About::Type,
            _ => About::Layout,
        };
        Some(if meets { Ok(()) } else { Err(about) })
    }
}

/// Returns the kernel's signature in C++ or C, or its name. Long texts are cut, because the message of every
/// parameter may contain this one.
fn whole(entry: &Entry) -> String {
    const LONGEST: usize = 1000;
    let mut whole = match entry.typed_signature() {
        Some(signature) => signature.to_string(),
        None if entry.c_params.is_empty() => entry.name().to_owned(),
        None => CSignature { name: entry.symbol.clone(), params: entry.c_params.clone() }.to_string(),
    };
    if let Some((cut, _)) = whole.char_indices().nth(LONGEST) {
        whole.truncate(cut);
        whole.push_str("..");
    }
    whole
}

/// Describes the parameter of the image.
fn there(cuda: Option<&CudaType>, layout: &ParamLayout) -> String {
    let align = layout.align.map(|align| format!(", aligned to {align}")).unwrap_or_default();
    match (cuda, layout.is_float(), layout.size) {
        (Some(cuda @ CudaType::Named(_)), _, size) => format!("`{cuda}` ({size} bytes{align})"),
        (Some(cuda), ..) => format!("`{cuda}`"),
        (None, Some(true), 4) => "`float`".to_owned(),
        (None, Some(true), _) => "`double`".to_owned(),
        (None, Some(false), 8) => "an integer or pointer of 8 bytes".to_owned(),
        (None, Some(false), size) => format!("an integer of {size} bytes"),
        (None, None, size) => format!("a value of {size} bytes{align},"),
    }
}

#[cfg(test)]
mod tests;
