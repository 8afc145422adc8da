//! Writes the findings as JSON. docs/check-json.md is the schema.

use serde_json::{Value, json};

use super::findings::{Finding, FindingKind, Report, Subject};
use crate::cli::Check;
use crate::document::Place;

/// The version of the JSON. Every change that could break a reader raises it.
const SCHEMA: u32 = 2;

pub(super) fn document(report: &Report<'_>, options: &Check) -> Value {
    json!({
        "schema": SCHEMA,
        "declarations": report.declarations,
        "images": report.images,
        "findings": report.findings.iter().map(|each| finding(each, options)).collect::<Value>(),
    })
}

fn finding(finding: &Finding<'_>, options: &Check) -> Value {
    let (kernel, symbol) = match &finding.subject {
        Subject::Declaration { binary, kernel } => (Some(Place::new(binary, kernel)), Some(kernel.symbol)),
        Subject::Entry { symbol } => (None, Some(symbol.as_str())),
        Subject::Image => (None, None),
    };
    let about = match finding.kind {
        FindingKind::Mismatch(about) => about.map(|about| about.as_str()),
        _ => None,
    };
    json!({
        "what": finding.kind.as_str(),
        "about": about,
        "denied": finding.kind.is_denied(options),
        "kernel": kernel,
        "symbol": symbol,
        "images": finding.images,
        "message": finding.message,
    })
}
