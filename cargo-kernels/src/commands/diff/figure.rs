//! The figures of a kernel that are compared, and how they change.

use std::fmt;

use crate::document::{Resources, Variant};

/// A resource that a kernel uses in one variant of its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// Registers of a thread.
    Registers,
    /// Local memory of a thread for the kernel itself: registers that were spilled, and arrays.
    Frame,
    /// Local memory of a thread for the kernel and all that it calls.
    Stack,
    /// Static shared memory of a block.
    Shared,
    /// Machine code, or the text in PTX.
    Code,
}

impl Figure {
    pub(super) const ALL: [Figure; 5] =
        [Figure::Registers, Figure::Frame, Figure::Stack, Figure::Shared, Figure::Code];

    /// Returns the names of the figure in texts, above a column, and in JSON.
    const fn names(self) -> [&'static str; 3] {
        match self {
            Figure::Registers => ["registers", "registers", "registers"],
            Figure::Frame => ["local frame", "frame", "local_frame_bytes"],
            Figure::Stack => ["stack", "stack", "stack_bytes"],
            Figure::Shared => ["static shared memory", "shared", "static_shared_bytes"],
            Figure::Code => ["code", "code", "code_bytes"],
        }
    }

    pub(super) const fn name(self) -> &'static str {
        self.names()[0]
    }

    pub(super) const fn heading(self) -> &'static str {
        self.names()[1]
    }

    pub(super) const fn key(self) -> &'static str {
        self.names()[2]
    }

    /// Returns the value of the figure in a variant, if known.
    pub(super) fn amount(self, variant: &Variant) -> Option<Amount> {
        let of = |amount: fn(Resources) -> u32| variant.resources.map(amount).map(Amount::exactly);
        let stack = variant.resources.and_then(|resources| resources.stack);
        match self {
            Figure::Registers => of(|resources| resources.registers),
            Figure::Frame => of(|resources| resources.local_frame),
            Figure::Stack => variant.frames.recursive.map(Amount::at_least).or(stack.map(Amount::exactly)),
            Figure::Shared => of(|resources| resources.static_shared),
            Figure::Code => variant.code_bytes.map(Amount::exactly),
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Figure::Registers => "",
            _ => " B",
        }
    }
}

/// The value of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) value: u32,
    /// Whether the value is only a lower bound: the stack of recursive calls has no upper bound.
    pub(super) is_least: bool,
}

impl Amount {
    pub(super) const fn exactly(value: u32) -> Self {
        Amount { value, is_least: false }
    }

    pub(super) const fn at_least(value: u32) -> Self {
        Amount { value, is_least: true }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_more = if self.is_least { " or more" } else { "" };
        write!(f, "{}{or_more}", self.value)
    }
}

/// A figure in both builds. Either value can be unknown: PTX has no registers yet, and older JSON does not tell the code's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) figure: Figure,
    pub(super) old: Option<Amount>,
    pub(super) new: Option<Amount>,
}

impl Change {
    /// Returns whether the values differ. If one value is unknown, that is no change.
    pub(super) fn is_there(&self) -> bool {
        matches!((self.old, self.new), (Some(old), Some(new)) if old != new)
    }

    pub(super) fn is_growth(&self) -> bool {
        match (self.old, self.new) {
            (Some(old), Some(new)) => (new.is_least && !old.is_least) || new.value > old.value,
            _ => false,
        }
    }

    /// Returns by how much the value changed. Returns `None` if one value is unknown, or if only one of them is a lower bound.
    pub(super) fn difference(&self) -> Option<i64> {
        match (self.old?, self.new?) {
            (old, new) if old.is_least == new.is_least => Some(i64::from(new.value) - i64::from(old.value)),
            _ => None,
        }
    }

    /// Returns the difference in percent of the old value, or `None` if the old value is zero.
    pub(super) fn percent(&self) -> Option<f64> {
        percent(self.difference()?, self.old?.value.into())
    }
}

/// Returns a difference in percent of the old value, or `None` if the old value is zero.
pub(super) fn percent(difference: i64, old: u64) -> Option<f64> {
    (old > 0).then(|| difference as f64 * 100.0 / old as f64)
}

/// Writes a difference as `(+4, +20.0%)`.
pub(super) fn difference(difference: i64, percent: Option<f64>) -> String {
    match percent {
        Some(percent) => format!("({difference:+}, {percent:+.1}%)"),
        None => format!("({difference:+})"),
    }
}

/// Writes `20 -> 24 (+4, +20.0%)`, or only the value if it did not change.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.figure.unit();
        match (self.old, self.new) {
            (None, None) => f.write_str("-"),
            (Some(amount), None) => write!(f, "{amount}{unit} -> unknown"),
            (None, Some(amount)) => write!(f, "unknown -> {amount}{unit}"),
            (Some(old), Some(new)) if old == new => write!(f, "{new}{unit}"),
            (Some(old), Some(new)) => {
                write!(f, "{old} -> {new}{unit}")?;
                match self.difference() {
                    Some(by) => write!(f, " {}", difference(by, self.percent())),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn change(old: Option<Amount>, new: Option<Amount>) -> Change {
        Change { figure: Figure::Stack, old, new }
    }

    #[test]
    fn changes_in_words() {
        let known = |value| Some(Amount::exactly(value));
        let least = |value| Some(Amount::at_least(value));
        assert_eq!(change(known(20), known(24)).to_string(), "20 -> 24 B (+4, +20.0%)");
        assert_eq!(change(known(24), known(20)).to_string(), "24 -> 20 B (-4, -16.7%)");
        assert_eq!(change(known(0), known(16)).to_string(), "0 -> 16 B (+16)");
        assert_eq!(change(known(16), known(0)).to_string(), "16 -> 0 B (-16, -100.0%)");
        assert_eq!(change(known(16), least(16)).to_string(), "16 -> 16 or more B");
        assert_eq!(change(least(16), least(32)).to_string(), "16 or more -> 32 or more B (+16, +100.0%)");
        assert_eq!(change(known(16), None).to_string(), "16 B -> unknown");
        assert_eq!(change(known(16), known(16)).to_string(), "16 B");
        assert_eq!(change(None, None).to_string(), "-");
    }

    #[test]
    fn what_is_a_change_and_what_grew() {
        let known = |value| Some(Amount::exactly(value));
        let least = |value| Some(Amount::at_least(value));
        let both = |old, new| (change(old, new).is_there(), change(old, new).is_growth());
        assert_eq!(both(known(1), known(1)), (false, false));
        assert_eq!(both(known(1), known(2)), (true, true));
        assert_eq!(both(known(2), known(1)), (true, false));
        assert_eq!(both(known(64), least(16)), (true, true));
        assert_eq!(both(least(64), known(16)), (true, false));
        assert_eq!(both(None, known(16)), (false, false));
        assert_eq!(both(known(16), None), (false, false));
    }

    #[test]
    fn a_stack_is_exact_a_lower_bound_or_unknown() {
        let stack = |variant: Value| Figure::Stack.amount(&serde_json::from_value(variant).unwrap());
        let resources = json!({ "registers": 8, "static_shared": 0, "local_frame": 16, "stack": 24 });
        assert_eq!(
            stack(json!({ "kind": "cubin", "target": "sm_90", "resources": resources })),
            Some(Amount::exactly(24))
        );
        let recursive = json!({ "registers": 8, "static_shared": 0, "local_frame": 16, "stack": null });
        let frames = json!({ "recursive": 8240, "launched": null });
        assert_eq!(
            stack(json!({ "kind": "cubin", "target": "sm_90", "resources": recursive, "frames": frames })),
            Some(Amount::at_least(8240))
        );
        assert_eq!(stack(json!({ "kind": "ptx", "target": "sm_90", "resources": null })), None);
    }
}
