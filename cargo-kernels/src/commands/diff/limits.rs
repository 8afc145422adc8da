//! Limits for changes, and the changes that exceed them.

use super::comparison::Comparison;
use super::figure::{Change, Figure};
use super::snapshot::Kernel;
use crate::cli::{DiffLimits, Growth};
use crate::document::Variant;

/// A change that exceeds a limit.
pub(super) enum Refusal<'a> {
    Growth {
        kernel: &'a Kernel,
        variant: &'a Variant,
        change: Change,
        /// None for a limit by `--no-new-spills`.
        limit: Option<Growth>,
    },
    Removed {
        kernel: &'a Kernel,
    },
}

impl DiffLimits {
    /// Returns the figures that have a limit, and by how much each may grow.
    fn growths(&self) -> impl Iterator<Item = (Figure, Growth)> {
        let growths = [
            (Figure::Registers, self.max_registers),
            (Figure::Stack, self.max_stack),
            (Figure::Shared, self.max_shared),
            (Figure::Code, self.max_code),
        ];
        growths.into_iter().filter_map(|(figure, growth)| Some((figure, growth?)))
    }

    pub(super) fn refusals<'a>(&self, comparison: &Comparison<'a>) -> Vec<Refusal<'a>> {
        let mut refusals = Vec::new();
        if self.no_removed {
            refusals.extend(comparison.removed.iter().map(|kernel| Refusal::Removed { kernel }));
        }
        for (kernel, changed) in comparison.changed_variants() {
            let refusal = |change, limit| Refusal::Growth { kernel, variant: changed.variant, change, limit };
            for change in changed.figures {
                let limits = self.growths().filter(|(figure, _)| *figure == change.figure);
                let exceeded = limits.filter(|(_, growth)| growth.is_exceeded(&change));
                refusals.extend(exceeded.map(|(_, growth)| refusal(change, Some(growth))));
                if self.no_new_spills && change.figure == Figure::Frame && change.is_growth() {
                    refusals.push(refusal(change, None));
                }
            }
        }
        refusals
    }

    /// Returns a note for each limit that could not be checked, because no kernel has its figure in both builds.
    pub(super) fn notes(&self, comparison: &Comparison<'_>) -> Vec<String> {
        let frames = self.no_new_spills.then_some(("--no-new-spills", Figure::Frame));
        let limits = self.growths().map(|(figure, _)| (option(figure), figure)).chain(frames);
        let unchecked = limits.filter(|(_, figure)| !comparison.compared.contains(figure));
        let note = |(option, figure): (&str, Figure)| {
            format!(
                "`{option}` was not checked, because no kernel has its {} on both sides: PTX tells no resources, and files of \
                 older versions no code",
                figure.name()
            )
        };
        unchecked.map(note).collect()
    }
}

/// Returns the option that limits a figure.
const fn option(figure: Figure) -> &'static str {
    match figure {
        Figure::Registers => "--max-registers",
        Figure::Frame => "--no-new-spills",
        Figure::Stack => "--max-stack",
        Figure::Shared => "--max-shared",
        Figure::Code => "--max-code",
    }
}

impl Growth {
    fn is_exceeded(self, change: &Change) -> bool {
        let (Some(old), Some(new)) = (change.old, change.new) else { return false };
        if new.is_least != old.is_least {
            // A stack that lost its bound exceeds every limit. If it has a bound again, there is no old bound to compare with.
            return new.is_least;
        }
        let (before, after) = (u64::from(old.value), u64::from(new.value));
        match self {
            Growth::Units(units) => after > before + u64::from(units),
            Growth::Percent(thousandths) => {
                after > before && (after - before) * 100_000 > before * u64::from(thousandths)
            }
        }
    }
}

impl Refusal<'_> {
    pub(super) fn kernel(&self) -> &Kernel {
        match self {
            Refusal::Growth { kernel, .. } | Refusal::Removed { kernel } => kernel,
        }
    }

    /// Returns the limit as the command line has it.
    pub(super) fn limit(&self) -> String {
        match self {
            Refusal::Growth { change, limit: Some(limit), .. } => {
                format!("{} {limit}", option(change.figure))
            }
            Refusal::Growth { limit: None, .. } => "--no-new-spills".to_owned(),
            Refusal::Removed { .. } => "--no-removed".to_owned(),
        }
    }

    /// Returns what happened to the kernel: `registers 20 -> 24 (+4, +20.0%) on sm_90`.
    pub(super) fn what(&self) -> String {
        match self {
            Refusal::Growth { variant, change, .. } => {
                format!("{} {change} on {}", change.figure.name(), variant.name())
            }
            Refusal::Removed { .. } => "removed".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::diff::comparison::tests::{kernel, snapshot};
    use crate::commands::diff::figure::Amount;

    fn growth(text: &str) -> Growth {
        text.parse().unwrap()
    }

    fn is_exceeded(limit: &str, old: Amount, new: Amount) -> bool {
        let change = Change { figure: Figure::Stack, old: Some(old), new: Some(new) };
        growth(limit).is_exceeded(&change)
    }

    #[test]
    fn a_limit_itself_is_allowed() {
        let exceeded = |limit, old, new| is_exceeded(limit, Amount::exactly(old), Amount::exactly(new));
        assert!(!exceeded("+10%", 30, 33));
        assert!(exceeded("+10%", 30, 34));
        assert!(!exceeded("+8", 30, 38));
        assert!(exceeded("+8", 30, 39));
        assert!(!exceeded("+0", 30, 30));
        assert!(!exceeded("+0", 30, 1));
        assert!(!exceeded("+0.1%", 1000, 1001));
        assert!(exceeded("+0.1%", 1000, 1002));
        assert!(!exceeded("+100%", u32::MAX / 2, u32::MAX - 1));
    }

    #[test]
    fn from_zero_on_a_percentage_allows_nothing() {
        let exceeded = |limit, new| is_exceeded(limit, Amount::exactly(0), Amount::exactly(new));
        assert!(!exceeded("+10%", 0));
        assert!(exceeded("+10%", 1));
        assert!(!exceeded("+8", 8));
    }

    #[test]
    fn a_stack_without_a_bound_exceeds_every_limit() {
        let (known, least) = (Amount::exactly, Amount::at_least);
        assert!(is_exceeded("+100%", known(8240), least(16)));
        assert!(!is_exceeded("+0", least(16), known(8240)));
        assert!(is_exceeded("+10%", least(100), least(200)));
        assert!(!is_exceeded("+10%", least(100), least(110)));
    }

    #[test]
    fn what_one_side_does_not_know_exceeds_nothing() {
        let change = Change { figure: Figure::Code, old: None, new: Some(Amount::exactly(9)) };
        assert!(!growth("+0").is_exceeded(&change));
    }

    #[test]
    fn refusals_name_kernel_architecture_and_limit() {
        let figures = |registers, frame| [Some(registers), Some(frame), Some(frame), Some(0), Some(128)];
        let old = snapshot([kernel("a::f", &[("sm_90", figures(20, 0))]), kernel("gone", &[])]);
        let new = snapshot([
            kernel("a::f", &[("sm_90", figures(24, 16))]),
            kernel("new", &[("sm_90", figures(255, 99))]),
        ]);
        let comparison = Comparison::new(&old, &new);
        let limits = DiffLimits {
            max_registers: Some(growth("+10%")),
            max_stack: Some(growth("+32")),
            no_new_spills: true,
            no_removed: true,
            ..DiffLimits::default()
        };
        let refusals = limits.refusals(&comparison);
        let words =
            |refusal: &Refusal<'_>| [refusal.kernel().name().to_owned(), refusal.what(), refusal.limit()];
        assert_eq!(
            refusals.iter().map(words).collect::<Vec<_>>(),
            [
                ["gone", "removed", "--no-removed"],
                ["a::f", "registers 20 -> 24 (+4, +20.0%) on sm_90", "--max-registers +10%"],
                ["a::f", "local frame 0 -> 16 B (+16) on sm_90", "--no-new-spills"],
            ]
        );
        assert!(limits.notes(&comparison).is_empty());
    }

    #[test]
    fn a_limit_that_was_not_checked_is_noted() {
        let ptx = |text| kernel("k", &[("sm_75", [None, None, None, None, Some(text)])]);
        let (old, new) = (snapshot([ptx(100)]), snapshot([ptx(200)]));
        let comparison = Comparison::new(&old, &new);
        let nothing = Some(growth("+0"));
        let limits = DiffLimits { max_registers: nothing, max_code: nothing, ..DiffLimits::default() };
        assert_eq!(limits.refusals(&comparison).len(), 1);
        let notes = limits.notes(&comparison);
        assert!(notes.len() == 1 && notes[0].starts_with("`--max-registers` was not checked"), "{notes:?}");
    }
}
