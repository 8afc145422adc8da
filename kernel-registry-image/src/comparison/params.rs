//! Compares all parameters of a declaration with a kernel's, which may take lengths of slices besides.

use kernel_registry_format::{Pass, SliceLength};

use super::{About, Mismatch, Param, Verdict, compare_count, whole};
use crate::{Entry, ParamLayout};

/// The result of comparing all parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compared {
    /// Where the kernel finds the length of each slice, if it takes that.
    pub length: Option<SliceLength>,
    /// One for each declared parameter.
    pub verdicts: Vec<Verdict>,
}

/// Compares all parameters. `file` is the name of the image in messages.
///
/// # Errors
///
/// Their numbers differ.
pub fn compare_params(declared: &[Param<'_>], entry: &Entry, file: &str) -> Result<Compared, Mismatch> {
    let length = length(declared, entry);
    if length.is_none() {
        compare_count(declared.len(), entry, file)?;
    }
    let mut index = 0;
    let compare = |param: &Param<'_>| {
        let at = index;
        index += 1;
        match length.filter(|_| is_slice(param)) {
            // Nothing is known of its elements.
            Some(SliceLength::Within) => return Verdict::Meets,
            Some(SliceLength::Next) => index += 1,
            None => {}
        }
        param.compare(at, entry, file)
    };
    let verdicts = declared.iter().map(compare).collect();
    Ok(Compared { length, verdicts })
}

/// The difference between a declaration that was compiled with one image, and a kernel that takes lengths in another way.
pub fn other_lengths(
    declared: Option<SliceLength>,
    there: Option<SliceLength>,
    entry: &Entry,
    file: &str,
) -> Mismatch {
    let words = |length| match length {
        None => "without their lengths",
        Some(SliceLength::Next) => "with each length as the next parameter",
        Some(SliceLength::Within) => "with each length in the same parameter",
    };
    let message = format!(
        "slices are passed {} here, and {} to `{}` of `{file}`",
        words(declared),
        words(there),
        whole(entry)
    );
    Mismatch { about: About::Count, message }
}

/// Where a kernel finds the lengths of slices. CUDA C++ has no slices, so a kernel whose types are known takes none.
fn length(declared: &[Param<'_>], entry: &Entry) -> Option<SliceLength> {
    let slices = declared.iter().filter(|param| is_slice(param)).count();
    if slices == 0 || entry.signature.is_some() || !entry.c_params.is_empty() {
        return None;
    }
    let layouts = entry.params.as_slice();
    if layouts.len() == declared.len() + slices {
        let mut layouts = layouts.iter();
        let is_pair = declared.iter().all(|param| {
            let own = layouts.next();
            !is_slice(param) || (own.is_some_and(is_word) && layouts.next().is_some_and(is_length))
        });
        return is_pair.then_some(SliceLength::Next);
    }
    let mut own = declared.iter().zip(layouts).filter(|(param, _)| is_slice(param));
    let is_within = layouts.len() == declared.len() && own.all(|(_, layout)| is_two_words(layout));
    is_within.then_some(SliceLength::Within)
}

fn is_slice(param: &Param<'_>) -> bool {
    matches!(param.pass, Pass::Slice | Pass::SliceMut)
}

/// Whether it can be an address. Machine code tells sizes only.
fn is_word(layout: &ParamLayout) -> bool {
    layout.size == 8 && layout.ptx_type.as_deref().is_none_or(|ty| ["u64", "s64", "b64"].contains(&ty))
}

/// Whether it can be a length: an integer that PTX does not call a pointer.
fn is_length(layout: &ParamLayout) -> bool {
    is_word(layout) && layout.pointee_align.is_none()
}

/// Whether it can be an address and a length.
fn is_two_words(layout: &ParamLayout) -> bool {
    layout.size == 16 && layout.align.is_none_or(|align| align == 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    const PTX: &str = ".version 8.0 .target sm_75
        .entry parts(.param .f32 a, .param .u64 .ptr .align 1 x, .param .u64 x_len, .param .u64 y, .param .u64 y_len) { ret; }
        .entry whole(.param .f32 a, .param .align 8 .b8 x[16], .param .align 8 .b8 y[16]) { ret; }
        .entry floats(.param .f32 a, .param .u64 x, .param .f64 d, .param .u64 y, .param .u64 n) { ret; }
        .entry structs(.param .f32 a, .param .u64 x, .param .align 4 .b8 p[8], .param .u64 y, .param .u64 n) { ret; }
        .entry pointers(.param .f32 a, .param .u64 x, .param .u64 .ptr .align 4 p, .param .u64 y, .param .u64 n) { ret; }
        .entry vectors(.param .f32 a, .param .align 16 .b8 x[16], .param .align 16 .b8 y[16]) { ret; }
        .entry _Z3cppfPKfmPfm(.param .f32 a, .param .u64 x, .param .u64 n, .param .u64 y, .param .u64 m) { ret; }";

    /// How `(a: f32, x: &[f32], y: &mut [f32])` is compared with a kernel.
    fn compared(kernel: &str) -> Result<Compared, Mismatch> {
        let image = read(PTX.as_bytes()).unwrap();
        let param = |name, spelled, pass| Param { name, spelled, pass, layout: None };
        let declared = [
            param("a", "f32", Pass::Value),
            param("x", "&[f32]", Pass::Slice),
            param("y", "&mut [f32]", Pass::SliceMut),
        ];
        compare_params(&declared, image.find(kernel, "x.ptx").unwrap(), "x.ptx")
    }

    #[test]
    fn lengths_of_slices_are_found_in_images_of_rust_compilers() {
        for (kernel, length) in [("parts", SliceLength::Next), ("whole", SliceLength::Within)] {
            let compared = compared(kernel).unwrap();
            assert_eq!(compared.length, Some(length), "{kernel}");
            assert!(compared.verdicts.iter().all(|verdict| *verdict == Verdict::Meets), "{kernel}");
        }
    }

    #[test]
    fn other_kernels_take_no_lengths() {
        for kernel in ["floats", "structs", "pointers", "cpp"] {
            let message = compared(kernel).unwrap_err().message;
            assert!(message.ends_with("takes 5 parameters, and 3 are declared"), "{kernel}: {message}");
        }
        let vectors = compared("vectors").unwrap();
        assert_eq!(vectors.length, None);
        assert!(matches!(vectors.verdicts[1], Verdict::Wrong(_)));
    }
}
