//! Reads `tests/census/rules.json`, which has the rows of the census that prove each rule, in the order of
//! the rules.

use std::sync::LazyLock;

use kernel_registry_cuda::rules::{RULES, Rule};
use serde::Deserialize;

/// The rows of the census that prove a rule, and its exceptions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The rule's name.
    rule: String,
    /// `lazy` or `eager`, if the rule only holds in that loading mode.
    pub mode: Option<String>,
    /// Whether a kernel can wait on the device although its launch has returned.
    #[serde(default)]
    pub kernel_waits: bool,
    /// Rows that wait by this rule.
    pub rows: Vec<String>,
    /// Rows that make the rule's call without waiting, because the rule's condition doesn't hold.
    #[serde(default)]
    pub runs: Vec<String>,
    /// Rows whose call returns while a resident kernel runs, but launches a kernel that then waits for the
    /// resident one.
    #[serde(default)]
    pub later: Vec<String>,
}

impl Evidence {
    /// Returns whether the rule holds in this loading mode.
    pub fn holds(&self, mode: &str) -> bool {
        self.mode.as_ref().is_none_or(|its| its == mode)
    }

    /// Returns whether a row waits by the rule.
    pub fn waits(&self, row: &str) -> bool {
        self.rows.iter().any(|its| its == row)
    }

    /// Returns whether a row's call returns, but the kernel that it launches waits.
    pub fn waits_later(&self, row: &str) -> bool {
        self.later.iter().any(|its| its == row)
    }

    /// Returns whether a row is an exception that does not wait.
    pub fn runs(&self, row: &str) -> bool {
        self.runs.iter().any(|its| its == row)
    }
}

/// Returns all rules, each with its rows of the census.
pub fn rules() -> impl Iterator<Item = (&'static Rule, &'static Evidence)> {
    static ALL: LazyLock<Vec<Evidence>> =
        LazyLock::new(|| serde_json::from_str(include_str!("../census/rules.json")).expect("JSON"));
    assert!(RULES.iter().map(|rule| rule.name).eq(ALL.iter().map(|evidence| &*evidence.rule)));
    RULES.iter().zip(&*ALL)
}
