//! What NVRTC compiled: what could have been saved, and why some of it cannot be kept.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use kernel_registry_command::many;

use crate::command::report::words::{Time, paragraph, short};
use crate::record::Event;

/// The most reasons that are listed.
const REASONS: usize = 3;

/// Writes how much of these compilations was the same again, and why results cannot be kept.
pub(super) fn write(f: &mut fmt::Formatter<'_>, compilations: &[&Event]) -> fmt::Result {
    let mut keys = HashSet::new();
    let key = |event: &Event| event.subject.program().map(|program| program.key.clone());
    let key = |event: &Event| key(event).filter(|key| !key.is_empty());
    let is_again = |event: &&Event| key(event).is_some_and(|key| !keys.insert(key));
    let again: Vec<_> = compilations.iter().copied().filter(is_again).collect();
    if !again.is_empty() {
        let took: u64 = again.iter().map(|event| event.took).sum();
        paragraph(f, &format!("    {} of these were compiled before, {}", again.len(), Time(took)))?;
    }
    let mut reasons = BTreeMap::<&str, Vec<&Event>>::new();
    for event in compilations.iter().filter(|event| !event.reason.is_empty()) {
        reasons.entry(&event.reason).or_default().push(event);
    }
    let more = reasons.len().saturating_sub(REASONS);
    for (why, events) in reasons.into_iter().take(REASONS) {
        let of = if events.len() == 1 { String::new() } else { format!(" and {} more", events.len() - 1) };
        let name = short(&events[0].subject.to_string());
        paragraph(f, &format!("    `{name}`{of} cannot be kept: {why}"))?;
    }
    if more > 0 {
        writeln!(f, "    and {}; `--json` has all", many(more, "more reason"))?;
    }
    Ok(())
}
