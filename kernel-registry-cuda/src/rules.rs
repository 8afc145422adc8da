//! Which driver calls, and which launches, wait for the kernels that run, and what prevents that. The rows of the census that show
//! each rule are in `tests/census/rules.json` (`docs/census.md`).

mod table;

pub use table::*;

/// Why something waits until nothing runs on the device, or until certain work is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// Its name in records, which stays when the words change.
    pub name: &'static str,
    /// The driver's functions that wait, without the suffixes of their versions.
    pub calls: &'static [&'static str],
    /// When it waits.
    pub because: &'static str,
    /// What prevents it, in any program.
    pub remedy: &'static str,
    /// What prevents it in a program that uses kernel-registry, if `warm_all` does.
    pub warm_all: Option<&'static str>,
}

impl Rule {
    /// What prevents it, in a program that uses kernel-registry or in another.
    ///
    /// ```
    /// use kernel_registry_cuda::rules::{FREE, LOAD};
    ///
    /// assert!(LOAD.remedy_in(true).contains("`warm_all`") && !LOAD.remedy_in(false).contains("`warm_all`"));
    /// assert_eq!(FREE.remedy_in(true), FREE.remedy);
    /// ```
    pub fn remedy_in(&self, uses_kernel_registry: bool) -> &'static str {
        self.warm_all.filter(|_| uses_kernel_registry).unwrap_or(self.remedy)
    }
}

/// The rules by which a call can wait, the likeliest first. Its name may end in a version: `cuMemFree_v2`. A kernel that is not
/// loaded waits for that; the others hold for kernels that are.
///
/// ```
/// use kernel_registry_cuda::rules::{LOAD, LOCKED, QUEUE, STACK, of};
///
/// assert!(of("cuMemFree_v2", true).any(|rule| rule.remedy.contains("cuMemFreeAsync")));
/// assert!(of("cuLaunchKernelEx", false).eq(&[LOAD]));
/// assert!(of("cuLaunchKernelEx", true).eq(&[STACK, QUEUE, LOCKED]));
/// assert!(of("cuStreamQuery", true).next().is_none());
/// ```
pub fn of(call: &str, is_loaded: bool) -> impl Iterator<Item = &'static Rule> {
    let base = call.split_once('_').map_or(call, |(base, _)| base);
    let loads = !is_loaded && LOAD.calls.contains(&base);
    RULES.iter().filter(move |rule| rule.calls.contains(&base) && (**rule == LOAD) == loads)
}

/// The rule of this name.
///
/// ```
/// use kernel_registry_cuda::rules::{LOAD, named};
///
/// assert_eq!(named(LOAD.name), Some(&LOAD));
/// assert_eq!(named("of another version"), None);
/// ```
pub fn named(name: &str) -> Option<&'static Rule> {
    RULES.iter().chain(BESIDE_RESIDENT).find(|rule| rule.name == name)
}

/// Whether a call that waits for a resident kernel can be deferred until that has ended. All that free memory or unload code can, but for
/// those after which the program may do with the memory what it likes: `cuMemHostUnregister`, `cuIpcCloseMemHandle`. Every other call has a
/// result that the program needs, and is refused.
///
/// ```
/// use kernel_registry_cuda::rules::can_be_deferred;
///
/// assert!(can_be_deferred("cuMemFree_v2") && can_be_deferred("cuModuleUnload"));
/// assert!(!can_be_deferred("cuMemHostUnregister") && !can_be_deferred("cuModuleLoadData"));
/// ```
pub fn can_be_deferred(call: &str) -> bool {
    let base = call.split_once('_').map_or(call, |(base, _)| base);
    let keeps_nothing = !matches!(base, "cuMemHostUnregister" | "cuIpcCloseMemHandle");
    keeps_nothing && (FREE.calls.contains(&base) || UNLOAD.calls.contains(&base))
}
