//! Finds kernels with similar names, to suggest in errors.

use crate::Entry;

/// The most names to suggest.
const MOST: usize = 3;

/// Returns names of kernels similar to `name`, the most similar first, for an error message.
///
/// `name` is compared with symbols and C++ names, with and without namespaces and template arguments. Returns
/// C++ names, or symbols for `extern "C"` kernels.
///
/// ```
/// let ptx = ".version 8.0 .target sm_75 .entry _Z5saxpyjfPKfPf() { ret; } .entry other() { ret; }";
/// let image = kernel_registry_image::read(ptx.as_bytes())?;
/// let entries = &image.variants[0].entries;
/// assert_eq!(kernel_registry_image::near("saxby", entries), ["saxpy"]);
/// # Ok::<(), kernel_registry_image::Error>(())
/// ```
pub fn near<'a>(name: &str, entries: impl IntoIterator<Item = &'a Entry>) -> Vec<&'a str> {
    let mut found: Vec<(f64, &str)> = entries
        .into_iter()
        .map(|entry| (similarity(name, entry), entry.name()))
        .filter(|(similarity, _)| *similarity > 0.7)
        .collect();
    found.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.cmp(y)));
    found.dedup_by_key(|(_, name)| *name);
    found.truncate(MOST);
    found.into_iter().map(|(_, name)| name).collect()
}

fn similarity(name: &str, entry: &Entry) -> f64 {
    let names = entry.signature.as_ref().map(|signature| signature.names());
    let candidates = names.into_iter().flatten().chain([entry.symbol.as_str()]);
    // Jaro-Winkler takes quadratic time, so long names aren't compared. Typed names are short.
    let short = |text: &str| text.len() <= 256;
    let similarity = |candidate: &str| strsim::jaro_winkler(name, candidate);
    candidates.filter(|c| short(name) && short(c)).map(similarity).fold(0.0, f64::max)
}
