//! Compares the signatures of a kernel in two builds.

use super::snapshot::{Kernel, Param};

/// A signature before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SignatureChange {
    pub(super) old: String,
    pub(super) new: String,
}

/// Compares the signatures of a kernel, as far as both builds tell them. Returns `None` if they agree. Names of parameters do not
/// matter.
pub(super) fn change(old: &Kernel, new: &Kernel) -> Option<SignatureChange> {
    if let (Some(before), Some(after)) = (&old.rust, &new.rust) {
        let types = |kernel: &Kernel| {
            let params = kernel.params.iter();
            params.map(|p| (p.ty.clone(), p.length.clone(), p.size, p.element_size)).collect::<Vec<_>>()
        };
        return (types(old) != types(new)).then(|| match before == after {
            // The types have the same names, but other sizes.
            true => SignatureChange { old: with_sizes(before, old), new: with_sizes(after, new) },
            false => SignatureChange { old: before.clone(), new: after.clone() },
        });
    }
    if let (Some(before), Some(after)) = (&old.cuda, &new.cuda) {
        return (before != after).then(|| SignatureChange { old: before.clone(), new: after.clone() });
    }
    if old.rust.is_some() || new.rust.is_some() {
        return None;
    }
    let sizes = |kernel: &Kernel| kernel.params.iter().map(|param| param.size).collect::<Vec<_>>();
    let types =
        |kernel: &Kernel| kernel.params.iter().map(|param| param.ptx.clone()).collect::<Option<Vec<_>>>();
    // Machine code tells sizes only.
    let same_types = types(old).zip(types(new)).is_none_or(|(before, after)| before == after);
    let is_same = sizes(old) == sizes(new) && same_types;
    (!is_same).then(|| SignatureChange { old: image_signature(old), new: image_signature(new) })
}

/// Returns the Rust signature with the sizes of values, and of what slices and pointers refer to.
fn with_sizes(signature: &str, kernel: &Kernel) -> String {
    let size = |param: &Param| param.element_size.unwrap_or(param.size).to_string();
    let sizes: Vec<_> = kernel.params.iter().map(size).collect();
    format!("{signature}, sizes {}", sizes.join(", "))
}

/// Returns the signature that an image tells: `name(.u64, .b8[16])`, or `name(8 B, 16 B)` for machine code.
fn image_signature(kernel: &Kernel) -> String {
    let param = |param: &Param| match &param.ptx {
        Some(ty) => format!(".{ty}"),
        None => format!("{} B", param.size),
    };
    let params: Vec<_> = kernel.params.iter().map(param).collect();
    format!("{}({})", kernel.name(), params.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(signature: &str, params: &[(&str, u32)]) -> Kernel {
        let param = |(ty, size): &(&str, u32)| Param {
            ty: Some((*ty).to_owned()),
            size: *size,
            element_size: Some(*size),
            ..Param::default()
        };
        let params = params.iter().map(param).collect();
        Kernel { rust: Some(signature.to_owned()), params, ..Kernel::default() }
    }

    fn in_ptx(params: &[(Option<&str>, u32)]) -> Kernel {
        let param = |(ptx, size): &(Option<&str>, u32)| Param {
            ptx: ptx.map(str::to_owned),
            size: *size,
            ..Param::default()
        };
        Kernel { symbol: "k".to_owned(), params: params.iter().map(param).collect(), ..Kernel::default() }
    }

    fn texts(old: &Kernel, new: &Kernel) -> Option<[String; 2]> {
        change(old, new).map(|SignatureChange { old, new }| [old, new])
    }

    #[test]
    fn types_and_layouts_count_and_names_do_not() {
        let old = declared("k(n: u32)", &[("u32", 4)]);
        assert_eq!(texts(&old, &declared("k(count: u32)", &[("u32", 4)])), None);
        let expected = ["k(n: u32)", "k(n: u64)"].map(str::to_owned);
        assert_eq!(texts(&old, &declared("k(n: u64)", &[("u64", 8)])), Some(expected));
        let [old, new] = [8, 16].map(|size| declared("k(p: Pair)", &[("Pair", size)]));
        let expected = ["k(p: Pair), sizes 8", "k(p: Pair), sizes 16"].map(str::to_owned);
        assert_eq!(texts(&old, &new), Some(expected));
    }

    #[test]
    fn images_are_compared_as_far_as_both_tell() {
        let [float, unsigned, machine] =
            [Some("f32"), Some("u32"), None].map(|ty| in_ptx(&[(Some("u64"), 8), (ty, 4)]));
        assert_eq!(texts(&float, &machine), None);
        let expected = ["k(.u64, .f32)", "k(.u64, .u32)"].map(str::to_owned);
        assert_eq!(texts(&float, &unsigned), Some(expected));
        let expected = ["k(.u64, 4 B)", "k(.u64)"].map(str::to_owned);
        assert_eq!(texts(&machine, &in_ptx(&[(Some("u64"), 8)])), Some(expected));
        // A declaration and PTX have no types in common to compare.
        assert_eq!(texts(&declared("k(n: u64)", &[("u64", 8)]), &float), None);
    }
}
