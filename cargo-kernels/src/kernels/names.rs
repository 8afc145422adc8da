//! Matches kernels against names on the command line: Rust paths or their ends, and C++ names.

use kernel_registry_image::Signature;

/// How many names we suggest if no kernel matches.
const MOST: usize = 3;

/// Returns whether a name is a kernel's path or the end of it.
pub(crate) fn is_path(path: &str, name: &str) -> bool {
    let ends_so = |path: &str| {
        let front = path.strip_suffix(name).filter(|_| !name.is_empty());
        front.is_some_and(|front| front.is_empty() || front.ends_with("::"))
    };
    // Without arguments, a generic kernel's name matches all instances.
    let generic = path.find("::<").map(|at| &path[..at]);
    ends_so(path) || generic.is_some_and(ends_so)
}

/// Returns whether a name is a kernel's C++ name.
pub(crate) fn is_cuda_name(symbol: &str, name: &str) -> bool {
    Signature::parse(symbol).is_some_and(|signature| signature.names().contains(&name))
}

/// Returns the paths of the kernels with the most similar names, best first. `kernels` yields each kernel's names and
/// path.
pub(crate) fn nearest<'a>(name: &str, kernels: impl Iterator<Item = ([&'a str; 3], &'a str)>) -> Vec<String> {
    let similarity = |names: [&str; 3]| {
        names.map(|there| strsim::jaro_winkler(name, there)).into_iter().fold(0.0, f64::max)
    };
    let mut near: Vec<(f64, &str)> = kernels.map(|(names, path)| (similarity(names), path)).collect();
    near.retain(|(similarity, _)| *similarity > 0.7);
    near.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.cmp(y)));
    near.dedup();
    near.truncate(MOST);
    near.into_iter().map(|(_, path)| path.to_owned()).collect()
}
