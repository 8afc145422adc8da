//! Compares kernels with the names by which people ask for them: paths or their ends, symbols, and names in C++.

use kernel_registry_image::Signature;

/// The most names to suggest if no kernel matches.
const MOST: usize = 3;

/// Returns whether a name is a kernel's path, or the end of it.
pub(crate) fn is_path(path: &str, name: &str) -> bool {
    let ends_so = |path: &str| {
        let front = path.strip_suffix(name).filter(|_| !name.is_empty());
        front.is_some_and(|front| front.is_empty() || front.ends_with("::"))
    };
    // The name of a generic kernel without arguments matches all its instances.
    let generic = path.find("::<").map(|at| &path[..at]);
    ends_so(path) || generic.is_some_and(ends_so)
}

/// Returns whether a name is a kernel's name in C++.
pub(crate) fn is_cuda_name(symbol: &str, name: &str) -> bool {
    Signature::parse(symbol).is_some_and(|signature| signature.names().contains(&name))
}

/// Returns the paths of the kernels whose names are most similar to `name`, the best first. `kernels` has the names and the path of
/// each kernel.
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
