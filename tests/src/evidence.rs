//! The rows of the census that show each rule: `tests/census/rules.json`, in the order of the rules.

use std::sync::LazyLock;

use kernel_registry_cuda::rules::{RULES, Rule};
use serde::Deserialize;

/// What the census shows of a rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The rule's name.
    rule: String,
    /// `lazy` or `eager`, if the rule holds in that loading mode only.
    pub mode: Option<String>,
    /// Whether a kernel can wait on the device although its launch has returned.
    #[serde(default)]
    pub kernel_waits: bool,
    /// Rows that wait by this rule.
    pub rows: Vec<String>,
    /// Rows that make such a call and do not wait, because the rule's condition does not hold.
    #[serde(default)]
    pub runs: Vec<String>,
    /// Rows whose call returns beside a resident kernel, and gives a kernel that then waits for it.
    #[serde(default)]
    pub later: Vec<String>,
}

impl Evidence {
    /// Whether the rule holds in this loading mode.
    pub fn holds(&self, mode: &str) -> bool {
        self.mode.as_ref().is_none_or(|its| its == mode)
    }

    /// Whether a row waits by the rule.
    pub fn waits(&self, row: &str) -> bool {
        self.rows.iter().any(|its| its == row)
    }

    /// Whether a row's call returns, but the kernel that it gives waits.
    pub fn waits_later(&self, row: &str) -> bool {
        self.later.iter().any(|its| its == row)
    }

    /// Whether a row is an exception that does not wait.
    pub fn runs(&self, row: &str) -> bool {
        self.runs.iter().any(|its| its == row)
    }
}

/// All rules, with what the census shows of them.
pub fn rules() -> impl Iterator<Item = (&'static Rule, &'static Evidence)> {
    static ALL: LazyLock<Vec<Evidence>> =
        LazyLock::new(|| serde_json::from_str(include_str!("../census/rules.json")).expect("JSON"));
    assert!(RULES.iter().map(|rule| rule.name).eq(ALL.iter().map(|evidence| &*evidence.rule)));
    RULES.iter().zip(&*ALL)
}
