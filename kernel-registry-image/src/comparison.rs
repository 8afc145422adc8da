//! Compares the parameters of a declaration in Rust with those of the kernel in an image.
//!
//! `#[gpu_kernel]` compares while a crate is compiled, when only the names of types are known. `cargo kernels check`
//! compares a binary, when sizes are known, but not the types behind aliases. Rules and messages are the same.
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

mod params;

use std::fmt;

use kernel_registry_format::{Pass, RustType, same_layout};

use crate::cuda_type::layout_of;
use crate::source::CSignature;
use crate::{CudaType, Entry, ParamLayout, Scalar, stable_symbol};

pub use self::params::{Compared, compare_params, other_lengths};

/// Size and alignment of an address among the arguments of a kernel.
const ADDRESS: u32 = 8;

/// A parameter as Rust declares it.
#[derive(Clone, Copy, Debug)]
pub struct Param<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type as written, on one line.
    pub spelled: &'a str,
    /// How it is passed.
    pub pass: Pass,
    /// Size and alignment of the value, or of the element of a slice or pointer, if known.
    pub layout: Option<[u32; 2]>,
}

/// The result of comparing a declared parameter with the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They agree, as far as names and layouts tell.
    Meets,
    /// They agree if the parameter's type, or its element type, is the expected one. Only returned if the layout is
    /// unknown.
    Needs {
        /// The expected type.
        expected: Expected,
        /// The error message if the type differs.
        message: String,
    },
    /// They differ.
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
        /// In bytes.
        size: u32,
        /// In bytes, or 0 if the image does not tell.
        align: u32,
    },
    /// The type that CUDA's headers call so, or one of this size and alignment without a name in CUDA.
    Named {
        /// Its name: `float4`.
        name: String,
        /// In bytes.
        size: u32,
        /// In bytes, or 0 if it depends on the version of CUDA.
        align: u32,
    },
}

/// A difference between a declaration and the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The respect in which they differ.
    pub about: About,
    /// Both sides, in words.
    pub message: String,
}

/// Respects in which a declaration and a kernel can differ.
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
    /// Its size or alignment.
    Layout,
    /// The threads of a block.
    Block,
}

impl About {
    /// The respect in one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            About::Symbol => "symbol",
            About::Count => "count",
            About::Direction => "direction",
            About::Type => "type",
            About::Layout => "layout",
            About::Block => "block",
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Compares the symbol. `file` is the name of the image in messages. nvcc's hashes of the source's path do not count: see
/// [`stable_symbol`].
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

/// The block sizes that a kernel was compiled for, by its launch bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockRule {
    /// Blocks of this shape.
    Exactly([u32; 3]),
    /// Blocks of so many threads or fewer.
    AtMost(u32),
}

impl BlockRule {
    /// The rule of a kernel, if its launch bounds set one.
    pub fn of(entry: &Entry) -> Option<BlockRule> {
        let required = entry.limits.required_threads.map(BlockRule::Exactly);
        required.or(entry.limits.max_threads.map(BlockRule::AtMost))
    }

    /// Whether the kernel can be launched with these blocks.
    pub const fn allows(self, [x, y, z]: [u32; 3]) -> bool {
        match self {
            BlockRule::Exactly([a, b, c]) => a == x && b == y && c == z,
            BlockRule::AtMost(max) => x.saturating_mul(y).saturating_mul(z) <= max,
        }
    }

    /// The error message for other blocks, without their threads.
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
    match BlockRule::of(entry) {
        Some(rule) if !rule.allows(block) => {
            let [x, y, z] = block;
            let message = format!("{}, and this one has {x} x {y} x {z}", rule.message(entry));
            Err(Mismatch { about: About::Block, message })
        }
        _ => Ok(()),
    }
}

impl Param<'_> {
    /// Compares this parameter with the kernel's at the same index. `file` is the name of the image in messages.
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

    /// Size and alignment of this side, if they differ, in words. The sizes of numbers are known to all.
    fn own_layout(&self, about: About) -> String {
        match self.layout {
            Some([size, align]) if about == About::Layout && RustType::named(self.element()).is_none() => {
                format!("; here it has {size} bytes, aligned to {align}")
            }
            _ => String::new(),
        }
    }

    /// The type passed by value, or the element type of the slice or pointer.
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

    /// The type without the `Option` of a slice that may be null.
    fn reference(&self) -> &str {
        let inside = self.spelled.split_once('<').and_then(|(_, rest)| rest.strip_suffix('>'));
        inside.filter(|_| self.is_nullable()).unwrap_or(self.spelled)
    }

    /// Whether it is a slice in an `Option`: slices alone end with a bracket.
    fn is_nullable(&self) -> bool {
        matches!(self.pass, Pass::Slice | Pass::SliceMut) && self.spelled.ends_with('>')
    }

    /// The type that is expected, or `None` if any will do. An error says what differs, and how to declare it instead.
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
                if self.is_float().zip(is_float(layout)).is_some_and(|(here, there)| here != there) =>
            {
                Err((About::Type, ""))
            }
            (Pass::Value, _) => {
                Ok(Some(Expected::Layout { size: layout.size, align: layout.align.unwrap_or(0) }))
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
            (_, Some(CudaType::Other(_))) => Ok(None),
            (_, None) if layout.size == ADDRESS && is_float(layout) != Some(true) => Ok(None),
            _ => Err((About::Type, "")),
        }
    }

    /// Whether it is floating point, if it is a number.
    fn is_float(&self) -> Option<bool> {
        RustType::named(self.element()).map(|number| matches!(number, RustType::F32 | RustType::F64))
    }

    /// The type that the elements of a slice or pointer must have.
    fn pointee(&self, to: &CudaType) -> Option<Expected> {
        match to {
            // `void*` meets any pointer, and so does `c_void`, by any path.
            CudaType::Scalar(Scalar::Void) => None,
            _ if self.element().rsplit("::").next() == Some("c_void") => None,
            CudaType::Scalar(scalar) => Some(Expected::Scalar(*scalar)),
            // The mangled name does not tell the layout of named types; CUDA's own are known here.
            CudaType::Named(name) => {
                layout_of(name).map(|[size, align]| Expected::Named { name: name.clone(), size, align })
            }
            CudaType::Pointer { .. } | CudaType::Other(_) => None,
        }
    }

    /// Whether the type is the expected one, as far as its name or its layout tells.
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
            (Expected::Layout { size: wide, align: aligned }, _)
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

/// The kernel's signature in C++ or C, or its symbol. Long ones are cut, because the message of every parameter can contain it.
fn whole(entry: &Entry) -> String {
    const LONGEST: usize = 1000;
    let mut whole = match &entry.signature {
        Some(signature) => signature.to_string(),
        None if entry.c_params.is_empty() => entry.symbol.clone(),
        None => CSignature { name: entry.symbol.clone(), params: entry.c_params.clone() }.to_string(),
    };
    if let Some((cut, _)) = whole.char_indices().nth(LONGEST) {
        whole.truncate(cut);
        whole.push_str("..");
    }
    whole
}

/// Whether PTX says that a parameter is floating point, or that it is not. Signs it does not tell, nor what addresses
/// point to, nor anything of types such as `.b32` and `.b8[16]`.
pub(crate) fn is_float(layout: &ParamLayout) -> Option<bool> {
    match layout.ptx_type.as_deref()? {
        "f32" | "f64" => Some(true),
        "u8" | "u16" | "u32" | "u64" | "s8" | "s16" | "s32" | "s64" => Some(false),
        _ => None,
    }
}

/// The parameter in the image, in words.
fn there(cuda: Option<&CudaType>, layout: &ParamLayout) -> String {
    let align = layout.align.map(|align| format!(", aligned to {align}")).unwrap_or_default();
    match (cuda, is_float(layout), layout.size) {
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
mod tests {
    use super::*;
    use crate::read;

    #[test]
    fn a_long_signature_is_cut_in_messages() {
        let symbol = format!("_Z4long{}", "i".repeat(3000));
        let text = format!(".version 8.0 .target sm_75 .entry {symbol}(.param .u32 n) {{ ret; }}");
        let image = read(text.as_bytes()).unwrap();
        let entry = image.find("long", "x.ptx").unwrap();
        let message = compare_count(3, entry, "x.ptx").unwrap_err().message;
        assert!(message.starts_with("`long(int, int, "));
        assert!(message.ends_with("..` of `x.ptx` takes 1 parameter, and 3 are declared"));
        assert!(message.len() < 1100);
    }

    const PTX: &str = ".version 8.0 .target sm_75
        .entry _Z4takeiPKfPfPv4Pair(
            .param .u32 n, .param .u64 x, .param .u64 y, .param .u64 any, .param .align 4 .b8 pair[8]
        ) .maxntid 128 { ret; }";

    /// The verdict on a declared parameter at an index, in one word.
    fn verdict(index: usize, spelled: &str, pass: Pass, layout: Option<[u32; 2]>) -> String {
        let image = read(PTX.as_bytes()).unwrap();
        let entry = image.find("take", "x.ptx").unwrap();
        match (Param { name: "p", spelled, pass, layout }).compare(index, entry, "x.ptx") {
            Verdict::Meets => "meets".to_owned(),
            Verdict::Needs { expected, .. } => format!("{expected:?}"),
            Verdict::Wrong(mismatch) => format!("{:?}", mismatch.about),
        }
    }

    #[test]
    fn numbers_are_compared_by_name() {
        assert_eq!(verdict(0, "i32", Pass::Value, None), "meets");
        assert_eq!(verdict(0, "u32", Pass::Value, Some([4, 4])), "Type");
        assert_eq!(verdict(1, "&[f32]", Pass::Slice, None), "meets");
        assert_eq!(verdict(1, "*const f64", Pass::Pointer, Some([8, 8])), "Type");
        assert_eq!(verdict(1, "u64", Pass::Value, None), "Type");
        assert_eq!(verdict(4, "u64", Pass::Value, None), "Layout");
    }

    #[test]
    fn other_types_are_compared_by_layout_once_it_is_known() {
        assert_eq!(verdict(0, "Count", Pass::Value, None), "Scalar(Int)");
        assert_eq!(verdict(0, "Count", Pass::Value, Some([4, 4])), "meets");
        assert_eq!(verdict(0, "Count", Pass::Value, Some([8, 8])), "Layout");
        assert_eq!(verdict(3, "Handle", Pass::Value, None), "Pointer");
        assert_eq!(verdict(3, "Handle", Pass::Value, Some([8, 8])), "meets");
        assert_eq!(verdict(3, "Handle", Pass::Value, Some([8, 4])), "Layout");
        assert_eq!(verdict(4, "Pair", Pass::Value, None), "Layout { size: 8, align: 4 }");
        assert_eq!(verdict(4, "Pair", Pass::Value, Some([8, 4])), "meets");
        assert_eq!(verdict(4, "Pair", Pass::Value, Some([8, 8])), "Layout");
    }

    #[test]
    fn memory_that_the_kernel_writes_must_be_declared_mutable() {
        assert_eq!(verdict(2, "&[f32]", Pass::Slice, None), "Direction");
        assert_eq!(verdict(2, "*const f32", Pass::Pointer, None), "Direction");
        assert_eq!(verdict(2, "&mut [f32]", Pass::SliceMut, None), "meets");
        assert_eq!(verdict(1, "*mut f32", Pass::PointerMut, None), "meets");
    }

    #[test]
    fn a_slice_that_may_be_null_is_judged_as_the_slice() {
        assert_eq!(verdict(1, "Option<&[f32]>", Pass::Slice, None), "meets");
        assert_eq!(verdict(1, "::core::option::Option<&[f64]>", Pass::Slice, None), "Type");
        assert_eq!(verdict(2, "Option<&mut [f32]>", Pass::SliceMut, None), "meets");
        assert_eq!(verdict(2, "Option<&[f32]>", Pass::Slice, None), "Direction");
        assert_eq!(verdict(2, "Option<&mut [Wrapper<f32>]>", Pass::SliceMut, None), "Scalar(Float)");
        assert_eq!(verdict(4, "Option<&[f32]>", Pass::Slice, None), "Type");
    }

    #[test]
    fn cudas_own_types_have_a_name() {
        let ptx = ".version 8.0 .target sm_75 .entry _Z1kPK6float414CUtensorMap_st(
            .param .u64 x, .param .align 128 .b8 map[128]
        ) { ret; }";
        let image = read(ptx.as_bytes()).unwrap();
        let entry = image.find("k", "x.ptx").unwrap();
        let compare = |index, spelled, pass, layout| {
            Param { name: "p", spelled, pass, layout }.compare(index, entry, "x.ptx")
        };
        let Verdict::Needs { expected, .. } = compare(0, "&[Float4]", Pass::Slice, None) else { panic!() };
        assert_eq!(expected, Expected::Named { name: "float4".to_owned(), size: 16, align: 16 });
        // In a binary only layouts are known. The map is one of CUDA 13.
        for map in [[128, 64], [128, 128]] {
            assert_eq!(compare(1, "TensorMap", Pass::Value, Some(map)), Verdict::Meets);
        }
        assert!(matches!(compare(1, "Other", Pass::Value, Some([128, 32])), Verdict::Wrong(_)));
    }

    #[test]
    fn pointers_to_anything_meet_any_pointer() {
        assert_eq!(verdict(3, "&mut [Pair]", Pass::SliceMut, None), "meets");
        assert_eq!(verdict(2, "*mut core::ffi::c_void", Pass::PointerMut, None), "meets");
    }

    #[test]
    fn without_a_signature_ptx_tells_floating_point_from_integers() {
        let ptx = ".version 8.0 .target sm_75 .entry c(
            .param .u64 x, .param .f32 a, .param .u32 n, .param .f64 d, .param .b32 any, .param .align 2 .b8 h[2]
        ) { ret; }";
        let image = read(ptx.as_bytes()).unwrap();
        let entry = image.find("c", "c.ptx").unwrap();
        let compare = |index, spelled, pass, layout| {
            let declared = Param { name: "p", spelled, pass, layout };
            match declared.compare(index, entry, "c.ptx") {
                Verdict::Wrong(mismatch) => format!("{:?}: {mismatch}", mismatch.about),
                verdict => format!("{verdict:?}"),
            }
        };
        let value = |index, spelled| compare(index, spelled, Pass::Value, None);
        for (index, spelled) in
            [(0, "u64"), (0, "isize"), (1, "f32"), (2, "i32"), (3, "f64"), (4, "f32"), (4, "u32")]
        {
            assert_eq!(value(index, spelled), "Meets", "{spelled}");
        }
        assert_eq!(compare(0, "&[f32]", Pass::Slice, None), "Meets");
        assert_eq!(compare(1, "Real", Pass::Value, Some([4, 4])), "Meets");
        for (index, spelled, there) in [
            (0, "f64", "an integer or pointer of 8 bytes"),
            (1, "u32", "`float`"),
            (2, "f32", "an integer of 4 bytes"),
            (3, "u64", "`double`"),
        ] {
            let expected = format!("Type: `p` is `{spelled}` here, and {there} in `c` of `c.ptx`");
            assert_eq!(value(index, spelled), expected);
        }
        let slice = compare(3, "&[f64]", Pass::Slice, None);
        assert_eq!(slice, "Type: `p` is `&[f64]` here, and `double` in `c` of `c.ptx`");
        assert_eq!(
            value(4, "u64"),
            "Layout: `p` is `u64` here, and a value of 4 bytes, aligned to 4, in `c` of `c.ptx`"
        );
    }

    #[test]
    fn the_vectors_of_cuda_have_a_layout() {
        assert_eq!(layout_of("float4"), Some([16, 16]));
        assert_eq!(layout_of("float3"), Some([12, 4]));
        assert_eq!(layout_of("double4"), Some([32, 16]));
        assert_eq!(layout_of("uchar1"), Some([1, 1]));
        assert_eq!(layout_of("__half"), Some([2, 2]));
        assert_eq!(layout_of("double4_32a"), Some([32, 32]));
        assert_eq!(layout_of("CUtensorMap_st"), Some([128, 0]));
        for other in ["float5", "float", "Pair4", "4", "", "ä4"] {
            assert_eq!(layout_of(other), None, "{other}");
        }
    }

    #[test]
    fn symbols_of_anonymous_namespaces_differ_by_a_hash() {
        let symbol = |hash: &str, rest: &str| format!("_ZN40_GLOBAL__N__{hash}_8_types_cu_34106f84{rest}");
        let ptx = format!(
            ".version 8.0 .target sm_75 .entry {}(.param .u32 n) {{ ret; }}",
            symbol("00000000", "1kEj")
        );
        let image = read(ptx.as_bytes()).unwrap();
        let compare = |declared: &str| compare_symbol(declared, image.find("k", "x.ptx").unwrap(), "x.ptx");
        assert_eq!(compare(&symbol("00000000", "1kEj")), Ok(()));
        assert_eq!(compare(&symbol("11111111", "1kEj")), Ok(()));
        for other in [symbol("11111111", "1kEi"), symbol("11111111", "1lEj"), "_Z1kj".to_owned()] {
            assert!(compare(&other).is_err(), "{other}");
        }
    }

    #[test]
    fn counts_and_blocks() {
        let image = read(PTX.as_bytes()).unwrap();
        let entry = image.find("take", "x.ptx").unwrap();
        assert_eq!(compare_count(5, entry, "x.ptx"), Ok(()));
        assert_eq!(
            compare_count(1, entry, "x.ptx").unwrap_err().message,
            "`take(int, const float*, float*, void*, Pair)` of `x.ptx` takes 5 parameters, and 1 are declared"
        );
        assert_eq!(compare_block([128, 1, 1], entry), Ok(()));
        assert_eq!(
            compare_block([16, 16, 1], entry).unwrap_err().message,
            "`take` was compiled for blocks of at most 128 threads, and this one has 16 x 16 x 1"
        );
    }
}
