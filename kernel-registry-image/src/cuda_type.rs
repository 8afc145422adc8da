//! Defines the types of kernel parameters, as C++ spells them.

use std::fmt;

use kernel_registry_format::Scalar;

/// The type of a kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CudaType {
    /// A built-in type.
    Scalar(Scalar),
    /// A pointer.
    Pointer {
        /// The type of the pointee.
        to: Box<CudaType>,
        /// Whether the pointee is `const`.
        is_const: bool,
        /// Whether the pointee is `volatile`.
        is_volatile: bool,
    },
    /// A class, structure, union or enumeration. Only the name is known: `Step`, `float4`, `__half`,
    /// `ns::Type<int, 3>`. A dependent type such as `Accumulator<float>::type` looks the same, and can be any
    /// type.
    Named(String),
    /// Anything else: references, arrays, pointers to functions, `decltype`.
    Other(String),
}

/// The deepest nesting of pointers that is read.
const MAX_DEPTH: u32 = 32;

impl CudaType {
    /// Parses a type in the form of demanglers, with qualifiers after the type
    /// (`unsigned int const volatile*`), or in that of `Display`.
    ///
    /// ```
    /// use kernel_registry_image::CudaType;
    ///
    /// let ty = CudaType::parse("float const* const*");
    /// assert_eq!(ty.to_string(), "const float* const*");
    /// assert_eq!(CudaType::parse("void (*)(int)"), CudaType::Other("void (*)(int)".to_owned()));
    /// ```
    pub fn parse(text: &str) -> CudaType {
        qualified(text.trim(), MAX_DEPTH).0
    }

    /// Returns the size of a parameter of this type in bytes, if it's known.
    pub fn size(&self) -> Option<u32> {
        self.layout().map(|[size, _]| size)
    }

    /// Returns size and alignment in bytes, if they're known. The alignment is 0 if it depends on the version
    /// of CUDA.
    pub fn layout(&self) -> Option<[u32; 2]> {
        match self {
            CudaType::Scalar(scalar) => scalar.size().map(|size| [size; 2]),
            CudaType::Pointer { .. } => Some([8; 2]),
            CudaType::Named(name) => layout_of(name),
            CudaType::Other(_) => None,
        }
    }
}

/// Parses a type. Returns it with its own `const` and `volatile`, which matter only behind a pointer.
fn qualified(mut text: &str, depth: u32) -> (CudaType, bool, bool) {
    let whole = text;
    let (mut is_const, mut is_volatile) = (false, false);
    loop {
        if let Some(rest) = qualifier(text, "const") {
            (text, is_const) = (rest, true);
        } else if let Some(rest) = qualifier(text, "volatile") {
            (text, is_volatile) = (rest, true);
        } else if let Some(rest) = qualifier(text, "__restrict__").or(qualifier(text, "restrict")) {
            text = rest;
        } else {
            break;
        }
    }
    let ty = match text.strip_suffix('*') {
        Some(_) if depth == 0 => CudaType::Other(whole.to_owned()),
        Some(to) => {
            let (to, is_const, is_volatile) = qualified(to.trim_end(), depth - 1);
            CudaType::Pointer { to: Box::new(to), is_const, is_volatile }
        }
        None if text.starts_with("const ") || text.starts_with("volatile ") => {
            let (first, rest) = text.split_once(' ').unwrap_or_default();
            let (ty, inner_const, inner_volatile) = qualified(rest, depth);
            (is_const, is_volatile) = (
                is_const || inner_const || first == "const",
                is_volatile || inner_volatile || first == "volatile",
            );
            ty
        }
        None => match Scalar::named(text) {
            Some(scalar) => CudaType::Scalar(scalar),
            None if is_name(text) => CudaType::Named(text.to_owned()),
            None => CudaType::Other(text.to_owned()),
        },
    };
    (ty, is_const, is_volatile)
}

/// Returns size and alignment of a type that CUDA's own headers define: vectors, 16-bit and 8-bit floating
/// point, and tensor maps. The alignment is 0 if it depends on the version of CUDA.
pub(crate) fn layout_of(name: &str) -> Option<[u32; 2]> {
    const COMPONENTS: [(&str, u32); 12] = [
        ("char", 1),
        ("uchar", 1),
        ("short", 2),
        ("ushort", 2),
        ("int", 4),
        ("uint", 4),
        ("long", 8),
        ("ulong", 8),
        ("longlong", 8),
        ("ulonglong", 8),
        ("float", 4),
        ("double", 8),
    ];
    match name {
        "__nv_fp8_e4m3" | "__nv_fp8_e5m2" => return Some([1, 1]),
        "dim3" => return Some([12, 4]),
        "CUtensorMap_st" => return Some([128, 0]),
        "long4_16a" | "ulong4_16a" | "longlong4_16a" | "ulonglong4_16a" | "double4_16a" => {
            return Some([32, 16]);
        }
        "long4_32a" | "ulong4_32a" | "longlong4_32a" | "ulonglong4_32a" | "double4_32a" => {
            return Some([32, 32]);
        }
        "__half" | "__nv_bfloat16" => return Some([2, 2]),
        "__half2" | "__nv_bfloat162" => return Some([4, 4]),
        _ => {}
    }
    let count = name.chars().last()?.to_digit(10).filter(|count| (1..=4).contains(count))?;
    let (_, component) = COMPONENTS.into_iter().find(|(vector, _)| *vector == &name[..name.len() - 1])?;
    // Vectors of three are aligned like an array. Others are loaded as a whole, up to 16 bytes.
    let align = if count == 3 { component } else { (count * component).min(16) };
    Some([count * component, align])
}

/// Removes a qualifier from the end of a text. A space or the qualified `*` has to precede it.
fn qualifier<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.strip_suffix(word)?;
    rest.ends_with([' ', '*']).then(|| rest.trim_end())
}

/// Returns whether this is the name of a type: identifiers and `::`, with template arguments of any kind.
fn is_name(text: &str) -> bool {
    let text = text.replace("(anonymous namespace)", "anonymous");
    let mut depth = 0u32;
    for c in text.chars() {
        match c {
            '<' => depth += 1,
            '>' if depth == 0 => return false,
            '>' => depth -= 1,
            _ if depth > 0 => {}
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '$' | ':' => {}
            c if !c.is_ascii() => {}
            _ => return false,
        }
    }
    depth == 0 && text.starts_with(|c: char| c == '_' || c.is_alphabetic())
}

impl fmt::Display for CudaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CudaType::Scalar(scalar) => f.write_str(scalar.name()),
            CudaType::Named(text) | CudaType::Other(text) => f.write_str(text),
            CudaType::Pointer { to, is_const, is_volatile } => {
                let qualifiers = match (is_const, is_volatile) {
                    (false, false) => "",
                    (true, false) => "const",
                    (false, true) => "volatile",
                    (true, true) => "const volatile",
                };
                match &**to {
                    to if qualifiers.is_empty() => write!(f, "{to}*"),
                    to @ CudaType::Pointer { .. } => write!(f, "{to} {qualifiers}*"),
                    to => write!(f, "{qualifiers} {to}*"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_read_as_they_are_written() {
        for (text, shown, size) in [
            ("float", "float", Some(4)),
            ("float const*", "const float*", Some(8)),
            ("unsigned int const volatile*", "const volatile unsigned int*", Some(8)),
            ("float* const*", "float* const*", Some(8)),
            ("Step", "Step", None),
            ("Queue volatile*", "volatile Queue*", Some(8)),
            ("ns::Type<int, 3>", "ns::Type<int, 3>", None),
            ("ns::Type<void (*)(int), (char)3> const*", "const ns::Type<void (*)(int), (char)3>*", Some(8)),
            ("(anonymous namespace)::Hidden", "(anonymous namespace)::Hidden", None),
            ("__half", "__half", Some(2)),
            ("void const*", "const void*", Some(8)),
            ("unsigned long long", "unsigned long long", Some(8)),
        ] {
            let ty = CudaType::parse(text);
            assert!(!matches!(ty, CudaType::Other(_)), "{text}");
            assert_eq!(ty.to_string(), shown);
            assert_eq!(ty.size(), size, "{text}");
            assert_eq!(CudaType::parse(shown), ty);
        }
    }

    #[test]
    fn odd_types_are_kept_as_text() {
        for text in [
            "void (*)(int)",
            "float (&) [4]",
            "float4 const&",
            "int (*) [3]",
            "decltype (x+1)",
            "",
            ">",
            "a<",
        ] {
            assert_eq!(CudaType::parse(text), CudaType::Other(text.to_owned()));
        }
        assert!(matches!(CudaType::parse(&format!("int{}", "*".repeat(100_000))), CudaType::Pointer { .. }));
    }

    #[test]
    fn a_name_that_ends_like_a_qualifier_is_a_name() {
        assert_eq!(CudaType::parse("my_const"), CudaType::Named("my_const".to_owned()));
    }
}
