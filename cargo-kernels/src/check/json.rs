//! Writes the findings as JSON. docs/check-json.md is the schema: change it first.

use std::io::{self, Write};

use serde::Serialize;

use crate::check::findings::{Finding, FindingKind, Report, Subject};
use crate::cli::Check;

/// Raised by every change that could break a reader.
const SCHEMA: u32 = 2;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    declarations: usize,
    images: usize,
    findings: Vec<FindingEntry<'a>>,
}

#[derive(Serialize)]
struct FindingEntry<'a> {
    what: &'static str,
    about: Option<&'static str>,
    denied: bool,
    kernel: Option<KernelEntry<'a>>,
    symbol: Option<&'a str>,
    images: &'a [String],
    message: &'a str,
}

#[derive(Serialize)]
struct KernelEntry<'a> {
    binary: String,
    path: &'a str,
    #[serde(rename = "crate")]
    package: &'a str,
    version: &'a str,
    file: &'a str,
    line: u32,
    column: u32,
}

pub(super) fn write(report: &Report<'_>, options: &Check, out: &mut impl Write) -> io::Result<()> {
    let document = Document {
        schema: SCHEMA,
        declarations: report.declarations,
        images: report.images,
        findings: report.findings.iter().map(|finding| FindingEntry::of(finding, options)).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

impl<'a> FindingEntry<'a> {
    fn of(finding: &'a Finding<'a>, options: &Check) -> Self {
        let (kernel, symbol) = match &finding.subject {
            Subject::Declaration { binary, kernel } => {
                let entry = KernelEntry {
                    binary: binary.display().to_string(),
                    path: kernel.path,
                    package: kernel.package,
                    version: kernel.version,
                    file: kernel.file,
                    line: kernel.line,
                    column: kernel.column,
                };
                (Some(entry), Some(kernel.symbol))
            }
            Subject::Entry { symbol } => (None, Some(symbol.as_str())),
            Subject::Image => (None, None),
        };
        FindingEntry {
            what: finding.kind.as_str(),
            about: match finding.kind {
                FindingKind::Mismatch(about) => about.map(|about| about.as_str()),
                _ => None,
            },
            denied: finding.kind.is_denied(options),
            kernel,
            symbol,
            images: &finding.images,
            message: &finding.message,
        }
    }
}
