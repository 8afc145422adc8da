//! Writes the findings as text: one line each, then a line with the counts.

use std::io::{self, Write};

use kernel_registry_command::many;

use crate::binary::fatbins::HandedOver;
use crate::commands::check::findings::{FindingKind, Report, Subject};

pub(super) fn write(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    for finding in &report.findings {
        let what = finding.kind.as_str();
        match &finding.subject {
            Subject::Declaration { kernel, .. } => {
                let (path, file, line) = (kernel.path, kernel.file, kernel.line);
                writeln!(out, "{what}: {path} ({file}:{line}): {}", finding.message)?;
            }
            Subject::Entry { .. } | Subject::Image => writeln!(out, "{what}: {}", finding.message)?,
        }
    }
    let count =
        |is: fn(FindingKind) -> bool| report.findings.iter().filter(|finding| is(finding.kind)).count();
    let mismatches = count(|what| matches!(what, FindingKind::Mismatch(_)));
    let mut counts = vec![
        if mismatches == 1 { "1 mismatch".to_owned() } else { format!("{mismatches} mismatches") },
        format!("{} missing", count(|what| what == FindingKind::Missing)),
        format!("{} unused", count(|what| what == FindingKind::Unused)),
    ];
    let unchecked = count(|what| what == FindingKind::Unchecked);
    if unchecked > 0 {
        counts.push(format!("{unchecked} unchecked"));
    }
    let names = count(|what| what == FindingKind::Names);
    if names > 0 {
        counts.push(format!("{names} with other names"));
    }
    let unlinked = count(|what| what == FindingKind::Unlinked);
    if unlinked > 0 {
        counts.push(format!("{} not linked", many(unlinked, "crate")));
    }
    let unwarmed = count(|what| what == FindingKind::Unwarmed);
    if unwarmed > 0 {
        counts.push(format!("{unwarmed} unwarmed"));
    }
    let compiled = count(|what| what == FindingKind::Jit);
    if compiled > 0 {
        counts.push(format!("{compiled} compiled by the driver"));
    }
    let notes = count(|what| what == FindingKind::Partial);
    if notes > 0 {
        counts.push(many(notes, "note"));
    }
    if report.unread.variants > 0 {
        counts.push(format!("{} unread", report.unread.variants));
    }
    if report.linked > 0 {
        writeln!(out, "{}", HandedOver::All.describe(report.linked))?;
    }
    writeln!(
        out,
        "{} against {}: {}",
        many(report.declarations, "declaration"),
        many(report.images, "image"),
        counts.join(", ")
    )
}
