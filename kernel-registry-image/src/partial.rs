//! Finds kernels that only some variants of an image have, such as kernels in `#if __CUDA_ARCH__ >= 900`.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Image, Target, VariantKind};

/// The variants of an image that have a kernel, and those without it.
///
/// ```
/// let module = |sm: u32, kernels: &str| format!(".version 8.0 .target sm_{sm} {kernels} .entry base() {{ ret; }}\n");
/// let ptx = module(80, "") + &module(90, ".entry cluster() { ret; }");
/// let image = kernel_registry_image::read(ptx.as_bytes())?;
/// assert_eq!(image.partial("base"), None);
/// let partial = image.partial("cluster").unwrap();
/// assert_eq!(partial.min_arch(), Some(90));
/// assert_eq!(partial.to_string(), "in the variants for sm_90, and not in those for sm_80: declare `arch = \">=90\"`");
/// # Ok::<(), kernel_registry_image::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Partial {
    /// The targets of variants that have it, in ascending order.
    pub with: Vec<Target>,
    /// The targets of variants without it.
    pub without: Vec<Target>,
}

impl Image {
    /// Returns which variants have the kernel of this symbol, unless all or none have it.
    ///
    /// Variants with the same kind and target count as one, because an image of several sources has one for
    /// each source.
    pub fn partial(&self, symbol: &str) -> Option<Partial> {
        let mut there: BTreeMap<(Target, bool), bool> = BTreeMap::new();
        for variant in &self.variants {
            let is_there = there.entry((variant.target, variant.kind == VariantKind::Cubin)).or_default();
            *is_there |= variant.entry(symbol).is_some();
        }
        let targets = |wanted: bool| {
            let targets = there.iter().filter(|(_, is_there)| **is_there == wanted);
            let mut targets: Vec<Target> = targets.map(|((target, _), _)| *target).collect();
            targets.dedup();
            targets
        };
        let partial = Partial { with: targets(true), without: targets(false) };
        (!partial.with.is_empty() && !partial.without.is_empty()).then_some(partial)
    }
}

impl Partial {
    /// Returns the lowest compute capability with the kernel, 90 for 9.0, if all variants for higher
    /// capabilities have the kernel too.
    pub fn min_arch(&self) -> Option<u32> {
        let least = self.with.first()?.sm;
        self.without.last().is_none_or(|newest| newest.sm < least).then_some(least)
    }

    /// Returns whether a declaration with this lowest compute capability excludes the variants without the
    /// kernel.
    pub fn is_declared(&self, min_arch: Option<u32>) -> bool {
        self.min_arch().zip(min_arch).is_some_and(|(least, declared)| declared >= least)
    }
}

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |targets: &[Target]| targets.iter().map(Target::to_string).collect::<Vec<_>>().join(", ");
        let (with, without) = (list(&self.with), list(&self.without));
        write!(f, "in the variants for {with}, and not in those for {without}")?;
        match self.min_arch() {
            Some(least) => write!(f, ": declare `arch = \">={least}\"`"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::read;

    fn partial(modules: &[(&str, bool)]) -> Option<(String, Option<u32>)> {
        let text = |(target, has): &(&str, bool)| {
            let kernel = if *has { "k" } else { "other" };
            format!(".version 9.0 .target {target} .entry {kernel}() {{ ret; }}\n")
        };
        let image = read(modules.iter().map(text).collect::<String>().as_bytes()).unwrap();
        image.partial("k").map(|partial| (partial.to_string(), partial.min_arch()))
    }

    #[test]
    fn a_kernel_of_all_variants_or_none_is_not_partial() {
        assert_eq!(partial(&[("sm_80", true), ("sm_90", true)]), None);
        assert_eq!(partial(&[("sm_80", false), ("sm_90", false)]), None);
        // Two sources in one image.
        assert_eq!(partial(&[("sm_80", true), ("sm_80", false)]), None);
    }

    #[test]
    fn an_arch_is_named_where_one_says_it() {
        let said = |text: &str, least| Some((text.to_owned(), least));
        assert_eq!(
            partial(&[("sm_100", true), ("sm_75", false), ("sm_90", true), ("sm_80", false)]),
            said(
                "in the variants for sm_90, sm_100, and not in those for sm_75, sm_80: declare `arch = \">=90\"`",
                Some(90)
            )
        );
        assert_eq!(
            partial(&[("sm_90", false), ("sm_90a", true)]),
            said("in the variants for sm_90a, and not in those for sm_90", None)
        );
        assert_eq!(
            partial(&[("sm_80", true), ("sm_90", false)]),
            said("in the variants for sm_80, and not in those for sm_90", None)
        );
    }
}
