//! Holds the rules by which driver calls and launches wait for running kernels, and what prevents the wait.
//! `tests/census/rules.json` lists the rows of the census that show each rule (`docs/census.md`).

mod table;

pub use table::*;

/// A rule by which a call or a launch waits until nothing runs on the device, or until certain work has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The rule's name in records. It stays the same when the words of the other fields change.
    pub name: &'static str,
    /// The driver functions that wait by this rule, without version suffixes.
    pub calls: &'static [&'static str],
    /// The reason for the wait, for users.
    pub because: &'static str,
    /// The change that prevents the wait, in any program.
    pub remedy: &'static str,
    /// The remedy in a program that uses kernel-registry, if `warm_all` prevents the wait.
    pub warm_all: Option<&'static str>,
}

impl Rule {
    /// Returns the remedy for a program that uses kernel-registry or for another program.
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

/// Returns the rules by which a call can wait, the likeliest first. The name of the call may have a version suffix:
/// `cuMemFree_v2`. `is_loaded` says whether the kernel of a launch is loaded. If it is not, the launch waits by the
/// rule [`LOAD`] only.
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

/// Returns the rule of this name.
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

/// Returns whether a call that would wait for a resident kernel can be deferred until the kernel has ended. Calls that
/// free memory or unload code can be deferred. `cuMemHostUnregister` and `cuIpcCloseMemHandle` cannot, because after
/// them the program may do with the memory what it likes. All other calls have a result that the program needs, so they
/// are refused.
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
