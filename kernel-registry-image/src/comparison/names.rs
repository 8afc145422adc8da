//! Compares the parameter names of a declaration with those of the source, to find swapped parameters of the
//! same type.

use std::iter::successors;

use super::{About, Mismatch};

/// Names that a parameter can have in CUDA, but not in Rust.
const KEYWORDS: [&str; 12] =
    ["in", "type", "ref", "move", "mut", "match", "loop", "use", "mod", "where", "fn", "let"];

/// How the names of parameters differ from those of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherNames {
    /// Some names are swapped, so an argument is passed for another parameter. The number is the first such
    /// parameter's.
    Swapped(usize, Mismatch),
    /// The names differ, so the order can't be compared. The message has both.
    Differ(String),
}

/// Compares names of parameters: `declared` with those of the kernel in `file`. Letter case and underscores
/// don't count: `rowCount` is `row_count`. A keyword of Rust, such as `in`, may have any new name. Returns
/// `None` if the names agree, or if the source doesn't tell.
///
/// ```
/// use kernel_registry_image::comparison::{OtherNames, compare_names};
///
/// let source = ["x", "rowCount", "columnCount"];
/// assert_eq!(compare_names("k", &["x", "row_count", "column_count"], &source, "k.cu"), None);
/// let Some(OtherNames::Swapped(1, _)) = compare_names("k", &["y", "column_count", "row_count"], &source, "k.cu") else { panic!() };
/// assert_eq!(compare_names("k", &["input", "out"], &["in", "out"], "k.cu"), None);
/// let Some(OtherNames::Differ(_)) = compare_names("k", &["x", "rows", "columns"], &source, "k.cu") else { panic!() };
/// ```
pub fn compare_names(kernel: &str, declared: &[&str], source: &[&str], file: &str) -> Option<OtherNames> {
    if declared.len() != source.len() {
        return None;
    }
    let plain =
        |names: &[&str]| names.iter().map(|name| name.replace('_', "").to_lowercase()).collect::<Vec<_>>();
    let (here, there) = (plain(declared), plain(source));
    let is_same = |index: usize| {
        here[index] == there[index] || KEYWORDS.contains(&source[index]) && !there.contains(&here[index])
    };
    if (0..here.len()).all(is_same) {
        return None;
    }
    let both = format!(
        "`{kernel}` takes `({})` in `{file}`, and `({})` is declared",
        source.join(", "),
        declared.join(", ")
    );
    let place = |index: usize| there.iter().position(|name| *name == here[index]);
    // A name is part of a permutation if following the places in the source leads back to it.
    let leads_back = |index: usize| {
        let places = successors(place(index), |at| place(*at)).take(here.len());
        places.into_iter().any(|at| at == index)
    };
    let is_swapped = |index: &usize| place(*index) != Some(*index) && leads_back(*index);
    Some(match (0..here.len()).find(is_swapped) {
        Some(index) => {
            let message = format!("{both}: declare the parameters in the order of the source");
            OtherNames::Swapped(index, Mismatch { about: About::Names, message })
        }
        None => OtherNames::Differ(format!(
            "{both}: use the source's names, by which swapped parameters are found"
        )),
    })
}
