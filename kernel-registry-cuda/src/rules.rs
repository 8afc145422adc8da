//! The rules by which driver calls and launches wait for running kernels, and how to prevent the wait.
//! `tests/census/rules.json` lists the rows of the census that prove each rule (`docs/census.md`).

mod table;

pub use table::*;

/// A rule by which a call or a launch waits until nothing runs on the device, or until certain work has
/// finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The rule's name in records, which stays the same when the texts change.
    pub name: &'static str,
    /// The driver functions that wait by this rule, without version suffixes.
    pub calls: &'static [&'static str],
    /// The reason for the wait, for users.
    pub because: &'static str,
    /// The change that prevents the wait, in any program.
    pub remedy: &'static str,
    /// The remedy for people who don't call CUDA themselves, if it differs.
    pub in_python: Option<&'static str>,
    /// The remedy in a program that uses kernel-registry, if `warm_all` prevents the wait.
    pub warm_all: Option<&'static str>,
    /// Whether a preload prevents the wait by loading at the start what an earlier run loaded late.
    pub can_be_preloaded: bool,
}

/// Whom a remedy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reader {
    /// The author of a program that uses kernel-registry.
    KernelRegistry,
    /// The author of a Python program.
    Python,
    /// The author of any other program.
    Other,
}

impl Rule {
    /// Returns the remedy for this kind of program.
    ///
    /// ```
    /// use kernel_registry_cuda::rules::{CONTEXT, LOAD, Reader};
    ///
    /// assert!(LOAD.remedy_for(Reader::KernelRegistry).contains("`warm_all`"));
    /// assert!(!LOAD.remedy_for(Reader::Python).contains("cudaFunc"));
    /// assert_eq!(CONTEXT.remedy_for(Reader::Python), CONTEXT.remedy);
    /// ```
    pub fn remedy_for(&self, reader: Reader) -> &'static str {
        let other = match reader {
            Reader::KernelRegistry => self.warm_all,
            Reader::Python => self.in_python,
            Reader::Other => None,
        };
        other.unwrap_or(self.remedy)
    }
}

/// Returns the rules by which a call can wait, the likeliest first. The name of the call may have a version
/// suffix: `cuMemFree_v2`. `is_loaded` says whether a launch's kernel is loaded. If it isn't, the launch only
/// waits by the rule [`LOAD`].
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

/// Returns whether a call that would wait for a resident kernel can be deferred until the kernel has ended.
/// Calls that free memory or unload code can be. `cuMemHostUnregister` and `cuIpcCloseMemHandle` can't,
/// because the program may reuse the memory as soon as they return. All other calls have results that the
/// program needs, so they are refused.
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
