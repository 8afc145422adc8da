//! Compares names of driver functions: `cuMemAlloc` also means `cuMemAlloc_v2`.

/// Returns whether a function has this name, with or without a suffix such as `_v2` or `_v3`.
pub(crate) fn is_called(function: &str, name: &str) -> bool {
    function.strip_prefix(name).is_some_and(|suffix| suffix.is_empty() || is_version(suffix))
}

fn is_version(suffix: &str) -> bool {
    suffix.strip_prefix("_v").is_some_and(|number| number.len() == 1 && number.as_bytes()[0].is_ascii_digit())
}
